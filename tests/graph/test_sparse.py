"""Sparse matrices with their columns scaled."""

from __future__ import annotations

import pytest
import torch

from tuckerkg.graph.sparse import SparseMatrix, SparseRows

ROWS, COLUMNS = torch.tensor([0, 2, 2, 1]), torch.tensor([1, 0, 3, 3])


def dense(weights: torch.Tensor) -> torch.Tensor:
    found = torch.zeros(3, 4, dtype=torch.double)
    found[ROWS, COLUMNS] = weights
    return found


@pytest.mark.parametrize("weighed", [True, False])
def test_scaled_columns_and_their_gradient_equal_the_dense_product(weighed):
    weights = torch.rand(4).double() if weighed else None
    matrix = SparseMatrix(SparseRows.of(ROWS, COLUMNS, weights, 3), SparseRows.of(COLUMNS, ROWS, weights, 4))
    factors, x = torch.rand(4).double(), torch.randn(4, 2).double().requires_grad_()
    expected = (dense(torch.ones(4).double() if weights is None else weights) * factors) @ x
    found = matrix.scaled(factors) @ x
    assert torch.allclose(found, expected)
    gradient = torch.randn(3, 2).double()
    assert torch.allclose(torch.autograd.grad(found, x, gradient)[0], torch.autograd.grad(expected, x, gradient)[0])


def test_one_entry_per_row_is_scaled_as_well():
    x, factors = torch.randn(4, 2), torch.rand(4)
    rows = SparseRows(torch.tensor([3, 3, 0]), None, None)
    assert torch.allclose(rows.scaled(factors) @ x, (x * factors[:, None])[[3, 3, 0]])
