"""Answers to questions when entities lie in shards: each rank scores its own, and little is told to the others.

Of each shard go out a question's best answers, the log of its sum, and the scores of answers that were asked about. All
of them are joined in the order of the shards, so that any number of ranks finds the same ones, with the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from tuckerkg.evaluation.ranking import ScoredChunk, questions_at_once
from tuckerkg.inference.answers.search import Search, found_of_rows, leave_wanted
from tuckerkg.kernels.topk import top_of_rows
from tuckerkg.nn.contracts import Scorer
from tuckerkg.probability.features import GraphFacts
from tuckerkg.probability.weigher import Found
from tuckerkg.ranks.ranking import ShardedScorer, among
from tuckerkg.types import ProgressFunction


class WholeScores(Scorer):
    """Scores of all entities on every rank, for what reads all of them: where probabilities are fitted."""

    def __init__(self, sharded: ShardedScorer) -> None:
        self.sharded = sharded
        self.num_entities, self.num_relations = sharded.model.num_entities, sharded.model.num_relations

    def scores(self, heads: Tensor, relation_ids: Tensor) -> Tensor:
        """Gathered: ``[B, N]``."""
        partition = self.sharded.partition
        own = [part.T for part in self.sharded.scores(heads, relation_ids)]
        sizes = [partition.size(shard) for shard in range(partition.num_shards)]
        return torch.cat(partition.rows_by_shard(own, sizes)).T


class ShardedSearch(Search):
    """Finds what ``ExactSearch`` finds; every rank calls it with the same questions."""

    def __init__(self, sharded: ShardedScorer, graph: GraphFacts) -> None:
        self.sharded, self.partition, self.graph = sharded, sharded.partition, graph
        self.at_once = questions_at_once(sharded.model.num_entities)

    def best(
        self, queries: Tensor, known: Tensor, typed: Tensor, counts: Tensor, progress: ProgressFunction | None = None
    ) -> Iterator[Found]:
        """The best of each shard, then the best of these; equal scores come in the order of the entities."""
        for first in range(0, len(queries), self.at_once):
            span = slice(first, first + self.at_once)
            heads, relation_ids = queries[span].unbind(1)
            parts = self.sharded.scores(heads, relation_ids)
            totals = self._log_sums(parts)
            count = min(int(counts[span].max()), self.sharded.model.num_entities)
            offsets, answers = self.graph.known.find(heads, relation_ids)
            values, places = [], []
            for part, shard in zip(parts, self.partition.own, strict=True):
                begin, end = self.partition.offsets[shard], self.partition.offsets[shard + 1]
                chunk = ScoredChunk(first, heads, relation_ids, part, among(offsets, answers, begin, end))
                leave_wanted(chunk, ~known[span], typed[span], self.graph, begin)
                best, place = top_of_rows(part, min(count, end - begin))
                missing = (0, count - best.shape[1])
                values.append(F.pad(best, missing, value=-torch.inf))
                places.append(F.pad(place + begin, missing))
            every_value, every_place = (
                self.partition.by_shard(own).transpose(0, 1).flatten(1) for own in (values, places)
            )
            best, order = top_of_rows(every_value, count)
            yield found_of_rows(first, heads, relation_ids, best, every_place.gather(1, order), totals)
            if progress is not None:
                progress(first + len(heads), len(queries))

    def log_shares(
        self, anchors: Tensor, relation_ids: Tensor, answers: Tensor, progress: ProgressFunction | None = None
    ) -> tuple[Tensor, Tensor]:
        """Every distinct question is asked once."""
        num_relations = self.graph.known.num_relations
        scores = torch.zeros(len(answers))
        keys, owners = torch.unique(anchors * num_relations + relation_ids, return_inverse=True)
        totals = torch.empty(len(keys), dtype=torch.float64)
        for first in range(0, len(keys), self.at_once):
            asked = keys[first : first + self.at_once]
            parts = self.sharded.scores(asked // num_relations, asked % num_relations)
            totals[first : first + len(asked)] = self._log_sums(parts)
            rows = ((owners >= first) & (owners < first + len(asked))).nonzero()[:, 0]
            for part, shard in zip(parts, self.partition.own, strict=True):
                begin, end = self.partition.offsets[shard], self.partition.offsets[shard + 1]
                own = rows[(answers[rows] >= begin) & (answers[rows] < end)]
                scores[own] = part[owners[own] - first, answers[own] - begin]
            if progress is not None:
                progress(first + len(asked), len(keys))
        scores = self.partition.group.gather(scores).sum(0)  # one rank has it, the others nought
        return scores, scores.double() - totals[owners]

    def _log_sums(self, parts: list[Tensor]) -> Tensor:
        """The log of the sum over all entities ``[b]``, float64, joined in the order of the shards."""
        return torch.logsumexp(self.partition.by_shard([torch.logsumexp(part, 1).double() for part in parts]), 0)
