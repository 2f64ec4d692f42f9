"""Going on from another run's weights: the decoder first, the encoder on top of it."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import torch

from tuckerkg.checkpoint import RunFolder
from tuckerkg.config import build_model, parse_settings
from tuckerkg.errors import TuckerkgError
from tuckerkg.optimisers import Optimiser
from tuckerkg.training import State


def start_from(folder: RunFolder, former: RunFolder) -> list[str]:
    """Gives the new run ``folder`` the best weights of ``former`` as its start; names what starts afresh.

    Weights are taken over by name where shapes agree, so from another decoder its norm may come along; what
    ``former`` does not have, such as an encoder, starts as its settings say, with its output norm set to let the
    entities pass as they are. With ``train.start_tables`` "paired" the halves of a row, which are ComplEx's real and
    imaginary parts, are laid side by side, where a convolution sees both. The minutes of ``former`` count as the new
    run's. Raises TuckerkgError where the data or the widths differ: with other splits, validation of the one may have
    been training of the other.
    """
    if folder.steps():
        raise TuckerkgError(f"{folder.path}: has already begun; only a new run can start from another one")
    if list(folder.entities()) != list(former.entities()) or list(folder.relations()) != list(former.relations()):
        raise TuckerkgError(f"{former.path}: was trained on other entities or relations than {folder.path} has")
    for split in ("train", "valid"):
        if not np.array_equal(folder.split(split), former.split(split)):
            raise TuckerkgError(f"{former.path}: has another {split} split than {folder.path}")
    settings = parse_settings(folder.settings, str(folder.path))
    with torch.random.fork_rng():
        torch.manual_seed(settings.train.seed)
        model = build_model(settings, len(folder.entities()), len(folder.relations()))
    checkpoint, mine = former.best(), model.state_dict()
    taken = {
        name: tensor
        for name, tensor in checkpoint.weights.items()
        if name in mine and (mine[name].shape, mine[name].dtype) == (tensor.shape, tensor.dtype)
    }
    for name in ("entities", "relations"):
        if name not in taken:
            here, there = tuple(mine[name].shape), tuple(checkpoint.weights[name].shape)
            raise TuckerkgError(
                f"{former.path}: its table of {name} is {there}, this run's is {here}; use equal widths"
            )
    if settings.train.start_tables == "paired":
        taken |= {name: _paired(taken[name]) for name in ("entities", "relations")}
    model.load_state_dict(mine | taken)
    if hasattr(model.encoder, "settle") and not any(name.startswith("encoder.") for name in taken):
        model.encoder.settle(model.entities)  # type: ignore[operator]
    newest = former.load()
    spent = checkpoint.state if newest is None else newest.state
    state = State(minutes=spent["minutes"], cpu_minutes=spent["cpu_minutes"], started_from=former.path.resolve().name)
    fresh = Optimiser(model, settings.train.optimiser, settings.train.lr).tensors()
    folder.save(0, dict(model.state_dict()), fresh, {**asdict(state), "losses": []}, keep={0})
    return sorted(set(mine) - set(taken))


def _paired(table: torch.Tensor) -> torch.Tensor:
    """``[n, d]``: the two halves of each row, number by number."""
    if table.shape[1] % 2:
        raise TuckerkgError(f"train.start_tables: rows of {table.shape[1]} numbers have no two halves; leave it out")
    return torch.stack(table.chunk(2, 1), 2).reshape(table.shape)
