"""Feature maps in chunks against torch's own convolution, norm, ReLU and linear layer."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tuckerkg.kernels import feature_maps
from tuckerkg.kernels.batch_norm import WeightedBatchNorm
from tuckerkg.kernels.feature_maps import line_windows, picture_windows, projected_maps

B, FILTERS, D = 7, 3, 4


@pytest.fixture(autouse=True, params=[1, 100])
def chunk_maps(request, monkeypatch):
    """One query at a time, and a few: the last chunk is shorter."""
    monkeypatch.setattr(feature_maps, "CHUNK_MAPS", request.param)


def parts(kind: str):
    """Input, windows of an input, the convolution, torch's norm, the projection."""
    torch.manual_seed(0)
    if kind == "picture":
        x, convolution = torch.randn(B, 6, 4).double(), nn.Conv2d(1, FILTERS, 3, bias=False).double()
        return x, lambda x: picture_windows(x, 3), convolution, nn.BatchNorm2d(FILTERS).double(), 4 * 2
    x, convolution = torch.randn(B, 2, 5).double(), nn.Conv1d(2, FILTERS, 3, padding=1, bias=False).double()
    return x, lambda x: line_windows(x, 3), convolution, nn.BatchNorm1d(FILTERS).double(), 5


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", ["picture", "line"])
@pytest.mark.parametrize("drops", ["nothing", "maps", "numbers"])
def test_values_gradients_and_statistics_equal_torchs(kind, training, drops):
    x, windows, convolution, theirs, positions = parts(kind)
    ours, project = WeightedBatchNorm(FILTERS).double(), nn.Linear(FILTERS * positions, D).double()
    with torch.no_grad():
        for name, tensor in ours.state_dict().items():
            tensor.copy_(torch.rand_like(tensor) + 0.5)
            theirs.state_dict()[name].copy_(tensor)
    ours.train(training)
    theirs.train(training)
    kept = {
        "nothing": None,
        "maps": torch.randint(2, (B, FILTERS, 1), dtype=torch.uint8),
        "numbers": torch.randint(2, (B, FILTERS, positions), dtype=torch.uint8),
    }[drops]
    x.requires_grad_()
    found = projected_maps(windows(x), convolution, ours, project, kept, 1.5)
    picture = x[:, None] if kind == "picture" else x
    maps = F.relu(theirs(convolution(picture))).flatten(2)
    expected = project((maps if kept is None else maps * kept).flatten(1) * 1.5)
    assert torch.allclose(found, expected, atol=1e-10)
    weights = torch.randn_like(expected)
    leaves = [x, convolution.weight, project.weight, project.bias]
    mine = torch.autograd.grad((found * weights).sum(), [*leaves, ours.weight, ours.bias])
    others = torch.autograd.grad((expected * weights).sum(), [*leaves, theirs.weight, theirs.bias])
    for name, one, other in zip(["x", "filters", "weight", "bias", "scale", "shift"], mine, others, strict=True):
        assert torch.allclose(one, other, atol=1e-9), name
    assert torch.allclose(ours.running_mean, theirs.running_mean)
    assert torch.allclose(ours.running_var, theirs.running_var)


def test_rounded_projections_are_close_and_gradients_keep_the_weights_type():
    x, windows, convolution, _, positions = parts("line")
    x, convolution = x.float().requires_grad_(), convolution.float()
    norm, project = WeightedBatchNorm(FILTERS).eval(), nn.Linear(FILTERS * positions, D)
    exact = projected_maps(windows(x), convolution, norm, project)
    rounded = projected_maps(windows(x), convolution, norm, project, precision="bfloat16")
    assert rounded.dtype == torch.float32
    assert not torch.equal(exact, rounded)
    assert torch.allclose(exact, rounded, atol=0.03)
    one, other = (torch.autograd.grad(value.square().sum(), [x, project.weight]) for value in (exact, rounded))
    for mine, theirs in zip(one, other, strict=True):
        assert mine.dtype == theirs.dtype == torch.float32
        assert torch.allclose(mine, theirs, atol=0.1)


def test_without_gradients_no_maps_are_kept_and_the_values_are_the_same(monkeypatch):
    x, windows, convolution, _, positions = parts("picture")
    norm, project = WeightedBatchNorm(FILTERS).double().eval(), nn.Linear(FILTERS * positions, D).double()
    kept = []
    forward = feature_maps._ProjectedMaps.forward

    def watched(ctx, *given):
        save = ctx.save_for_backward
        ctx.save_for_backward = lambda *tensors: (kept.append(tensors[-1].numel()), save(*tensors))
        return forward(ctx, *given)

    monkeypatch.setattr(feature_maps._ProjectedMaps, "forward", staticmethod(watched))
    expected = projected_maps(windows(x), convolution, norm, project)
    with torch.no_grad():
        assert torch.equal(projected_maps(windows(x), convolution, norm, project), expected)
    assert kept == [B * FILTERS * positions, 0]


def test_no_query_gives_no_rows():
    _, windows, convolution, _, positions = parts("line")
    norm, project = WeightedBatchNorm(FILTERS).double(), nn.Linear(FILTERS * positions, D).double()
    assert projected_maps(windows(torch.empty(0, 2, 5).double()), convolution, norm, project).shape == (0, D)
