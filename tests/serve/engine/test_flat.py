"""Vectors in a plane: the directions of largest variance, the same ones every time."""

from __future__ import annotations

import numpy as np
import torch

from tuckerkg.serve.engine.flat import in_plane


def test_the_two_widest_directions_are_kept():
    random = torch.Generator().manual_seed(0)
    plane = torch.randn(200, 2, generator=random, dtype=torch.float64) * torch.tensor([5.0, 2.0])
    turned = torch.linalg.qr(torch.randn(7, 7, generator=random, dtype=torch.float64)).Q[:2]
    vectors = plane @ turned + 0.01 * torch.randn(200, 7, generator=random, dtype=torch.float64) + 3.0
    places, kept = in_plane(vectors)
    assert kept > 0.999
    assert np.abs(places).max() == 1.0
    apart = torch.cdist(plane, plane).numpy()
    seen = np.linalg.norm(places[:, None] - places[None], axis=2)
    scale = apart.max() / seen.max()
    np.testing.assert_allclose(scale * seen, apart, atol=0.2)
    again, _ = in_plane(vectors[torch.randperm(200, generator=random)])
    np.testing.assert_allclose(np.sort(again, 0), np.sort(places, 0), atol=1e-9)


def test_few_or_equal_vectors_have_a_place():
    for vectors in (torch.ones(3, 4), torch.ones(1, 4), torch.randn(5, 1)):
        places, kept = in_plane(vectors)
        assert places.shape == (len(vectors), 2)
        assert np.isfinite(places).all()
        assert 0.0 <= kept <= 1.0 + 1e-9
