"""Answers by an index: it proposes some hundred entities, which are scored exactly and put in order.

A share needs the sum over all entities, which an index does not give: it is estimated from those that were proposed,
which are known exactly and are most of it, and from a fixed random sample of the others. Where the right type has few
entities, all of them are scored; where too few proposals are left once known facts and other types are out, the
question is asked by a scan.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor

from tuckerkg.evaluation.ranking import questions_at_once
from tuckerkg.inference.answers.search import ExactSearch, Search
from tuckerkg.inference.index.candidates import GOOD_RECALL, PROPOSED, CandidateIndex
from tuckerkg.nn.embedding_scorer import EmbeddingScorer
from tuckerkg.probability.features import GraphFacts
from tuckerkg.probability.weigher import Found
from tuckerkg.types import JsonObject, ProgressFunction

SAMPLE = 20_000  # random entities
AT_ONCE = 64  # questions
FEW = 4_096  # entities of a type that are all scored
MEASURED = 500  # questions that an index is measured on; as many others choose how many lists are read


class Candidates:
    """The vectors that queries are compared with by a dot product, biases among them, and a sample of them."""

    def __init__(self, scorer: EmbeddingScorer) -> None:
        self.scorer = scorer

    @cached_property
    def vectors(self) -> Tensor:
        """``[N, d]``."""
        nothing = self.scorer.entities.new_zeros(1, self.scorer.entities.shape[1])
        with torch.no_grad():
            return self.scorer.model.comparison(nothing, self.scorer.entities)[2].detach()

    @cached_property
    def sample(self) -> Tensor:
        """Random entities, ascending; the same ones always."""
        count = self.scorer.num_entities
        chosen = torch.randperm(count, generator=torch.Generator().manual_seed(0))[: min(SAMPLE, count)]
        return chosen.sort().values

    @cached_property
    def sampled(self) -> Tensor:
        """Their vectors."""
        return self.vectors[self.sample]

    def queries(self, heads: Tensor, relation_ids: Tensor) -> Tensor:
        """``[B, d]``."""
        asked = self.scorer.queries(heads, relation_ids)
        with torch.no_grad():
            return self.scorer.model.comparison(asked, self.scorer.entities[:0], slice(0, 0))[1].contiguous()

    def scores(self, queries: Tensor, ids: Tensor) -> Tensor:
        """Exact scores ``[B, P]`` of entities ``ids [B, P]``."""
        return torch.bmm(self.vectors[ids.clamp(min=0)], queries[:, :, None])[:, :, 0].masked_fill(ids < 0, -torch.inf)

    def log_sums(self, queries: Tensor, ids: Tensor, scores: Tensor) -> Tensor:
        """The estimated log of the sum over all entities ``[B]``, float64: those in ``ids [B, P]`` are known."""
        others = (queries @ self.sampled.T).double()
        places = torch.searchsorted(self.sample, ids.clamp(min=0)).clamp(max=len(self.sample) - 1)
        rows, columns = (self.sample[places] == ids).nonzero().unbind(1)
        others[rows, places[rows, columns]] = -torch.inf
        left = (others > -torch.inf).sum(1).clamp(min=1)
        weight = (self.scorer.num_entities - (ids >= 0).sum(1)).double() / left
        of_rest = torch.logsumexp(others, 1) + weight.clamp(min=1e-300).log()
        return torch.logaddexp(torch.logsumexp(scores.double(), 1), of_rest)


class IndexedSearch(Search):
    """Scores what an index proposes."""

    def __init__(self, candidates: Candidates, index: CandidateIndex, graph: GraphFacts) -> None:
        self.candidates, self.index, self.graph = candidates, index, graph
        self.scan = ExactSearch(candidates.scorer, graph)

    def best(
        self, queries: Tensor, known: Tensor, typed: Tensor, counts: Tensor, progress: ProgressFunction | None = None
    ) -> Iterator[Found]:
        """Scores are exact; sums are estimated."""
        for first in range(0, len(queries), AT_ONCE):
            span = slice(first, first + AT_ONCE)
            count = int(counts[span].max())
            heads, relation_ids = queries[span].unbind(1)
            asked = self.candidates.queries(heads, relation_ids)
            ids = self.index.propose(asked, max(PROPOSED, 4 * count))
            scores = self.candidates.scores(asked, ids)
            totals = self.candidates.log_sums(asked, ids, scores)
            parts, too_few = [], []
            for row in range(len(asked)):
                found = self._of_question(row, asked[row], ids[row], queries[first + row], typed[first + row])
                parts.append(self._wanted(found, bool(known[first + row]), bool(typed[first + row]), count))
                complete = len(found[0]) == self._possible(int(relation_ids[row]), bool(typed[first + row]))
                if len(parts[-1][0]) < count and not complete:
                    too_few.append(row)
            yield self._joined(first, queries[span], parts, totals, set(too_few))
            if too_few:
                rows = first + torch.tensor(too_few)
                for scanned in self.scan.best(queries[rows], known[rows], typed[rows], counts[rows]):
                    yield Found(rows[scanned.questions], *list(vars(scanned).values())[1:])
            if progress is not None:
                progress(min(first + AT_ONCE, len(queries)), len(queries))

    def log_shares(
        self, anchors: Tensor, relation_ids: Tensor, answers: Tensor, progress: ProgressFunction | None = None
    ) -> tuple[Tensor, Tensor]:
        """Scores are exact, sums are estimated; every distinct question is asked once."""
        keys, owners = torch.unique(anchors * self.graph.known.num_relations + relation_ids, return_inverse=True)
        scores = torch.empty(len(answers))
        totals = torch.empty(len(keys), dtype=torch.float64)
        for first in range(0, len(keys), AT_ONCE):
            part = keys[first : first + AT_ONCE]
            asked = self.candidates.queries(
                part // self.graph.known.num_relations, part % self.graph.known.num_relations
            )
            ids = self.index.propose(asked, PROPOSED)
            totals[first : first + AT_ONCE] = self.candidates.log_sums(asked, ids, self.candidates.scores(asked, ids))
            rows = ((owners >= first) & (owners < first + AT_ONCE)).nonzero()[:, 0]
            scores[rows] = (asked[owners[rows] - first] * self.candidates.vectors[answers[rows]]).sum(1)
            if progress is not None:
                progress(min(first + AT_ONCE, len(keys)), len(keys))
        return scores, (scores.double() - totals[owners]).clamp(max=0.0)

    def _of_question(
        self, row: int, asked: Tensor, ids: Tensor, query: Tensor, typed: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Entities and their scores, ascending by entity; and the question."""
        seen = self.graph.types.seen(int(query[1])) if typed else ids[:0]
        chosen = seen if typed and len(seen) <= FEW else ids[ids >= 0].sort().values
        return chosen, self.candidates.vectors[chosen] @ asked, query

    def _wanted(
        self, found: tuple[Tensor, Tensor, Tensor], known: bool, typed: bool, count: int
    ) -> tuple[Tensor, Tensor]:
        """The best that are wanted, with their scores."""
        ids, scores, (head, relation_id) = found[0], found[1], found[2].tolist()
        wanted = torch.ones(len(ids), dtype=torch.bool)
        if not known:
            wanted &= ~torch.isin(ids, self.graph.known.find(found[2][:1], found[2][1:])[1])
        if typed:
            types = self.graph.types
            wanted &= _among(types.seen(relation_id), ids)
            if not types.reflexive[relation_id]:
                wanted &= ids != head
        ids, scores = ids[wanted], scores[wanted]
        order = torch.sort(scores, descending=True, stable=True).indices[:count]
        return ids[order], scores[order]

    def _possible(self, relation_id: int, typed: bool) -> int:
        """How many entities a question could have been given."""
        return len(self.graph.types.seen(relation_id)) if typed else self.candidates.scorer.num_entities

    def _joined(
        self, first: int, queries: Tensor, parts: list[tuple[Tensor, Tensor]], totals: Tensor, left_out: set[int]
    ) -> Found:
        kept = [row for row in range(len(parts)) if row not in left_out]
        rows = torch.tensor(kept, dtype=torch.long).repeat_interleave(
            torch.tensor([len(parts[row][0]) for row in kept]).long()
        )
        answers = torch.cat([parts[row][0] for row in kept] or [rows])
        scores = torch.cat([parts[row][1] for row in kept] or [torch.empty(0)])
        shares = (scores.double() - totals[rows]).clamp(max=0.0)
        return Found(first + rows, queries[rows, 0], queries[rows, 1], answers, scores, shares)


def _among(ascending: Tensor, ids: Tensor) -> Tensor:
    """Which of ``ids [n]`` are in ``ascending [m]``, a few of many."""
    if not len(ascending):
        return torch.zeros(len(ids), dtype=torch.bool)
    return ascending[torch.searchsorted(ascending, ids).clamp(max=len(ascending) - 1)] == ids


def measured(candidates: Candidates, index: CandidateIndex, questions: Tensor) -> JsonObject:
    """Choose how many lists a question reads, and measure recall and sums against a scan.

    Args:
        questions: ``[Q, 2]``; one half chooses, the other is measured on.
    """
    halves = []
    for part in (questions[::2], questions[1::2]):
        asked = candidates.queries(*part.unbind(1))
        halves.append((asked, *_scanned(candidates, asked)))
    index.read(1)
    while index.probes < index.lists and _recall(candidates, index, *halves[0][:2]) < GOOD_RECALL:
        index.read(min(2 * index.probes, index.lists))
    asked, best, sums = halves[1]
    ids = index.propose(asked, PROPOSED)
    error = (candidates.log_sums(asked, ids, candidates.scores(asked, ids)) - sums).abs()
    quantiles = torch.quantile(error, torch.tensor([0.5, 0.95], dtype=error.dtype)) if len(error) else torch.zeros(2)
    return {
        "recall_at_10": _recall(candidates, index, asked, best),
        "questions": len(asked),
        "probes": index.probes,
        "lists": index.lists,
        "sample": len(candidates.sample),
        "sum_error": quantiles.tolist(),
    }


def _scanned(candidates: Candidates, asked: Tensor) -> tuple[Tensor, Tensor]:
    """The ten best of all entities ``[Q, 10]``, and the log of the sum over all ``[Q]``."""
    best, sums = [], []
    for part in asked.split(questions_at_once(candidates.scorer.num_entities)):
        scores = part @ candidates.vectors.T
        best.append(scores.topk(min(10, scores.shape[1])).indices)
        sums.append(torch.logsumexp(scores, 1).double())
    return torch.cat(best), torch.cat(sums)


def _recall(candidates: Candidates, index: CandidateIndex, asked: Tensor, best: Tensor) -> float:
    ids = index.propose(asked, PROPOSED)
    order = candidates.scores(asked, ids).topk(min(best.shape[1], ids.shape[1])).indices
    found = ids.gather(1, order)
    return float((best[:, :, None] == found[:, None, :]).any(2).double().mean())
