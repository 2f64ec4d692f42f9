"""The benchmark's own arithmetic, and that its contenders compute the same thing."""

from __future__ import annotations

import json

import pytest
import torch
from graphs import data_folder

from benchmarks.measure import Line, Measured, alternate
from tuckerkg.config.toml import load_settings


def test_ratio_is_the_others_seconds_over_ours():
    line = Line("read", "work", seconds=2.0, peak_memory_mb=1.0, rate="")
    line.hold("Polars", Measured(3.0, [3.0], 5.0), what="alone")
    written = json.loads(json.dumps(line.as_dict()))
    assert written["against"] == [
        {"name": "Polars", "seconds": 3.0, "ratio": 1.5, "peak_memory_mb": 5.0, "what": "alone"}
    ]
    assert {"threads", "processor"} <= set(written)


def test_contenders_alternate_and_the_median_is_taken():
    order = []
    found = alternate({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, repeats=3, warm=1)
    assert order == ["a", "b"] * 4
    assert len(found["a"].all_seconds) == 3
    assert found["a"].seconds == sorted(found["a"].all_seconds)[1]


def test_the_per_edge_form_has_our_loss_and_gradients():
    """On a random subgraph of umls: the slow form that the step is held against is the same function."""
    from benchmarks.train_step import Trainer, per_edge_loss

    data_folder()
    settings = load_settings(
        None,
        {"model.dim": 6, "model.relation_dim": 5, "batch": "subgraph", "batch.triples": 200, "batch.positives": 50},
    )
    trainer = Trainer(settings, "umls")
    trainer.model.double()
    batch = trainer.batches.batch(0)
    for name in ("in_weight", "out_degree", "multiplicity"):
        object.__setattr__(batch.graph, name, getattr(batch.graph, name).double())
    for matrix in (batch.graph.scatter.forward, batch.graph.scatter.transposed):
        object.__setattr__(matrix, "weights", matrix.weights.double())
    ours = trainer.objective(trainer.model, batch)
    slow = per_edge_loss(trainer, batch, trainer.edges(batch))
    assert ours.item() == pytest.approx(slow.item(), rel=1e-6)
    parameters = list(trainer.model.parameters())
    for mine, other in zip(torch.autograd.grad(ours, parameters), torch.autograd.grad(slow, parameters), strict=True):
        assert torch.allclose(mine, other, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("decoder", ["conve", "convtranse"])
def test_torchs_layers_one_after_the_other_make_our_queries(decoder):
    from benchmarks.convolution import layer_by_layer
    from tuckerkg.nn.decoders import DECODERS

    torch.manual_seed(0)
    options = {"height": 2, "kernel": 3} if decoder == "conve" else {}
    made = DECODERS[decoder](8, 8, input_dropout=0.0, map_dropout=0.0, dropout=0.0, **options)
    heads, relations, ids = torch.randn(5, 8), torch.randn(3, 8), torch.tensor([0, 2, 2, 1, 0])
    expected = layer_by_layer(made)(heads, relations, ids)
    assert torch.allclose(made.query(heads, relations, ids), expected, atol=1e-5)


def test_a_stage_that_was_measured_elsewhere_says_where(tmp_path):
    from benchmarks.table import write

    lines = [Line(stage, "work", seconds=2.0, peak_memory_mb=1.0, rate="").as_dict() for stage in ("read", "loss")]
    lines[1]["processor"] = "another"
    write(lines, tmp_path / "bench.md")
    written = (tmp_path / "bench.md").read_text(encoding="utf-8")
    assert written.index("## loss") < written.index("Processor: another")
    assert written.count("Processor:") == 2
