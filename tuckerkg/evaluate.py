"""Filtered ranks over all entities, in both directions, with the tie rule and the protocol written down.

Triples with the same question (head, relation, ?) share one row of scores. Per chunk of questions the scores that beat
or equal a target's are counted, and the same counts over the known answers are subtracted. No mask over all entities is
ever written, and memory does not grow with the number of entities.
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

CHUNK_SCORES = 1 << 22  # scores held at once: 16 MiB of float32
COUNTED = 1 << 19  # scores compared at once: 2 MiB, which stay in a core's cache

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
    questions = _Questions.of(both, 2 * num_relations)
    step = max(1, chunk_scores // max(num_entities, 1))
    best, worst, candidates = (np.empty(len(both), dtype=np.int64) for _ in range(3))
    for first in range(0, len(questions.heads), step):
        heads, relation_ids = (ids[first : first + step] for ids in (questions.heads, questions.relation_ids))
        scores = scorer(heads, relation_ids)
        place, rows = questions.targets(first, first + len(heads))
        _refuse_non_finite(scores, both[place], rows, num_relations)
        counted = _counts(scores, rows.to(scores.device), both[place, 2].to(scores.device))
        better, equal, ranked = _without_known(scores, counted, known.find(heads, relation_ids))
        filled = place.numpy()
        best[filled] = 1 + better.cpu().numpy()
        worst[filled] = best[filled] + equal.cpu().numpy()
        candidates[filled] = ranked.cpu().numpy()
        if tick is not None:
            tick(first + len(heads), len(questions.heads))
    return Ranks(triples, best, worst, candidates)


@dataclass(frozen=True)
class _Questions:
    """The distinct (head, relation) questions behind triples, those with most targets first: each is scored once."""

    heads: Tensor  # [Q]
    relation_ids: Tensor  # [Q]
    offsets: Tensor  # [Q + 1] into ``places``
    places: Tensor  # [2n] the triples that a question belongs to, question by question

    @classmethod
    def of(cls, triples: Tensor, num_relations: int) -> _Questions:
        keys, question, counts = torch.unique(
            triples[:, 0] * num_relations + triples[:, 1], return_inverse=True, return_counts=True
        )
        order = torch.argsort(counts, descending=True, stable=True)
        turned = torch.empty_like(order)
        turned[order] = torch.arange(len(order))
        offsets = torch.cat([counts.new_zeros(1), torch.cumsum(counts[order], 0)])
        places = torch.argsort(turned[question], stable=True)
        return cls(keys[order] // num_relations, keys[order] % num_relations, offsets, places)

    def targets(self, first: int, last: int) -> tuple[Tensor, Tensor]:
        """Places of the triples of questions ``first`` to ``last``, and each one's question, counted from ``first``."""
        offsets = self.offsets[first : last + 1]
        return self.places[offsets[0] : offsets[-1]], rows_of(offsets)


@dataclass(frozen=True)
class _Counted:
    """Targets ``tails [t]`` of ``rows [t]`` with their score, and how many scores of the row are above or not below."""

    rows: Tensor
    tails: Tensor
    own: Tensor
    better: Tensor
    no_worse: Tensor


def _counts(scores: Tensor, rows: Tensor, tails: Tensor) -> _Counted:
    """Counts over ``scores [b, M]``, filter aside. ``rows`` ascend, and a row has no fewer targets than the next.

    In round k the k-th target of every row that has one is counted; those rows come first.
    """
    own = scores[rows, tails]  # [t]
    better, no_worse = torch.empty(2, len(rows), dtype=torch.long, device=scores.device)
    per_row = torch.bincount(rows, minlength=len(scores))
    starts = torch.cumsum(per_row, 0) - per_row
    for turn in range(int(per_row.max())):
        targets = starts[: int((per_row > turn).sum())] + turn
        better[targets], no_worse[targets] = _count_above(scores[: len(targets)], own[targets, None])
    return _Counted(rows, tails, own, better, no_worse)


def _count_above(scores: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """How many of ``scores [b, M]`` are above ``target [b, 1]``, and how many are not below it.

    Comparisons are written as float32 and added up: on the CPU several times as fast as summing booleans. A part has
    fewer than 2^24 candidates, so these sums are exact.
    """
    width = max(1, COUNTED // max(len(scores), 1))
    better, no_worse = torch.zeros(2, len(scores), dtype=torch.long, device=scores.device)
    found = torch.empty_like(scores[:, :width], dtype=torch.float32)  # in the order that the scores have in memory
    for first in range(0, scores.shape[1], width):
        part = scores[:, first : first + width]
        marks = found[:, : part.shape[1]]
        better += torch.gt(part, target, out=marks).sum(1).long()
        no_worse += torch.ge(part, target, out=marks).sum(1).long()
    return better, no_worse


def _without_known(scores: Tensor, counted: _Counted, known: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Candidates that beat a target, equal it (itself not counted), and are ranked, the other ``known`` taken out."""
    offsets, answers = (part.to(scores.device) for part in known)
    known_rows, rows, num_entities = rows_of(offsets), counted.rows, scores.shape[1]
    rivals = scores[known_rows, answers]
    levels, level = torch.unique(torch.cat([rivals, counted.own]), return_inverse=True)  # equal scores, equal level
    rival_keys = torch.sort(known_rows * len(levels) + level[: len(rivals)])[0]
    keys = rows * len(levels) + level[len(rivals) :]
    below, upto = torch.searchsorted(rival_keys, keys), torch.searchsorted(rival_keys, keys, right=True)
    answer_keys = known_rows * num_entities + answers  # ascending
    own_keys = rows * num_entities + counted.tails
    is_known = torch.isin(own_keys, answer_keys).long()  # the target itself is no rival
    known_better, known_equal = offsets[rows + 1] - upto, upto - below - is_known
    equal = counted.no_worse - counted.better - 1 - known_equal
    ranked = num_entities - (offsets[rows + 1] - offsets[rows]) + is_known
    return counted.better - known_better, equal, ranked


def _refuse_non_finite(scores: Tensor, triples: Tensor, rows: Tensor, num_relations: int) -> None:
    """NaN and infinity show in the sum; a sum that only overflowed is looked at again, score by score."""
    finite = torch.isfinite(scores.sum(1))
    if bool(finite.all()):
        return
    finite = torch.isfinite(scores).all(1)
    if bool(finite.all()):
        return
    bad = int((~finite).nonzero()[0])
    head, relation, tail = triples[int((rows == bad).nonzero()[0])].tolist()
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
