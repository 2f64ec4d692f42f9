"""Ranks and metrics against PyKEEN's rank-based evaluator, with its own filter, on the same scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from graphs import data_folder

from tuckerkg import datasets
from tuckerkg.evaluate import known_answers, rank, summarise

pytestmark = pytest.mark.peers


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
    known = known_answers([data.train, data.valid, data.test], len(data.relations))
    ranks = rank(lambda h, r: table[h, r].clone(), data.test, known, len(data.entities), len(data.relations))

    theirs = RankBasedEvaluator(filtered=True).evaluate(
        model=table_model(table, data),
        mapped_triples=torch.from_numpy(data.test),
        additional_filter_triples=[torch.from_numpy(data.train), torch.from_numpy(data.valid)],
        batch_size=64,
        use_tqdm=False,
    )
    for kind, ours in {"optimistic": ranks.best, "pessimistic": ranks.worst, "realistic": ranks.mean()}.items():
        metrics = summarise(ours, ranks.candidates, (1, 3, 10))
        for key, value in {
            "inverse_harmonic_mean_rank": metrics.mrr,
            "arithmetic_mean_rank": metrics.mr,
            "hits_at_1": metrics.hits[1],
            "hits_at_3": metrics.hits[3],
            "hits_at_10": metrics.hits[10],
        }.items():
            assert theirs.get_metric(f"both.{kind}.{key}") == pytest.approx(value, rel=1e-6, abs=1e-6), (kind, key)
    amri = summarise(ranks.mean(), ranks.candidates, (1,)).amri  # theirs is defined for realistic ranks only
    assert theirs.get_metric("both.realistic.adjusted_arithmetic_mean_rank_index") == pytest.approx(amri, abs=1e-6)
    sides = {"tail": slice(None, len(data.test)), "head": slice(len(data.test), None)}
    for side, part in sides.items():
        ours = float((1.0 / ranks.best[part].astype(np.float64)).mean())
        assert theirs.get_metric(f"{side}.optimistic.inverse_harmonic_mean_rank") == pytest.approx(ours, rel=1e-6)
