"""MRR, Hits@k and mean rank from ranks, overall and by part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from math import comb
from typing import Any, Protocol

import numpy as np

from tuckerkg.evaluation.ranking import Ranks
from tuckerkg.types import JsonObject


@dataclass(frozen=True)
class Metrics:
    """Averages over queries. ``mr`` is the mean rank; ``amri`` its adjusted index: 1 perfect, 0 as good as chance."""

    mrr: float
    mr: float
    amri: float
    hits: dict[int, float]
    queries: int

    def as_dict(self) -> dict[str, float]:
        """Flat, for JSON: mrr, hits@1, ..., mr, amri, queries."""
        hits = {f"hits@{k}": value for k, value in self.hits.items()}
        return {"mrr": self.mrr, **hits, "mr": self.mr, "amri": self.amri, "queries": self.queries}


@dataclass(frozen=True)
class Evaluation:
    """Everything one evaluation says: the whole split, its parts, the other tie rules, and the protocol.

    Of a graph that the run was not trained on it also has the name, and ``hits_10_of_50`` for comparison with earlier
    tables on inductive benchmarks (``sampled_hits``).
    """

    split: str
    overall: Metrics
    ties: dict[str, Metrics]  # mean, best, worst
    seen_only: Metrics
    unseen_triples: int
    by_direction: dict[str, Metrics]
    by_relation: dict[str, Metrics]
    protocol: JsonObject
    ranks: Ranks = field(repr=False, compare=False)
    graph: str | None = None
    hits_10_of_50: float | None = None

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        seen = "entities seen in training" if self.graph is None else "entities of its facts"
        rows = {"all": self.overall, **self.by_direction, seen: self.seen_only}
        names = [name for name in self.overall.as_dict() if name != "amri"]
        title = self.split if self.graph is None else f"{self.graph}: {self.split}"
        header = "".join(f"<th>{name}</th>" for name in (escape(title), *names))
        body = ""
        for part, metrics in rows.items():
            values = metrics.as_dict()
            body += f"<tr><td>{part}</td>" + "".join(f"<td>{values[name]:.4g}</td>" for name in names) + "</tr>"
        return f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>"

    headline_name = "MRR"

    @property
    def headline(self) -> float:
        """What training maximizes on validation."""
        return self.mrr

    def figures(self) -> dict[str, float]:
        """For the log of a training."""
        return self.overall.as_dict()

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank under the random tie protocol."""
        return self.overall.mrr

    @property
    def hits(self) -> dict[int, float]:
        """Hits@k under the random tie protocol."""
        return self.overall.hits

    def as_dict(self) -> JsonObject:
        """For JSON."""
        other = {} if self.graph is None else {"graph": self.graph, "hits@10_of_50": self.hits_10_of_50}
        return {
            **other,
            "split": self.split,
            **self.overall.as_dict(),
            "seen_only": self.seen_only.as_dict(),
            "unseen_triples": self.unseen_triples,
            "ties": {rule: metrics.as_dict() for rule, metrics in self.ties.items()},
            "directions": {name: metrics.as_dict() for name, metrics in self.by_direction.items()},
            "relations": {name: metrics.as_dict() for name, metrics in self.by_relation.items()},
            "protocol": self.protocol,
        }


def summarize(ranks: np.ndarray, candidates: np.ndarray, hits: Sequence[int]) -> Metrics:
    """Average ``ranks``; chance's expected rank among c candidates is (c + 1) / 2."""
    if len(ranks) == 0:
        nothing = float("nan")
        return Metrics(nothing, nothing, nothing, dict.fromkeys(hits, nothing), 0)
    mean_rank = float(ranks.mean())
    chance = float((candidates + 1).mean() / 2.0)
    amri = 1.0 - (mean_rank - 1.0) / (chance - 1.0) if chance > 1.0 else 1.0
    return Metrics(
        mrr=float((1.0 / ranks).mean()),
        mr=mean_rank,
        amri=amri,
        hits={k: float((ranks <= k).mean()) for k in hits},
        queries=len(ranks),
    )


def sampled_hits(ranks: np.ndarray, candidates: np.ndarray, k: int = 10, sample: int = 50) -> float:
    """Hits@k if an answer were ranked among ``sample`` candidates only: itself and negatives drawn at random.

    Tables on inductive benchmarks have printed this as Hits@10 since GraIL (Teru et al., 2020), which draws 49
    negatives with replacement. One draw comes before an answer of rank ``rank`` among ``candidates`` with probability
    p = (rank - 1) / (candidates - 1), so that no draw is needed (NBFNet, Zhu et al., 2021, estimates it thus):

        sum over i < k of  C(sample - 1, i) p^i (1 - p)^(sample - 1 - i)

    Both count ties against the answer: pass the worst ranks. It says nothing about Hits@k over all entities, which is
    far lower.
    """
    if len(ranks) == 0:
        return float("nan")
    negatives = sample - 1
    before = (ranks - 1.0) / np.maximum(candidates - 1, 1)  # p [n]
    terms = [comb(negatives, i) * before**i * (1.0 - before) ** (negatives - i) for i in range(min(k, sample))]
    return float(np.sum(terms, axis=0).mean())


class Flags(Protocol):
    """Yes or no for each entity."""

    def __getitem__(self, ids: Any, /) -> Any:
        """Of the entities ``ids``, of any shape."""
        ...


def evaluation_of(
    ranks: Ranks,
    *,
    split: str,
    seen: Flags,
    relation_names: Sequence[str],
    protocol: JsonObject,
    hits: Sequence[int] = (1, 3, 10),
    tie_seed: int = 0,
    graph: str | None = None,
) -> Evaluation:
    """Summarize ranks in every way that is asked for.

    Args:
        seen: which entities occur in training, ``[N]``, or what is asked for that like an array.
        graph: the name of the graph, where it is not the one that was trained on.
    """
    drawn, n = ranks.random(tie_seed), len(ranks.triples)
    known_entities = np.tile(seen[ranks.triples[:, 0]] & seen[ranks.triples[:, 2]], 2)
    relation_ids = np.tile(ranks.triples[:, 1], 2)
    is_tail = np.arange(2 * n) < n

    def part(values: np.ndarray, chosen: np.ndarray | slice = slice(None)) -> Metrics:
        return summarize(values[chosen], ranks.candidates[chosen], hits)

    return Evaluation(
        split=split,
        overall=part(drawn),
        ties={"mean": part(ranks.mean()), "best": part(ranks.best), "worst": part(ranks.worst)},
        seen_only=part(drawn, known_entities),
        unseen_triples=int((~known_entities[:n]).sum()),
        by_direction={"tail": part(drawn, is_tail), "head": part(drawn, ~is_tail)},
        by_relation={
            relation_names[r]: part(drawn, relation_ids == r) for r in np.unique(ranks.triples[:, 1]).tolist()
        },
        protocol=protocol,
        ranks=ranks,
        graph=graph,
        hits_10_of_50=None if graph is None else sampled_hits(ranks.worst, ranks.candidates),
    )
