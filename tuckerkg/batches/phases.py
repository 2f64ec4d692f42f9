"""What happens when in training: a list of phases, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from pydantic import BaseModel, ConfigDict

from tuckerkg.ranges import NonNegative, PositiveFloat, ShareOrNone


class Phase(BaseModel):
    """A stretch of training.

    Attributes:
        epochs: how long it lasts; the last phase lasts to the end of training.
        messages: share of the graph, or of the random subgraph, that is sent as messages, drawn at each step; 0 leaves
            the encoder's layers out, so that embeddings and decoder learn alone, many times as fast. Left out: all of
            the graph, or half of a subgraph, as in the paper.
        candidates: how many random entities a query is compared with, besides those of its batch; 0 is all entities.
        evaluate: whether the validation split is ranked, so that the best weights may come from this phase.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    epochs: PositiveFloat | None = None
    messages: ShareOrNone | None = None
    candidates: NonNegative = 0
    evaluate: bool = True


class Schedule:
    """Phases laid out over steps."""

    def __init__(self, phases: Sequence[Phase], steps_per_epoch: int) -> None:
        self.phases = tuple(phases) or (Phase(),)
        lengths = [phase.epochs or 0.0 for phase in self.phases[:-1]]
        self.ends = [round(epochs * steps_per_epoch) for epochs in accumulate(lengths)]  # of all but the last

    def at(self, step: int) -> Phase:
        """The phase that ``step`` belongs to."""
        return next((phase for phase, end in zip(self.phases, self.ends, strict=False) if step < end), self.phases[-1])
