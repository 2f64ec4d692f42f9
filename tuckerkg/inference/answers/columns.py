"""Facts that answer questions, column by column: what many answers are held in, as ids, before anyone reads names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tuckerkg.data.labels import Labels
from tuckerkg.inference.answers.predictions import Prediction, Predictions
from tuckerkg.probability.features import BASES

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Answers:
    """n facts, those of a question together and best first."""

    questions: Tensor  # [n] place of the question
    ranks: Tensor  # [n] within the question, from 1 on
    facts: Tensor  # [n, 3] head, relation below R, tail
    scores: Tensor  # [n]
    probabilities: Tensor  # [n] float64
    basis: Tensor  # [n] places in BASES: the questions that the probability comes from
    known: Tensor  # [n] bool, whether the graph holds the fact

    @classmethod
    def joined(cls, parts: Iterable[Answers]) -> Answers:
        """Those of ``parts``, one after the other."""
        columns = list(zip(*(vars(part).values() for part in parts), strict=True))
        if not columns:
            none, floats = torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.float64)
            return cls(none, none, none.view(0, 3), floats, floats, none, none.bool())
        return cls(*(torch.cat(column) for column in columns))

    def rows(self, chosen: Tensor) -> Answers:
        """Some of them."""
        return Answers(*(column[chosen] for column in vars(self).values()))

    def of(self, questions: Tensor) -> Answers:
        """Those of ``questions [Q]`` in that order, numbered by it; a question may come several times."""
        most = torch.cat([self.questions, questions, torch.tensor([-1])]).max()
        sizes = torch.bincount(self.questions, minlength=int(most) + 1)
        starts = sizes.cumsum(0) - sizes
        wanted = sizes[questions]
        owners = torch.repeat_interleave(torch.arange(len(questions)), wanted)
        within = torch.arange(len(owners)) - (wanted.cumsum(0) - wanted)[owners]
        rows = starts[questions][owners] + within
        return Answers(owners, *(column[rows] for name, column in vars(self).items() if name != "questions"))

    def predictions(self, entities: Labels, relations: Labels) -> Predictions:
        """With names."""
        heads, relation_ids, tails = (column.tolist() for column in self.facts.unbind(1))
        rest = (column.tolist() for column in (self.scores, self.probabilities, self.basis, self.known))
        return Predictions(
            Prediction(
                head=entities.shown(head),
                relation=relations.shown(relation),
                tail=entities.shown(tail),
                score=score,
                probability=probability,
                basis=BASES[basis],
                known=is_known,
                head_label=entities.labels[head],
                relation_label=relations.labels[relation],
                tail_label=entities.labels[tail],
            )
            for head, relation, tail, score, probability, basis, is_known in zip(
                heads, relation_ids, tails, *rest, strict=True
            )
        )

    def frame(self, entities: Labels, relations: Labels) -> pl.DataFrame:
        """With names, a column each: ``question`` and ``rank``, then what a prediction has."""
        import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

        kinds = (entities, relations, entities)
        shown, labels = {}, {}
        for name, kind, ids in zip(("head", "relation", "tail"), kinds, self.facts.unbind(1), strict=True):
            titles = pl.Series([kind.shown(number) for number in range(len(kind))], dtype=pl.String)
            shown[name] = titles.gather(ids.numpy())
            labels[f"{name}_label"] = pl.Series(list(kind.labels), dtype=pl.String).gather(ids.numpy())
        return pl.DataFrame(
            {
                "question": self.questions.numpy(),
                "rank": self.ranks.numpy(),
                **shown,
                "score": self.scores.double().numpy(),
                "probability": self.probabilities.numpy(),
                "basis": pl.Series(BASES, dtype=pl.String).gather(self.basis.numpy()),
                "known": self.known.numpy(),
                **labels,
            }
        )
