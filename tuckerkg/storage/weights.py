"""Whether weights that were read fit the model and the data that they are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from tuckerkg.storage.sealed_folder import refusal


def check_weights(tensors: Mapping[str, Tensor], expected: Mapping[str, tuple[Sequence[int], torch.dtype]]) -> None:
    """Refuse weights that do not fit the model: ``expected`` maps each name to its shape and dtype.

    Raises:
        RunFolderError: names the first tensor that is missing, extra, of another shape or dtype, or not finite.
    """
    for name, (shape, dtype) in expected.items():
        if name not in tensors:
            raise refusal(f"weights: tensor {name!r} is missing. They belong to another model than the settings say.")
        tensor = tensors[name]
        if tuple(tensor.shape) != tuple(shape):
            raise refusal(f"weights: tensor {name!r} has shape {list(tensor.shape)}, the model needs {list(shape)}.")
        if tensor.dtype != dtype:
            raise refusal(f"weights: tensor {name!r} has dtype {tensor.dtype}, the model needs {dtype}.")
        if (dtype.is_floating_point or dtype.is_complex) and not _is_finite(tensor):
            raise refusal(f"weights: tensor {name!r} holds NaN or infinite values. Use an earlier checkpoint.")
    for name in tensors:
        if name not in expected:
            raise refusal(f"weights: tensor {name!r} is not one of the model's: {', '.join(expected)}.")


def check_entity_rows(tensors: Mapping[str, Tensor], name: str, num_entities: int) -> None:
    """Refuse an entity table ``tensors[name]`` that does not have one row per label in ``entities.json``.

    Raises:
        RunFolderError: with both counts.
    """
    rows = tensors[name].shape[0] if name in tensors and tensors[name].ndim else 0
    if rows != num_entities:
        raise refusal(
            f"entities.json has {num_entities:,} entities but tensor {name!r} has {rows:,} rows. "
            "The weights belong to other data; copy the whole run folder again from its origin."
        )


def restore_weights(model: nn.Module, weights: Mapping[str, Tensor], *, in_place: bool = False) -> None:
    """Load weights after checking every name, shape, type and value.

    With ``in_place`` the model takes the tensors themselves instead of copies, as those of a mapped file.
    """
    expected = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in model.state_dict().items()}
    check_weights(weights, expected)
    model.load_state_dict(weights, assign=in_place)


def _is_finite(tensor: Tensor) -> bool:
    """In parts, so that a large table needs no mask of its size."""
    return all(bool(torch.isfinite(part).all()) for part in tensor.reshape(-1).split(1 << 22))
