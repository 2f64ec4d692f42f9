"""Warm start: a new run begins with another run's best weights, for instance an encoder on top of its decoder."""

from __future__ import annotations

from dataclasses import asdict

import torch
from torch import Tensor

from tuckerkg.config.build import build_embedding_model
from tuckerkg.config.settings import settings_of_run
from tuckerkg.errors import TuckerkgError
from tuckerkg.nn.model import Model
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.storage.same_data import check_same_data
from tuckerkg.training.callbacks import State
from tuckerkg.training.optim import ModelOptimizer

TABLES = ("entities", "relations")


def warm_start(folder: RunFolder, former: RunFolder) -> list[str]:
    """Give the new run ``folder`` the best weights of ``former`` as its start.

    Weights are taken over by name where shapes agree, so from another decoder its norm may come along. What ``former``
    does not have, such as an encoder, is initialized as the settings say, with its output norm adapted to let the
    entities pass unchanged. The minutes of ``former`` count as the new run's.

    Returns:
        The names of the weights that were initialized afresh.

    Raises:
        TuckerkgError: the data or the widths differ; with other splits, validation of the one may have been training
            of the other.
    """
    _check_data(folder, former)
    settings = settings_of_run(folder)
    kinds = settings.kind, settings_of_run(former).kind
    if kinds != ("embedding", "embedding"):
        raise TuckerkgError(
            f"{former.path}: a warm start takes over vectors of entities; this run is of kind {kinds[0]} and that one "
            f"of kind {kinds[1]}, where both must be of kind embedding"
        )
    with torch.random.fork_rng():
        torch.manual_seed(settings.train.seed)
        model = build_embedding_model(settings, len(folder.entities()), len(folder.relations()))
    best = former.checkpoints.weights("best")
    taken = _matching(model, best.weights, former)
    if settings.start.tables == "interleaved":
        taken |= {name: _interleaved(taken[name]) for name in TABLES}
    model.load_state_dict(model.state_dict() | taken)
    if not any(name.startswith("encoder.") for name in taken):
        model.encoder.init_from_data(model.entities)
    spent = former.checkpoints.weights("newest").state
    state = State(minutes=spent["minutes"], cpu_minutes=spent["cpu_minutes"], started_from=former.path.resolve().name)
    fresh = ModelOptimizer(model, settings.train.optimizer, settings.train.lr).tensors()
    folder.checkpoints.save(0, dict(model.state_dict()), fresh, {**asdict(state), "losses": []}, best=0)
    return sorted(set(model.state_dict()) - set(taken))


def _check_data(folder: RunFolder, former: RunFolder) -> None:
    if folder.checkpoints.steps():
        raise TuckerkgError(f"{folder.path}: has already begun; only a new run can start from another one")
    check_same_data(folder, former, ("train", "valid"))


def _matching(model: Model, weights: dict[str, Tensor], former: RunFolder) -> dict[str, Tensor]:
    """The weights that fit a tensor of the model by name, shape and type; both tables must be among them."""
    mine = model.state_dict()
    taken = {
        name: tensor
        for name, tensor in weights.items()
        if name in mine and (mine[name].shape, mine[name].dtype) == (tensor.shape, tensor.dtype)
    }
    for name in TABLES:
        if name not in weights:
            raise TuckerkgError(f"{former.path}: has no table of {name} to start from; start from an embedding model")
        if name not in taken:
            here, there = tuple(mine[name].shape), tuple(weights[name].shape)
            raise TuckerkgError(
                f"{former.path}: its table of {name} is {there}, this run's is {here}; use equal widths"
            )
    return taken


def _interleaved(table: Tensor) -> Tensor:
    """``[n, d]``: the two halves of each row, number by number."""
    if table.shape[1] % 2:
        raise TuckerkgError(f"start.tables: rows of {table.shape[1]} numbers have no two halves; leave it out")
    return torch.stack(table.chunk(2, 1), 2).reshape(table.shape)
