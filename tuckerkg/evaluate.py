"""Filtered ranks over all entities, in both directions, with the tie rule and the protocol written down.

Per chunk of queries the scores that beat or equal the target's are counted, and the same counts over the known answers
are subtracted. No mask over all entities is ever written, and memory does not grow with the number of entities.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuckerkg.answers import Answers, rows_of
from tuckerkg.errors import NonFiniteError
from tuckerkg.triples import add_inverses

CHUNK_SCORES = 1 << 24  # scores held at once: 64 MiB of float32

Scorer = Callable[[Tensor, Tensor], Tensor]
"""``scores(heads [B], relation_ids [B]) -> [B, N]``, raw, before any sigmoid; relation ids below 2R."""


@dataclass(frozen=True)
class Ranks:
    """Where each query's target stands among the candidates that are left after filtering.

    Queries are the tail questions of all triples in file order, then their head questions. ``best`` counts only
    strictly better candidates before the target, ``worst`` those of equal score too. ``candidates`` counts what
    was ranked, the target included.
    """

    triples: np.ndarray  # [n, 3]
    best: np.ndarray  # [2n]
    worst: np.ndarray  # [2n]
    candidates: np.ndarray  # [2n]

    def mean(self) -> np.ndarray:
        """The expected rank if equals are ordered at random."""
        return np.asarray((self.best + self.worst) / 2.0)

    def random(self, seed: int) -> np.ndarray:
        """One random order among equals, the paper's protocol: uniform between best and worst.

        The draw belongs to the query's place in the file, so renumbering entities leaves it as it is.
        """
        draw = np.random.default_rng(seed).random(len(self.best))
        return np.asarray(self.best + np.floor(draw * (self.worst - self.best + 1)).astype(np.int64))


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
    """Everything one evaluation says: the whole split, its parts, the other tie rules, and the protocol."""

    split: str
    overall: Metrics
    ties: dict[str, Metrics]  # mean, best, worst
    seen_only: Metrics
    unseen_triples: int
    by_direction: dict[str, Metrics]
    by_relation: dict[str, Metrics]
    protocol: dict[str, Any]
    ranks: Ranks = field(repr=False, compare=False)

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank under the random tie protocol."""
        return self.overall.mrr

    @property
    def hits(self) -> dict[int, float]:
        """Hits@k under the random tie protocol."""
        return self.overall.hits

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "split": self.split,
            **self.overall.as_dict(),
            "seen_only": self.seen_only.as_dict(),
            "unseen_triples": self.unseen_triples,
            "ties": {rule: metrics.as_dict() for rule, metrics in self.ties.items()},
            "directions": {name: metrics.as_dict() for name, metrics in self.by_direction.items()},
            "relations": {name: metrics.as_dict() for name, metrics in self.by_relation.items()},
            "protocol": self.protocol,
        }


def rank(
    scorer: Scorer,
    triples: np.ndarray,
    known: Answers,
    num_entities: int,
    num_relations: int,
    *,
    chunk_scores: int = CHUNK_SCORES,
    tick: Callable[[int, int], None] | None = None,
) -> Ranks:
    """Ranks tail and head of each of ``triples [n, 3]`` against all entities, without the other ``known`` answers.

    ``tick(done, total)`` is called after each chunk. Raises NonFiniteError with the triple where a score is NaN or
    infinite: such a score must never count as a rank.
    """
    both = torch.from_numpy(add_inverses(triples, num_relations))  # [2n, 3]
    step = max(1, chunk_scores // max(num_entities, 1))
    best, worst, candidates = (np.empty(len(both), dtype=np.int64) for _ in range(3))
    for first in range(0, len(both), step):
        chunk = both[first : first + step]
        scores = scorer(chunk[:, 0], chunk[:, 1])
        _refuse_non_finite(scores, chunk, num_relations)
        better, equal, ranked = _counts(scores, chunk.to(scores.device), known)
        place = slice(first, first + len(chunk))
        best[place] = 1 + better.cpu().numpy()
        worst[place] = best[place] + equal.cpu().numpy()
        candidates[place] = ranked.cpu().numpy()
        if tick is not None:
            tick(first + len(chunk), len(both))
    return Ranks(triples, best, worst, candidates)


def _counts(scores: Tensor, queries: Tensor, known: Answers) -> tuple[Tensor, Tensor, Tensor]:
    """How many candidates beat the target, equal it (itself not counted), and are ranked at all."""
    heads, relation_ids, tails = queries.unbind(1)
    target = scores.gather(1, tails[:, None])  # [b, 1]
    better = (scores > target).sum(1)
    equal = (scores == target).sum(1) - 1
    offsets, answers = known.find(heads, relation_ids)
    rows = rows_of(offsets)
    other = answers != tails[rows]  # the target itself is no rival
    rows, rivals, own = rows[other], scores[rows[other], answers[other]], target[rows[other], 0]
    filtered = torch.bincount(rows, minlength=len(tails))
    better = better - torch.bincount(rows[rivals > own], minlength=len(tails))
    equal = equal - torch.bincount(rows[rivals == own], minlength=len(tails))
    return better, equal, scores.shape[1] - filtered


def _refuse_non_finite(scores: Tensor, queries: Tensor, num_relations: int) -> None:
    finite = torch.isfinite(scores.sum(1)) & torch.isfinite(scores).all(1)
    if bool(finite.all()):
        return
    head, relation, tail = queries[int((~finite).nonzero()[0])].tolist()
    if relation >= num_relations:
        head, relation, tail = tail, relation - num_relations, head
    raise NonFiniteError(
        f"the scores for triple (head {head}, relation {relation}, tail {tail}) hold NaN or infinity; "
        "nothing was ranked. The weights have diverged: train again with a smaller train.lr or train.clip"
    )


def summarise(ranks: np.ndarray, candidates: np.ndarray, hits: Sequence[int]) -> Metrics:
    """Averages ``ranks``; chance's expected rank among c candidates is (c + 1) / 2."""
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


def report(
    ranks: Ranks,
    *,
    split: str,
    seen: np.ndarray,
    relation_names: Sequence[str],
    protocol: dict[str, Any],
    hits: Sequence[int] = (1, 3, 10),
    tie_seed: int = 0,
) -> Evaluation:
    """Summarises ranks in every way that is asked for. ``seen [N]`` says which entities occur in training."""
    drawn, n = ranks.random(tie_seed), len(ranks.triples)
    known_entities = np.tile(seen[ranks.triples[:, 0]] & seen[ranks.triples[:, 2]], 2)
    relation_ids = np.tile(ranks.triples[:, 1], 2)
    is_tail = np.arange(2 * n) < n

    def part(values: np.ndarray, chosen: np.ndarray | slice = slice(None)) -> Metrics:
        return summarise(values[chosen], ranks.candidates[chosen], hits)

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
    )


def describe_protocol(
    splits: dict[str, np.ndarray], *, split: str, filtered_by: Sequence[str], tie_seed: int, num_entities: int
) -> dict[str, Any]:
    """What two results must share to be comparable, with a fingerprint over all of it."""
    described: dict[str, Any] = {
        "split": split,
        "filtered_by": list(filtered_by),
        "split_sha256": {name: split_sha256(triples) for name, triples in splits.items()},
        "candidates": num_entities,
        "sides": ["tail", "head"],
        "ties": "random",
        "tie_seed": tie_seed,
        "unseen": "kept",
        "scores": "raw float32",
    }
    described["fingerprint"] = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]
    return described


def split_sha256(triples: np.ndarray) -> str:
    """A hash of the set of triples, whatever their order."""
    ordered = triples[np.lexsort(triples.T[::-1])]
    return hashlib.sha256(np.ascontiguousarray(ordered, dtype="<i8").tobytes()).hexdigest()


def known_answers(splits: Sequence[np.ndarray], num_relations: int) -> Answers:
    """The filter: known tails of both directions over ``splits``."""
    triples = add_inverses(np.concatenate(list(splits)), num_relations)
    return Answers.of(torch.from_numpy(triples), 2 * num_relations)
