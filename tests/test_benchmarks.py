"""The benchmark's own arithmetic, and that its contenders compute the same thing."""

from __future__ import annotations

import json

import numpy as np
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


def test_the_messages_of_a_question_are_counted_as_by_hand():
    from path_questions import edges_of, small_graph

    from benchmarks.questions import messages_of
    from tuckerkg.graph.in_edges import in_edges

    triples, head, layers = small_graph(4, 12, facts=14), 3, 3
    edges = in_edges(triples, 12, 3)
    found = messages_of(edges, head, layers, np.zeros(len(edges.sources), bool))
    reached, everything = {head}, edges_of(triples, 3)
    for layer in range(layers):
        assert set(found.order[: found.counts[layer]].tolist()) == reached
        used = [(u, v) for u, _, v in everything if u in reached]
        assert found.edges(layer) == len(used)
        reached = reached | {v for _, v in used}
    assert set(found.order.tolist()) == reached
    kept = np.zeros(12, bool)
    kept[found.order[-1]] = True
    found.trace(kept)
    touched = {int(found.order[-1])}
    for layer in reversed(range(layers)):
        reached = set(found.order[: found.counts[layer]].tolist())
        touched &= set(found.order[: found.counts[layer + 1]].tolist())
        assert set(found.order[found.touched[layer]].tolist()) == touched
        used = [u for u, _, v in everything if v in touched and u in reached]
        assert found.traced(layer) == len(used)
        touched |= set(used)


def test_rows_are_gathered_and_scattered_along_the_edges():
    from benchmarks.questions import gather_sums, scatter_rows
    from tuckerkg.kernels.questions.vector_rows import Width

    random = np.random.default_rng(0)
    table, above = (random.standard_normal((5, 8)).astype(np.float32) for _ in range(2))
    starts, sources = np.array([0, 2, 2, 5, 6, 6]), np.array([1, 4, 0, 1, 2, 3], np.int32)
    out = np.empty((5, 8), np.float32)
    gather_sums(Width(8), table.ravel(), sources, starts, 3, 4, out.ravel())
    assert np.allclose(out[:4], [table[1], 0 * table[0], table[0] + table[1] + table[2], 0 * table[0]], atol=1e-6)
    out = np.zeros((5, 8), np.float32)
    scatter_rows(Width(8), table.ravel(), sources, starts, 3, np.array([0, 2]), above.ravel(), out.ravel())
    expected = [above[2] * table[0], (above[0] + above[2]) * table[1], above[2] * table[2]]
    assert np.allclose(out, [*expected, 0 * table[0], 0 * table[0]], atol=1e-6)


@pytest.mark.parametrize("stage", ["question-step", "question-answer"])
def test_questions_are_held_against_plain_pytorch_and_limits(stage):
    from benchmarks.questions import run

    data_folder()
    threads = torch.get_num_threads()
    (line,) = run(stage, peers=True, cases=(("umls", 2),), width=8, questions=6, threads=(1,))
    assert torch.get_num_threads() == threads
    names = [other["name"] for other in line.against if other["name"] not in ("PyG", "every gradient")]
    assert names == ["plain PyTorch", "rows alone", "products alone"]
    assert line.stage == stage
    assert "umls, 2 layers, width 8, 6 training questions" in line.work
    assert "rows and products alone take" in line.notes
    assert ("PyG is not installed" in line.notes) != any(other["name"] == "PyG" for other in line.against)
    json.dumps(line.as_dict())


@pytest.mark.peers
def test_pygs_message_passing_has_our_scores():
    from path_questions import path_model, small_graph

    from benchmarks.questions import PyGScores

    model, triples = path_model(9, 3), small_graph(1)
    graph = model.message_graph(triples)
    asked = PyGScores(model, graph.edges)
    hidden = np.random.default_rng(0).random(len(graph.edges.sources)) < 0.3
    for head, relation in ((0, 1), (3, 4), (8, 0)):
        question = torch.tensor([head]), torch.tensor([relation])
        for mask in (None, hidden):
            given = None if mask is None else torch.from_numpy(mask)[None]
            expected = model.plain_scores(graph.edges, *question, given)[0]
            assert torch.allclose(asked(head, relation, mask), expected, rtol=1e-10, atol=1e-10)


def test_ingest_is_measured_in_processes_of_its_own(tmp_path, monkeypatch):
    pytest.importorskip("duckdb")
    import polars as pl

    from benchmarks import ingest

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (line,) = ingest.run(3000, "300MB")
    assert "3000 triples" in line.work
    assert "limited to 300MB" in line.work
    assert [other["name"] for other in line.against] == ["plain read", "Polars, sink", "Polars, ids"]
    assert all(other["peak_memory_mb"] > 5 for other in line.against)
    file = ingest.zipf_file(tmp_path / "triples.tsv", 3000)
    assert pl.read_csv(file, separator="\t", has_header=False).shape == (3000, 3)
