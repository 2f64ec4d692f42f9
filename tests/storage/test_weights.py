"""Weights that do not fit are refused with the tensor's name."""

from __future__ import annotations

import pytest
import torch
from run_folders import tensors

from tuckerkg.errors import RunFolderError
from tuckerkg.storage.weights import check_entity_rows, check_weights


def expected(found: dict[str, torch.Tensor]) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    return {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in found.items()}


def test_b59_both_counts_are_told() -> None:
    check_entity_rows({"entities": torch.zeros(12, 3)}, "entities", 12)
    with pytest.raises(RunFolderError, match=r"entities\.json has 12 entities but tensor 'entities' has 10 rows"):
        check_entity_rows({"entities": torch.zeros(10, 3)}, "entities", 12)
    with pytest.raises(RunFolderError, match="0 rows"):
        check_entity_rows({}, "entities", 12)


def test_b60_weights_that_fit_are_let_through() -> None:
    found = {
        **tensors(1),
        "ids": torch.arange(3),
        "empty": torch.empty(0, 2),
        "z": torch.zeros(2, dtype=torch.complex64),
    }
    check_weights(found, expected(found))


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("table", None, "'table' is missing"),
        ("extra", torch.zeros(1), "'extra' is not one of the model's: table, half"),
        ("table", torch.zeros(20, 40), r"'table' has shape \[20, 40\], the model needs \[40, 20\]"),
        (
            "table",
            torch.zeros(40, 20, dtype=torch.float64),
            "'table' has dtype torch.float64, the model needs torch.float32",
        ),
        ("half", torch.full((3, 3), float("nan"), dtype=torch.bfloat16), "'half' holds NaN or infinite"),
        ("half", torch.full((3, 3), float("-inf"), dtype=torch.bfloat16), "'half' holds NaN or infinite"),
    ],
)
def test_b60_the_tensor_that_does_not_fit_is_named(name: str, wrong: torch.Tensor | None, message: str) -> None:
    found = tensors(1)
    shapes = expected(found)
    found.pop(name, None)
    if wrong is not None:
        found[name] = wrong
    with pytest.raises(RunFolderError, match=message):
        check_weights(found, shapes)
