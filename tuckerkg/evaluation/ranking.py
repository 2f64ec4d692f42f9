"""Questions scored in chunks, and filtered ranks over all entities in both directions.

``score_chunks`` is the one pass over questions that evaluation, prediction, calibration, answer sets and explanation
share. For ranks, triples with the same question (head, relation, ?) share one row of scores; the scores that beat or
equal a target's are counted, and the same counts over the known tails are subtracted. No mask over all entities is ever
written, and memory does not grow with the number of entities.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.errors import NonFiniteError
from tuckerkg.graph.known_tails import KnownTails, rows_of
from tuckerkg.nn.contracts import Scorer
from tuckerkg.types import ProgressFunction

CHUNK_SCORES = 1 << 22  # scores held at once: 16 MiB of float32
PRODUCT_QUESTIONS = 64  # from here on a matrix product is bound by arithmetic, not by reading the entities
MOST_SCORES = 1 << 26  # ... as long as their scores take no more than 256 MB
COUNTED = 1 << 19  # scores compared at once: 2 MiB, which stay in a core's cache


@dataclass(frozen=True)
class ScoredChunk:
    """Questions (head, relation, ?) with the scores of all entities and their known tails."""

    first: int  # place of the first question among all
    heads: Tensor  # [b]
    relation_ids: Tensor  # [b] below 2R
    scores: Tensor  # [b, N]
    known: tuple[Tensor, Tensor]  # offsets [b + 1], tails [K]

    def hide_known(self, keep: Tensor | None = None) -> Tensor:
        """Set the scores of known tails to minus infinity, in place, but for the targets ``keep [b]``."""
        offsets, tails = self.known
        own = None if keep is None else self.scores.gather(1, keep[:, None])
        self.scores[rows_of(offsets), tails] = -torch.inf
        if keep is not None and own is not None:
            self.scores.scatter_(1, keep[:, None], own)
        return self.scores


def score_chunks(
    scorer: Scorer,
    heads: Tensor,
    relation_ids: Tensor,
    known: KnownTails,
    *,
    at_once: int | None = None,
    on_cpu: bool = True,
    progress: ProgressFunction | None = None,
) -> Iterator[ScoredChunk]:
    """Score questions a chunk at a time.

    Args:
        heads, relation_ids: the questions, ``[Q]`` each; relation ids below 2R.
        known: known tails of both directions.
        at_once: questions in a chunk; None: so many that a product is efficient and memory stays bounded.
        on_cpu: give a copy of the scores on the CPU, which may be overwritten.
        progress: called after each chunk is consumed.
    """
    step = at_once or questions_at_once(scorer.num_entities)
    for first in range(0, len(heads), step):
        asked, relations = heads[first : first + step], relation_ids[first : first + step]
        scores = scorer.scores(asked, relations)
        if on_cpu:  # a copy, since callers hide answers in it, and a scorer may keep what it gave
            scores = scores.cpu() if scores.device.type != "cpu" else scores.clone()
        yield ScoredChunk(first, asked, relations, scores, known.find(asked, relations))
        if progress is not None:
            progress(first + len(asked), len(heads))


def questions_at_once(num_entities: int, chunk_scores: int = CHUNK_SCORES) -> int:
    """How many questions a chunk holds."""
    few = min(PRODUCT_QUESTIONS, MOST_SCORES // max(num_entities, 1))
    return max(1, few if chunk_scores == CHUNK_SCORES else 1, chunk_scores // max(num_entities, 1))


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


def rank(
    scorer: Scorer,
    triples: np.ndarray,
    known: KnownTails,
    *,
    chunk_scores: int = CHUNK_SCORES,
    progress: ProgressFunction | None = None,
) -> Ranks:
    """Rank tail and head of each of ``triples [n, 3]`` against all entities, without the other ``known`` tails.

    Raises:
        NonFiniteError: a score is NaN or infinite, which must never count as a rank; names the triple.
    """
    num_relations = scorer.num_relations
    both = torch.from_numpy(add_inverses(triples, num_relations))  # [2n, 3]
    questions = Questions.of(both, 2 * num_relations)
    best, worst, candidates = (np.empty(len(both), dtype=np.int64) for _ in range(3))
    at_once = questions_at_once(scorer.num_entities, chunk_scores)
    for chunk in score_chunks(
        scorer, questions.heads, questions.relation_ids, known, at_once=at_once, on_cpu=False, progress=progress
    ):
        scores = chunk.scores
        place, rows = questions.targets(chunk.first, chunk.first + len(chunk.heads))
        _refuse_non_finite(scores, both[place], rows, num_relations)
        rows, tails = rows.to(scores.device), both[place, 2].to(scores.device)
        better, equal, ranked = count_rivals(scores, rows, tails, scores[rows, tails], chunk.known)
        filled = place.numpy()
        best[filled] = 1 + better.cpu().numpy()
        worst[filled] = best[filled] + equal.cpu().numpy()
        candidates[filled] = ranked.cpu().numpy()
    return Ranks(triples, best, worst, candidates)


@dataclass(frozen=True)
class Questions:
    """The distinct (head, relation) questions behind triples, those with most targets first: each is scored once."""

    heads: Tensor  # [Q]
    relation_ids: Tensor  # [Q]
    offsets: Tensor  # [Q + 1] into ``places``
    places: Tensor  # [2n] the triples that a question belongs to, question by question

    @classmethod
    def of(cls, triples: Tensor, num_relations: int) -> Questions:
        """The questions of ``triples [n, 3]``; ``num_relations`` counts inverses."""
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


def count_rivals(
    scores: Tensor, rows: Tensor, tails: Tensor, own: Tensor, known: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Candidates that beat a target, equal it (itself not counted), and are ranked, the other ``known`` taken out.

    Args:
        scores: of some candidates, ``[b, M]``.
        rows, tails, own: of each target its row, its place among the candidates, and its score, ``[t]``. Rows ascend,
            and a row has no fewer targets than the next. A target need not be among these candidates.
        known: offsets ``[b + 1]`` and places ``[K]`` of known tails among these candidates.
    """
    inside = (tails >= 0) & (tails < scores.shape[1])
    better, no_worse = _counts(scores, rows, own)
    offsets, answers = (part.to(scores.device) for part in known)
    known_rows, num_candidates = rows_of(offsets), scores.shape[1]
    rivals = scores[known_rows, answers]
    levels, level = torch.unique(torch.cat([rivals, own]), return_inverse=True)  # equal scores, equal level
    rival_keys = torch.sort(known_rows * len(levels) + level[: len(rivals)])[0]
    keys = rows * len(levels) + level[len(rivals) :]
    below, upto = torch.searchsorted(rival_keys, keys), torch.searchsorted(rival_keys, keys, right=True)
    answer_keys = known_rows * num_candidates + answers  # ascending
    is_known = (inside & torch.isin(rows * num_candidates + tails, answer_keys)).long()  # the target is no rival
    known_better, known_equal = offsets[rows + 1] - upto, upto - below - is_known
    equal = no_worse - better - inside.long() - known_equal
    ranked = num_candidates - (offsets[rows + 1] - offsets[rows]) + is_known
    return better - known_better, equal, ranked


def _counts(scores: Tensor, rows: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """How many of ``scores [b, M]`` are above each target's own score ``[t]``, and how many are not below.

    In round k the k-th target of every row that has one is counted; those rows come first.
    """
    better, no_worse = torch.empty(2, len(rows), dtype=torch.long, device=scores.device)
    per_row = torch.bincount(rows, minlength=len(scores))
    starts = torch.cumsum(per_row, 0) - per_row
    for turn in range(int(per_row.max())):
        targets = starts[: int((per_row > turn).sum())] + turn
        better[targets], no_worse[targets] = _count_above(scores[: len(targets)], own[targets, None])
    return better, no_worse


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


def _refuse_non_finite(scores: Tensor, triples: Tensor, rows: Tensor, num_relations: int) -> None:
    """NaN and infinity show in the sum; a sum that only overflowed is examined again, score by score."""
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
