"""Filtered ranks of FB15k-237's test split, against the bare product and PyKEEN's evaluator on the same scores."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks.measure import Line, Measured, Work, alternate, once
from tuckerkg.data.dataset import Dataset
from tuckerkg.data.load import load
from tuckerkg.evaluation.ranking import CHUNK_SCORES, rank
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.kernels.dot_product import TILE, DotProduct
from tuckerkg.nn.contracts import Scorer

DIM = 100


def run(peers: bool = True) -> Iterator[Line]:
    data = load("fb15k-237")
    num_relations = len(data.relations)
    known = KnownTails.from_splits([data.train, data.valid, data.test], num_relations)
    generator = torch.Generator().manual_seed(0)
    entities = torch.randn(len(data.entities), DIM, generator=generator)
    relations = torch.randn(2 * num_relations, DIM, generator=generator)
    scorer = Product(entities, relations)
    num_queries = 2 * len(data.test)
    found = alternate(
        {
            "ours": lambda: rank(scorer, data.test, known),
            "bare GEMM": _bare(entities, num_queries),
        }
    )
    ours = found["ours"]
    work = f"fb15k-237 test, {num_queries} queries x {len(data.entities)}, d {DIM}, filtered, all tie rules"
    line = Line("evaluate", work, ours.seconds, ours.peak_memory_mb, f"{num_queries / ours.seconds:.0f} queries/s")
    line.hold("bare GEMM", found["bare GEMM"], what="all queries x all entities in tiles, nothing counted")
    line.notes = "each distinct (head, relation) question is scored once, whatever the number of its test triples"
    if peers:
        line.hold("PyKEEN", _pykeen(data, scorer), what="RankBasedEvaluator, the same scores, its own filter")
    yield line


class Product(Scorer):
    """DistMult over tables that stay as they are."""

    def __init__(self, entities: torch.Tensor, relations: torch.Tensor) -> None:
        self.num_entities, self.num_relations = len(entities), len(relations) // 2
        self.entities, self.relations, self.compare = entities, relations, DotProduct()

    def scores(self, heads: torch.Tensor, relation_ids: torch.Tensor) -> torch.Tensor:
        return self.compare(self.entities[heads] * self.relations[relation_ids], self.entities)


def _bare(entities: torch.Tensor, num_queries: int) -> Work:
    chunk = max(1, CHUNK_SCORES // len(entities))
    queries, scores = torch.randn(num_queries, DIM), torch.empty(len(entities), chunk)

    def work() -> None:
        for part in queries.split(chunk):
            for first in range(0, len(entities), TILE):
                torch.mm(entities[first : first + TILE], part.T, out=scores[first : first + TILE, : len(part)])

    return work


def _pykeen(data: Dataset, scorer: Scorer) -> Measured:
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models import Model
    from pykeen.triples import CoreTriplesFactory

    num_relations = len(data.relations)

    class Scored(Model):
        """A PyKEEN model that asks ``scorer``."""

        def _reset_parameters_(self) -> None:
            pass

        def _get_entity_len(self, **_: object) -> int:
            return len(data.entities)

        def collect_regularization_term(self) -> torch.Tensor:
            return torch.zeros(())

        def score_hrt(self, hrt_batch: torch.Tensor, **_: object) -> torch.Tensor:
            raise AssertionError("not asked for")

        def score_t(self, hr_batch: torch.Tensor, **_: object) -> torch.Tensor:
            return scorer.scores(hr_batch[:, 0], hr_batch[:, 1]).contiguous()

        def score_h(self, rt_batch: torch.Tensor, **_: object) -> torch.Tensor:
            return scorer.scores(rt_batch[:, 1], rt_batch[:, 0] + num_relations).contiguous()

        def score_r(self, ht_batch: torch.Tensor, **_: object) -> torch.Tensor:
            raise AssertionError("not asked for")

    factory = CoreTriplesFactory(torch.from_numpy(data.train), len(data.entities), num_relations)
    model = Scored(triples_factory=factory, random_seed=0)
    model.register_buffer("place", torch.zeros(1))  # tells PyKEEN the device
    evaluator = RankBasedEvaluator(filtered=True)
    return once(
        lambda: evaluator.evaluate(
            model=model,
            mapped_triples=torch.from_numpy(data.test),
            additional_filter_triples=[torch.from_numpy(data.train), torch.from_numpy(data.valid)],
            batch_size=256,
            use_tqdm=False,
        )
    )
