"""The model that starts from the question on ranks: every rank has the graph and the weights, and asks some questions.

A step's questions lie in parts by their number, question q in part q modulo ``ranks.shards``; rank r of W asks those of
the parts r, r + W, ... Losses and gradients of parts are added up pairwise, part p with part p + S/2 first, so that
their bits do not depend on how many ranks share them, where these are 1, 2, 4, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from torch import Tensor

from tuckerkg.autograd import Context, apply
from tuckerkg.batches.batch import StepBatch
from tuckerkg.batches.questions import QuestionBatch
from tuckerkg.config.build import build_question_objective
from tuckerkg.data.ingest.hashing import key_of
from tuckerkg.errors import TuckerkgError
from tuckerkg.evaluation.protocol import split_sha256
from tuckerkg.evaluation.ranking import Ranks
from tuckerkg.kernels.questions.graph import Questions
from tuckerkg.losses.objective import QuestionObjective
from tuckerkg.nn.paths import PathModel
from tuckerkg.ranks.facts.batches import OwnFacts, shards_of_graph, shards_of_triples
from tuckerkg.ranks.facts.drawing import Drawn
from tuckerkg.ranks.facts.neighbours import Neighbourhoods
from tuckerkg.ranks.facts.questions import QuestionsAround, ValidationAround
from tuckerkg.ranks.group import Group
from tuckerkg.ranks.joined_loop import JoinedLoop, partition_of
from tuckerkg.ranks.partition import Partition
from tuckerkg.storage.checkpoints import Checkpoint
from tuckerkg.storage.weights import restore_weights
from tuckerkg.training.validation import Validation
from tuckerkg.types import JsonObject, ProgressFunction


class SharedQuestions:
    """``QuestionObjective`` where every rank asks the questions of its parts.

    Args:
        parts: no entities, but as many shards as there are parts.
    """

    def __init__(self, objective: QuestionObjective, parts: Partition) -> None:
        self.objective, self.parts = objective, parts

    def __call__(self, model: PathModel, batch: QuestionBatch) -> Tensor:
        """The same number on every rank, with the gradients of all questions."""
        weights = list(model.parameters())
        values, gradients = [], []
        for part in self.parts.own:
            value, gradient = self._of_part(model, batch, part, weights)
            values.append(value)
            gradients.append(gradient)
        total = self.parts.by_shard(values).sum()
        summed = self.parts.add_up(gradients)
        handed: Tensor = apply(_Handed, total.to(weights[0]), summed, *weights)
        return handed

    def _of_part(
        self, model: PathModel, batch: QuestionBatch, part: int, weights: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor]:
        count = len(batch.questions.heads)
        questions = part_of(batch.questions, part, self.parts.num_shards)
        if not len(questions.heads):
            empty = torch.zeros(sum(weight.numel() for weight in weights), dtype=weights[0].dtype)
            return torch.zeros((), dtype=torch.float64), empty.to(weights[0].device)
        mean = self.objective(model, QuestionBatch(batch.graph, questions))
        found = torch.autograd.grad(mean * (len(questions.heads) / count), weights, allow_unused=True)
        gradients = [
            torch.zeros_like(weight).reshape(-1) if gradient is None else gradient.reshape(-1)
            for gradient, weight in zip(found, weights, strict=True)
        ]
        return mean.detach().double().cpu() * (len(questions.heads) / count), torch.cat(gradients)


def part_of(questions: Questions, part: int, parts: int) -> Questions:
    """The questions ``part, part + parts, ...``."""
    rows = np.arange(part, len(questions.heads), parts)
    tails, tail_starts = _spans(questions.tails, questions.tail_starts, rows)
    known, known_starts = _spans(questions.known, questions.known_starts, rows)
    return replace(
        questions,
        heads=questions.heads[rows],
        relations=questions.relations[rows],
        tail_starts=tail_starts,
        tails=tails,
        known_starts=known_starts,
        known=known,
        seed=int(key_of(questions.seed, part)) >> 2,
    )


def _spans(values: np.ndarray, starts: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    spans = [values[starts[row] : starts[row + 1]] for row in rows]
    ends = np.cumsum([0, *(len(span) for span in spans)]).astype(np.int64)
    return np.concatenate([values[:0], *spans]), ends


class _Handed(torch.autograd.Function):
    """Hands out gradients that are there already."""

    @staticmethod
    def forward(ctx: Context, value: Tensor, gradients: Tensor, *weights: Tensor) -> Tensor:
        ctx.save_for_backward(gradients)
        ctx.shapes = [weight.shape for weight in weights]
        return value.clone()

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (summed,) = ctx.saved_tensors
        parts = summed.split([shape.numel() for shape in ctx.shapes])
        return None, None, *(part.view(shape) * gradients[0] for part, shape in zip(parts, ctx.shapes, strict=True))


class QuestionLoop(JoinedLoop):
    """One rank's part of the loop: weights and optimizer are the same on every rank, and the first one saves them."""

    def build(self) -> None:
        """As one process does, with shared questions and a shared validation."""
        if self.settings.ranks.fanout:
            self._build_at_owners()
        else:
            super().build()
            self.validation = SharedValidation(self.splits, self.relations, self.settings, self.model)
            self.validation.group = self.group
        parts = Partition.even(0, self.settings.ranks.shards, self.group)
        self.objective = SharedQuestions(cast("QuestionObjective", self.objective), parts)

    def _build_at_owners(self) -> None:
        """The same of a graph that is sampled around the questions, whose facts lie with their owners."""
        settings, graph, num_relations = self.settings, self.folder.graph, len(self.relations)
        self.build_model()
        self.objective = build_question_objective(settings)
        partition = partition_of(self.folder, settings, self.group)
        shards = (
            shards_of_triples(self.splits["train"], partition, num_relations)
            if graph is None
            else shards_of_graph(graph, partition)
        )
        facts = OwnFacts.of(shards, partition, num_relations)
        near = Neighbourhoods(facts, settings.ranks.fanout, settings.train.seed, "degree")
        paths = settings.paths
        self.batches = QuestionsAround(near, settings.train.seed, questions=paths.questions, answers=paths.answers)
        digest = split_sha256(self.splits["train"]) if graph is None else graph.digest
        self.validation = ValidationAround(self.splits["valid"], self.relations, settings, self.model, near, digest)

    def complete(self, batch: StepBatch) -> StepBatch:
        """Exchange what the own shards give to the step, where facts lie with their owners."""
        return self.batches.join(batch) if isinstance(batch, Drawn) else batch  # type: ignore[attr-defined]

    def write(self, state: JsonObject) -> None:
        """By the first rank; all raise its error."""
        error = None
        if self.group.is_first:
            try:
                super().write(state)
            except (TuckerkgError, OSError) as found:
                error = found
        self.group.succeed(error)

    def restore(self) -> None:
        """Every rank reads the checkpoint that the first one chose."""
        error, checkpoint = None, None
        try:
            checkpoint = self._newest() if self.group.is_first else None
        except TuckerkgError as found:
            error = found
        self.group.succeed(error)
        step = self.group.tell(None if checkpoint is None else checkpoint.step)[0]
        if step is None:
            self.begin()
            return
        checkpoint = checkpoint or self.folder.checkpoints.at(step)
        restore_weights(self.model, checkpoint.weights)
        self.optimizer.restore(checkpoint.optimizer)
        self.restore_state(checkpoint.state)

    def _newest(self) -> Checkpoint | None:
        return self.folder.checkpoints.newest(on_fallback=self.callback.log)


class SharedValidation(Validation):
    """Every rank ranks some triples; a question's rank does not depend on who asks it."""

    group: Group

    def ranks(self, progress: ProgressFunction | None) -> Ranks:
        """The same on every rank."""
        group, count, asked = self.group, len(self.asked), self.asked
        self.asked = asked[group.rank :: group.size]
        try:
            found = super().ranks(None) if len(self.asked) else None  # ranks would ask one another at other times
        finally:
            self.asked = asked
        sizes = [2 * len(range(rank, count, group.size)) for rank in range(group.size)]
        own = torch.empty(0, 3, dtype=torch.long)
        if found is not None:
            own = torch.from_numpy(np.stack([found.best, found.worst, found.candidates], 1))
        whole = np.empty((2 * count, 3), dtype=np.int64)
        for number, part in enumerate(group.gather_rows(own, sizes)):
            rows = np.arange(number, count, group.size)
            whole[rows], whole[count + rows] = part.numpy()[: len(rows)], part.numpy()[len(rows) :]
        return Ranks(asked, *whole.T.copy())
