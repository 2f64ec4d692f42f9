"""Ranks and metrics against PyKEEN's rank-based evaluator, with its own filter, on the same scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from graphs import data_folder

from tuckerkg.data import load as datasets
from tuckerkg.evaluation.metrics import summarize
from tuckerkg.evaluation.ranking import rank
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.nn.contracts import Scorer

pytestmark = pytest.mark.peers


class Table(Scorer):
    """Scores from ``table [N, 2R, N]``."""

    def __init__(self, table):
        self.num_entities, self.num_relations, self.table = table.shape[0], table.shape[1] // 2, table

    def scores(self, heads, relation_ids):
        return self.table[heads, relation_ids].clone()


def table_model(table, data):
    """A PyKEEN model that reads its scores from ``table [N, 2R, N]``."""
    from pykeen.models import Model
    from pykeen.triples import TriplesFactory

    num_relations = len(data.relations)

    class TableModel(Model):
        def _reset_parameters_(self):
            pass

        def _get_entity_len(self, **_):
            return len(data.entities)

        def collect_regularization_term(self):
            return torch.zeros(())

        def score_hrt(self, hrt_batch, **_):
            return table[hrt_batch[:, 0], hrt_batch[:, 1], hrt_batch[:, 2]][:, None]

        def score_t(self, hr_batch, **_):
            return table[hr_batch[:, 0], hr_batch[:, 1]]

        def score_h(self, rt_batch, **_):
            return table[rt_batch[:, 1], rt_batch[:, 0] + num_relations]

        def score_r(self, ht_batch, **_):
            raise AssertionError("not asked for")

    factory = TriplesFactory(
        torch.from_numpy(data.train),
        entity_to_id={label: i for i, label in enumerate(data.entities.labels)},
        relation_to_id={label: i for i, label in enumerate(data.relations.labels)},
    )
    model = TableModel(triples_factory=factory, random_seed=0)
    model.register_buffer("table", table)  # tells PyKEEN the device
    return model


@pytest.mark.parametrize("name", ["umls", "kinship"])
@pytest.mark.parametrize("levels", [None, 7])
def test_metrics_equal_pykeens(name, levels):
    """``levels`` 7 makes many ties; None makes none to speak of."""
    from pykeen.evaluation import RankBasedEvaluator

    data = datasets.load(name, data=data_folder())
    shape = len(data.entities), 2 * len(data.relations), len(data.entities)
    generator = torch.Generator().manual_seed(3)
    table = torch.rand(shape, generator=generator)
    if levels:
        table = (table * levels).floor()
    known = KnownTails.from_splits([data.train, data.valid, data.test], len(data.relations))
    ranks = rank(Table(table), data.test, known)

    theirs = RankBasedEvaluator(filtered=True).evaluate(
        model=table_model(table, data),
        mapped_triples=torch.from_numpy(data.test),
        additional_filter_triples=[torch.from_numpy(data.train), torch.from_numpy(data.valid)],
        batch_size=64,
        use_tqdm=False,
    )
    for kind, ours in {"optimistic": ranks.best, "pessimistic": ranks.worst, "realistic": ranks.mean()}.items():
        metrics = summarize(ours, ranks.candidates, (1, 3, 10))
        for key, value in {
            "inverse_harmonic_mean_rank": metrics.mrr,
            "arithmetic_mean_rank": metrics.mr,
            "hits_at_1": metrics.hits[1],
            "hits_at_3": metrics.hits[3],
            "hits_at_10": metrics.hits[10],
        }.items():
            assert theirs.get_metric(f"both.{kind}.{key}") == pytest.approx(value, rel=1e-6, abs=1e-6), (kind, key)
    amri = summarize(ranks.mean(), ranks.candidates, (1,)).amri  # theirs is defined for realistic ranks only
    assert theirs.get_metric("both.realistic.adjusted_arithmetic_mean_rank_index") == pytest.approx(amri, abs=1e-6)
    sides = {"tail": slice(None, len(data.test)), "head": slice(len(data.test), None)}
    for side, part in sides.items():
        ours = float((1.0 / ranks.best[part].astype(np.float64)).mean())
        assert theirs.get_metric(f"{side}.optimistic.inverse_harmonic_mean_rank") == pytest.approx(ours, rel=1e-6)


@pytest.mark.parametrize(("decomposition", "option", "bases"), [("basis", "num_bases", 3), ("block", "num_blocks", 2)])
def test_r_gcn_layer_and_gradients_equal_pygs_with_copied_weights(decomposition, option, bases):
    from torch_geometric.nn import RGCNConv

    from tuckerkg.graph.message_graph import MessageGraph
    from tuckerkg.nn.encoders.rgcn import RGCNLayer

    torch.manual_seed(0)
    theirs = RGCNConv(8, 6, 5, **{option: bases}).double()
    ours = RGCNLayer(8, 6, 5, decomposition=decomposition, bases=bases).double()
    with torch.no_grad():
        ours.weight.copy_(theirs.weight)
        ours.self_loop.copy_(theirs.root)
        ours.bias.copy_(theirs.bias)
        if decomposition == "basis":
            ours.coefficients.copy_(theirs.comp)
    edges = torch.unique(torch.stack([torch.randint(high, (80,)) for high in (12, 5, 12)], 1), dim=0)
    entities = torch.randn(12, 8, dtype=torch.double, requires_grad=True)
    mine = ours(entities, MessageGraph.of(edges, 12, "relation", torch.double, "fewest"))
    other = theirs(entities, edges[:, [0, 2]].T, edges[:, 1])
    assert torch.allclose(mine, other, atol=1e-12)
    weight = torch.randn(12, 6, dtype=torch.double)
    for a, b in zip(
        torch.autograd.grad((mine * weight).sum(), (entities, ours.weight)),
        torch.autograd.grad((other * weight).sum(), (entities, theirs.weight)),
        strict=True,
    ):
        assert torch.allclose(a, b, atol=1e-12)
