"""Questions about facts that lie with their owners, asked of a part of the graph that is sampled around them.

A step's questions come from all shards. Their heads and answers, and the neighbours that owners draw for these, make up
the graph of the step, which every rank has; its entities are the candidates. Answers of different questions are drawn
for alike, so that having neighbours tells nothing of which one is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from tuckerkg.batches.phases import Schedule
from tuckerkg.batches.questions import QuestionBatch, starts_of
from tuckerkg.config.settings import Settings
from tuckerkg.data.ingest.hashing import key_of, permuted
from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.evaluation.ranking import Ranks
from tuckerkg.graph.in_edges import in_edges
from tuckerkg.graph.known_tails import KnownTails, rows_of
from tuckerkg.kernels.questions.graph import QuestionGraph, Questions
from tuckerkg.nn.paths import PathModel
from tuckerkg.ranks.facts.batches import answers_of_owners, counts_of_owners
from tuckerkg.ranks.facts.drawing import Drawn, Numbers, exchange, joined
from tuckerkg.ranks.facts.neighbours import FOR_ALL, FOR_STEPS, Neighbourhoods
from tuckerkg.ranks.facts.sorted_facts import FactShard
from tuckerkg.ranks.facts.validation import SeenEntities, protocol_of
from tuckerkg.training.validation import Validation, some_triples
from tuckerkg.types import ProgressFunction

AT_ONCE = 32  # validation triples that share a sampled graph


class Surroundings(NamedTuple):
    """A part of the graph: global ids ``[n]``, ascending, and the facts between them in local ones."""

    ids: Tensor
    facts: np.ndarray

    def graph(self, num_relations: int) -> QuestionGraph:
        """With one entity more, which no fact reaches: it scores as every entity outside does."""
        return QuestionGraph(in_edges(self.facts, len(self.ids) + 1, num_relations))

    def local(self, ids: Tensor) -> Tensor:
        """Their places among ``ids``."""
        return torch.searchsorted(self.ids, ids)


def surroundings_of(near: Neighbourhoods, entities: Tensor, key: np.uint64) -> Surroundings:
    """Facts that owners draw around ``entities``; one that both of its ends draw counts once."""
    ids, messages, _ = near.drawn(entities.unique(), key)
    num_relations = near.facts.num_relations
    sources, relations, targets = messages.unbind(1)
    turned = relations >= num_relations
    heads, tails = torch.where(turned, targets, sources), torch.where(turned, sources, targets)
    facts = torch.stack([heads, relations % num_relations, tails], 1).unique(dim=0)
    local = torch.stack(
        [torch.searchsorted(ids, facts[:, 0].contiguous()), facts[:, 1],
         torch.searchsorted(ids, facts[:, 2].contiguous())], 1,
    )  # fmt: skip
    return Surroundings(ids, local.numpy())


class QuestionsAround:
    """``QuestionBatches`` on ranks that do not have all facts.

    All facts and their inverses are asked in a random order, a new one each epoch, which is computed place by place.

    Args:
        questions: questions of a step.
        answers: share of a question's other answers that are asked for, and so hidden, together with its own.
    """

    def __init__(self, near: Neighbourhoods, seed: int, *, questions: int, answers: float) -> None:
        self.near, self.facts, self.seed, self.answers = near, near.facts, seed, answers
        self.count = 2 * self.facts.num_facts
        self.size = min(questions, self.count)
        self.steps_per_epoch = -(-self.count // self.size)
        self.schedule = Schedule((), self.steps_per_epoch)

    def batch(self, step: int) -> Drawn:
        """What the own shards give to ``step``: heads, relations below 2R, tails."""
        epoch, part = divmod(step, self.steps_per_epoch)
        places = np.arange(part * self.size, min((part + 1) * self.size, self.count))
        chosen = permuted(places, self.count, key_of(self.seed, 1, epoch))
        return Drawn(step, [self._part(shard, chosen) for shard in self.facts.shards])

    def join(self, drawn: Drawn) -> QuestionBatch:
        """The questions of the step and the graph around them, on every rank the same."""
        lists = exchange(self.facts.partition, drawn.parts)
        heads, relation_ids, tails = (joined(lists, place) for place in range(3))
        around = surroundings_of(self.near, torch.cat([heads, tails]), key_of(self.seed, FOR_STEPS, drawn.step))
        offsets, known = answers_of_owners(self.facts, around.ids, heads, relation_ids)
        rows = rows_of(offsets).numpy()
        random = np.random.default_rng([self.seed, 2, drawn.step])
        seed = int(random.integers(2**62))
        own = (known == around.local(tails)[rows]).numpy()
        asked = own | (random.random(len(rows)) < self.answers)
        questions = Questions(
            around.local(heads).numpy(),
            relation_ids.numpy(),
            starts_of(rows[asked], len(heads)),
            known.numpy()[asked],
            starts_of(rows[~asked], len(heads)),
            known.numpy()[~asked],
            seed,
        )
        return QuestionBatch(around.graph(self.facts.num_relations), questions)

    def _part(self, shard: FactShard, chosen: Numbers) -> list[Numbers]:
        """Of numbers below 2n, those of the shard's facts: first all facts, then all of them turned round."""
        numbers, turned = chosen % self.facts.num_facts, chosen >= self.facts.num_facts
        begin, end = self.facts.facts_before[shard.number : shard.number + 2]
        mine = (numbers >= begin) & (numbers < end)
        heads, relations, tails = np.asarray(shard.by_head.triples[numbers[mine] - begin], np.int64).T
        inverse = turned[mine]
        return [
            np.where(inverse, tails, heads),
            relations + self.facts.num_relations * inverse,
            np.where(inverse, heads, tails),
        ]


class ValidationAround(Validation):
    """Ranks among all entities, of which those outside the sampled graph score as entities that no message reaches.

    Every rank scores some of the questions; a question's rank does not depend on who scores it.
    """

    def __init__(
        self, valid: np.ndarray, relations: list[str], settings: Settings, model: PathModel, near: Neighbourhoods,
        digest: str,
    ) -> None:  # fmt: skip
        self.settings, self.model, self.relations, self.near = settings, model, relations, near
        self.asked = some_triples(valid, settings.train.validate_on)
        self.has_questions = len(self.asked) > 0
        self.held_out = KnownTails.from_splits([valid], model.num_relations)
        self.seen = SeenEntities(near.facts.shards, near.facts.partition, self.asked[:, [0, 2]])
        self.protocol = protocol_of(valid, digest, settings, model.num_entities)
        self.protocol["graph"] = "sampled around the questions"

    def ranks(self, progress: ProgressFunction | None) -> Ranks:
        """The same on every rank."""
        found = np.concatenate([*self._chunks()])
        questions = np.argsort(found[:, 0], kind="stable")
        best, worst, candidates = found[questions, 1:].T
        return Ranks(self.asked, best.copy(), worst.copy(), candidates.copy())

    def _chunks(self) -> Iterator[np.ndarray]:
        """Number of the question, best and worst rank, candidates."""
        for first in range(0, len(self.asked), AT_ONCE):
            chosen = self.asked[first : first + AT_ONCE]
            numbers = np.arange(first, first + len(chosen))
            numbers = np.concatenate([numbers, len(self.asked) + numbers])  # all tails, then all heads
            yield np.concatenate([numbers[:, None], self._ranked(first, chosen)], 1)

    def _ranked(self, first: int, chosen: np.ndarray) -> np.ndarray:
        facts, num_relations = self.near.facts, self.near.facts.num_relations
        heads, relation_ids, tails = torch.from_numpy(add_inverses(chosen, num_relations)).unbind(1)
        around = surroundings_of(self.near, torch.cat([heads, tails]), key_of(self.near.seed, FOR_ALL, first))
        known = answers_of_owners(facts, around.ids, heads, relation_ids)
        counts = counts_of_owners(facts, heads, relation_ids)
        group, model = facts.partition.group, cast("PathModel", self.model)
        mine = torch.arange(group.rank, len(heads), group.size)
        scores = model.scores(around.graph(num_relations), around.local(heads[mine]), relation_ids[mine])  # [b, n + 1]
        own = []
        for place, row in enumerate(mine.tolist()):
            held_out = self.held_out.find(heads[row : row + 1], relation_ids[row : row + 1])[1]
            inside = torch.isin(held_out, around.ids)
            local = torch.cat([known[1][known[0][row] : known[0][row + 1]], around.local(held_out[inside])]).unique()
            num_known = int(counts[row]) + len(held_out)  # no fact is in two splits
            own.append(self._rank(scores[place], int(around.local(tails[row : row + 1])), local, num_known))
        sizes = [len(range(rank, len(heads), group.size)) for rank in range(group.size)]
        found = np.empty((len(heads), 3), np.int64)
        for rank, part in enumerate(group.gather_rows(torch.tensor(own, dtype=torch.long).view(-1, 3), sizes)):
            found[rank :: group.size] = part.numpy()
        return found

    def _rank(self, scores: Tensor, target: int, known: Tensor, num_known: int) -> tuple[int, int, int]:
        """Best and worst rank of ``target`` and the number of candidates; ``known`` are no candidates but for it."""
        value, elsewhere = scores[target].clone(), scores[-1]
        outside = self.model.num_entities - (len(scores) - 1) - (num_known - len(known))
        rest = scores[:-1].clone()
        rest[known] = -torch.inf
        rest[target] = -torch.inf  # left out of its own comparison
        better = int((rest > value).sum()) + outside * int(elsewhere > value)
        equal = int((rest == value).sum()) + outside * int(elsewhere == value)
        return 1 + better, 1 + better + equal, self.model.num_entities - num_known + 1
