"""Filtered ranks over candidates in shards: every rank counts what beats a target among its own, whole numbers add up.

A target's score is the one that its own shard computed, in the same product as those it is compared with: on any number
of ranks it is compared with the same numbers.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.errors import NonFiniteError
from tuckerkg.evaluation.ranking import Questions, Ranks, count_rivals, questions_at_once
from tuckerkg.graph.known_tails import KnownTails, rows_of
from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.ranks.model import ShardedModel
from tuckerkg.types import ProgressFunction


class ShardedScorer:
    """Scores questions with the entities of the own shards, which are encoded once.

    Args:
        graph: the messages of all training triples; None: the encoder sends none.
    """

    def __init__(self, model: ShardedModel, graph: MessageGraph | None) -> None:
        self.model, self.partition = model, model.partition
        partition, shared = model.partition, model.shared
        model.eval()
        with torch.no_grad():
            rows = [part.detach() for part in model.rows(None, partition.bounds(None))]
            sizes = [partition.size(shard) for shard in range(partition.num_shards)]
            if shared.encoder.uses_graph:
                everything = torch.cat(partition.rows_by_shard(rows, sizes))
                encoded, self.relations = shared.encoder(graph, everything, shared.relations)
                self.entities = [
                    encoded[partition.offsets[s] : partition.offsets[s + 1]].clone() for s in partition.own
                ]
            else:
                self.entities, self.relations = rows, shared.relations.detach()

    @torch.no_grad()
    def scores(self, heads: Tensor, relation_ids: Tensor) -> list[Tensor]:
        """Raw scores of the own shards' entities, ``[b, entities of a shard]`` each."""
        partition = self.partition
        wanted, owners = torch.unique(heads, return_inverse=True)
        begins = partition.bounds(wanted)
        own = [
            F.embedding(wanted[begins[shard] : begins[shard + 1]] - partition.offsets[shard], part)
            for part, shard in zip(self.entities, partition.own, strict=True)
        ]
        rows = F.embedding(owners, torch.cat(partition.rows_by_shard(own, np.diff(begins).tolist())))
        queries = self.model.shared.decoder.query(rows, self.relations, relation_ids)
        comparison, asked, compared = self.model.compared(queries, self.entities, None, list(partition.offsets), None)
        return [comparison.scores(asked, part, asked.new_empty(len(part), len(asked))) for part in compared]


def rank_in_shards(
    scorer: ShardedScorer, triples: np.ndarray, known: KnownTails, progress: ProgressFunction | None = None
) -> Ranks:
    """As ``rank`` does, on every rank the same."""
    partition = scorer.partition
    num_relations, num_entities = scorer.model.num_relations, scorer.model.num_entities
    both = torch.from_numpy(add_inverses(triples, num_relations))  # [2n, 3]
    questions = Questions.of(both, 2 * num_relations)
    best, worst, candidates = (np.empty(len(both), dtype=np.int64) for _ in range(3))
    step = questions_at_once(num_entities)
    for first in range(0, len(questions.heads), step):
        heads, relation_ids = questions.heads[first : first + step], questions.relation_ids[first : first + step]
        place, rows = questions.targets(first, first + len(heads))
        tails = both[place, 2]
        scores = scorer.scores(heads, relation_ids)
        own = _own_scores(scorer, scores, rows, tails)
        counts = torch.zeros(3, len(rows), dtype=torch.long)
        offsets, answers = known.find(heads, relation_ids)
        for part, shard in zip(scores, partition.own, strict=True):
            begin, end = partition.offsets[shard], partition.offsets[shard + 1]
            if begin < end:
                own_known = among(offsets, answers, begin, end)
                counts += torch.stack(count_rivals(part, rows, tails - begin, own, own_known)).cpu()
        better, equal, ranked = partition.group.total(counts)
        filled = place.numpy()
        best[filled] = 1 + better.numpy()
        worst[filled] = best[filled] + equal.numpy()
        candidates[filled] = ranked.numpy()
        if progress is not None:
            progress(first + len(heads), len(questions.heads))
    return Ranks(triples, best, worst, candidates)


def _own_scores(scorer: ShardedScorer, scores: list[Tensor], rows: Tensor, tails: Tensor) -> Tensor:
    """The targets' scores ``[t]``, from the shards that they are in."""
    partition = scorer.partition
    found = torch.zeros(len(rows), dtype=scores[0].dtype)
    finite = all(bool(torch.isfinite(part).all()) for part in scores)
    for part, shard in zip(scores, partition.own, strict=True):
        inside = (tails >= partition.offsets[shard]) & (tails < partition.offsets[shard + 1])
        found[inside] = part[rows[inside], tails[inside] - partition.offsets[shard]].cpu()
    if not all(partition.group.tell(finite)):
        raise NonFiniteError(
            "scores hold NaN or infinity; nothing was ranked. The weights have diverged: train again with a smaller "
            "train.lr or train.clip"
        )
    return partition.group.gather(found).sum(0)  # one rank has it, the others nought


def among(offsets: Tensor, answers: Tensor, begin: int, end: int) -> tuple[Tensor, Tensor]:
    """Known tails of each question that are entities from ``begin`` to ``end``, counted from ``begin``."""
    inside = (answers >= begin) & (answers < end)
    counts = torch.bincount(rows_of(offsets)[inside], minlength=len(offsets) - 1)
    return torch.cat([counts.new_zeros(1), torch.cumsum(counts, 0)]), answers[inside] - begin
