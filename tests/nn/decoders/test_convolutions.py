"""ConvE and Conv-TransE against loops over pixels."""

from __future__ import annotations

import pytest
import torch

from tuckerkg.nn.decoders import ConvE, ConvTransE

IDS = torch.tensor([0, 2, 2])


def tables(dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(3, dim, dtype=torch.double), torch.randn(4, dim, dtype=torch.double)


def relu(x: float) -> float:
    return max(x, 0.0)


def at_rest(decoder: torch.nn.Module) -> torch.nn.Module:
    """Without dropout, and with norms that leave everything but for their tiny eps as it is."""
    decoder = decoder.double().eval()
    for part in decoder.modules():
        if hasattr(part, "eps"):
            part.eps = 0.0
    return decoder


@pytest.mark.parametrize("layout", ["stacked", "interleaved"])
def test_conve_equals_the_loop_over_the_picture(layout: str) -> None:
    decoder = at_rest(ConvE(6, 6, height=2, filters=2, kernel=2, layout=layout))
    heads, relations = tables(6)
    found = decoder.query(heads, relations, IDS)
    kernels = decoder.convolution.weight
    for b in range(3):
        picture = [*heads[b].view(2, 3).tolist(), *relations[IDS[b]].view(2, 3).tolist()]  # 4 x 3
        if layout == "interleaved":
            pairs = zip(heads[b].tolist(), relations[IDS[b]].tolist(), strict=True)
            numbers = [number for pair in pairs for number in pair]
            picture = [numbers[row : row + 3] for row in range(0, 12, 3)]
        maps = []
        for f in range(2):
            for y in range(3):
                for x in range(2):
                    near = sum(kernels[f, 0, i, j].item() * picture[y + i][x + j] for i in range(2) for j in range(2))
                    maps.append(relu(near))
        for k in range(6):
            row = decoder.project.weight[k].tolist()
            value = sum(w * m for w, m in zip(row, maps, strict=True)) + decoder.project.bias[k].item()
            assert found[b, k].item() == pytest.approx(relu(value), abs=1e-12)


def test_conv_transe_equals_the_loop_over_positions() -> None:
    decoder = at_rest(ConvTransE(5, 5, filters=2, kernel=3))
    heads, relations = tables(5)
    found = decoder.query(heads, relations, IDS)
    kernels = decoder.convolution.weight
    for b in range(3):
        lines = (heads[b].tolist(), relations[IDS[b]].tolist())
        maps = []
        for f in range(2):
            for x in range(5):
                near = sum(
                    kernels[f, c, i].item() * lines[c][x + i - 1]
                    for c in range(2)
                    for i in range(3)
                    if 0 <= x + i - 1 < 5
                )
                maps.append(relu(near))
        for k in range(5):
            row = decoder.project.weight[k].tolist()
            value = sum(w * m for w, m in zip(row, maps, strict=True)) + decoder.project.bias[k].item()
            assert found[b, k].item() == pytest.approx(relu(value), abs=1e-12)


@pytest.mark.parametrize("decoder", [ConvE(6, 6, height=2, kernel=2), ConvTransE(6, 6)])
def test_gradients_of_the_queries(decoder: torch.nn.Module) -> None:
    decoder = decoder.double().eval()
    heads, relations = (table.requires_grad_() for table in tables(6))
    assert torch.autograd.gradcheck(lambda h, e: decoder.query(h, e, IDS), (heads, relations))


def test_head_and_relation_that_take_turns_are_normed_each_on_its_own() -> None:
    heads, relations = torch.randn(3, 6), torch.randn(4, 6)
    for layout, differs in (("stacked", True), ("interleaved", False)):
        decoder = ConvE(6, 6, height=2, kernel=2, layout=layout, input_dropout=0.0, map_dropout=0.0, dropout=0.0)
        torch.manual_seed(0)
        found, scaled = decoder.query(heads, relations, IDS), decoder.query(heads, 1e3 * relations, IDS)
        assert torch.allclose(found, scaled, atol=1e-3) != differs


def test_the_gain_is_the_start_of_the_queries_size() -> None:
    heads, relations = torch.randn(3, 30), torch.randn(4, 30)
    found = []
    for gain in (1.0, 0.1):
        torch.manual_seed(0)
        found.append(ConvTransE(30, 30, gain=gain).query(heads, relations, IDS))
    assert torch.allclose(0.1 * found[0], found[1], atol=1e-6)


def test_the_model_sets_the_precision_of_a_training_step_only() -> None:
    decoder = ConvE(6, 6, height=2, kernel=2)
    heads, relations = torch.randn(3, 6), torch.randn(4, 6)
    exact = decoder.eval().query(heads, relations, IDS)
    decoder.set_precision("bfloat16")
    assert torch.equal(decoder.query(heads, relations, IDS), exact)


def test_one_query_alone_can_be_trained_on() -> None:
    for decoder in (ConvE(6, 6, height=2, kernel=2), ConvTransE(6, 6)):
        heads, relations = torch.randn(1, 6), torch.randn(4, 6)
        assert torch.isfinite(decoder.query(heads, relations, torch.tensor([3]))).all()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ConvE(6, 5), "relation_dim"),
        (lambda: ConvE(8, 8, height=3), "height"),
        (lambda: ConvE(8, 8, height=4, kernel=3), "kernel"),
        (lambda: ConvTransE(6, 5), "relation_dim"),
        (lambda: ConvTransE(6, 6, kernel=4), "odd"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(make, said) -> None:
    with pytest.raises(ValueError, match=said):
        make()
