"""What a prediction is, and lists of predictions that turn into frames and show themselves in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING

from tuckerkg.types import Basis, JsonObject, Verdict

if TYPE_CHECKING:
    import polars as pl

LABELS = ("head_label", "relation_label", "tail_label")
COLUMNS = ("head", "relation", "tail", "score", "probability", "basis", "known", *LABELS)


@dataclass(frozen=True)
class Prediction:
    """One candidate fact, in readable names and in the data's labels.

    ``probability`` comes from the scores of both questions that the fact answers, ``basis`` "both", or from those of
    its "tail" or "head" question alone; ``known`` says that the graph holds the fact.
    """

    head: str
    relation: str
    tail: str
    score: float
    probability: float
    basis: Basis
    known: bool
    head_label: str
    relation_label: str
    tail_label: str

    def sentence(self) -> str:
        """The fact as one sentence."""
        return f"{self.head} {self.relation} {self.tail}."

    def as_dict(self) -> JsonObject:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Judged(Prediction):
    """A fact that was asked about: ``verdict`` is yes, no or unsure, ``error_rate`` how often such a verdict was wrong.

    Both are None without fitted probabilities, the rate for unsure ones.
    """

    verdict: Verdict | None = None
    error_rate: float | None = None


class Predictions(list[Prediction]):
    """Predictions, best first."""

    def to_frame(self) -> pl.DataFrame:
        """A Polars frame with a column per field; ``.to_pandas()`` makes a pandas one of it."""
        import polars as pl  # noqa: PLC0415  (half a second that --help need not wait for)

        kinds = dict.fromkeys(COLUMNS, pl.String) | {
            "score": pl.Float64,
            "probability": pl.Float64,
            "known": pl.Boolean,
        }
        if self and all(isinstance(fact, Judged) for fact in self):
            kinds |= {"verdict": pl.String, "error_rate": pl.Float64}
        return pl.DataFrame([fact.as_dict() for fact in self], schema=kinds)

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        judged = bool(self) and all(isinstance(fact, Judged) for fact in self)
        rows = "".join(
            f"<tr><td>{escape(fact.head)}</td><td>{escape(fact.relation)}</td><td>{escape(fact.tail)}</td>"
            f"<td>{fact.probability:.1%}</td><td>{fact.score:.3f}</td><td>{'yes' if fact.known else ''}</td>"
            + (f"<td>{fact.verdict or ''}</td>" if isinstance(fact, Judged) and judged else "")
            + "</tr>"
            for fact in self
        )
        names = ("head", "relation", "tail", "probability", "score", "known", *(("true",) if judged else ()))
        header = "".join(f"<th>{name}</th>" for name in names)
        return f"<table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>"


def few_of_each_relation(facts: Sequence[Prediction], count: int) -> Predictions:
    """The best ``count`` facts with as even a share of each relation as there are facts."""
    share: dict[str, int] = {}
    turns = []
    for place, fact in enumerate(facts):
        share[fact.relation] = share.get(fact.relation, 0) + 1
        turns.append((share[fact.relation], place))
    chosen = sorted(place for _, place in sorted(turns)[:count])
    return Predictions(facts[place] for place in chosen)
