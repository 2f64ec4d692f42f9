"""What came of a search: its trials, and the study that they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from tuckerkg.types import JsonObject


@dataclass(frozen=True)
class Trial:
    """One try: the settings that were varied, the best validation MRR, and how it ended.

    ``state`` is complete, pruned (weaker than most at the same epoch), diverged or unfinished.
    """

    number: int
    state: str
    mrr: float
    minutes: float
    settings: JsonObject

    def as_dict(self) -> JsonObject:
        """For JSON."""
        return {
            "number": self.number,
            "state": self.state,
            "valid_mrr": round(self.mrr, 5),
            "minutes": round(self.minutes, 2),
            "settings": self.settings,
        }


@dataclass(frozen=True)
class Study:
    """A finished search: all trials, best first, and the folder it is kept in."""

    folder: Path
    trials: list[Trial]

    @property
    def best(self) -> Trial:
        """The trial with the best validation MRR."""
        return self.trials[0]

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        rows = "".join(
            f"<tr><td>{trial.number}</td><td>{trial.mrr:.4f}</td><td>{trial.state}</td><td>{escape(str(trial.settings))}</td></tr>"
            for trial in self.trials
        )
        header = "".join(f"<th>{name}</th>" for name in ("trial", "valid MRR", "state", "settings"))
        return f"<table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>"


def described(trial: Any) -> Trial:
    """A trial as Optuna keeps it."""
    attributes = trial.user_attrs
    state = {"COMPLETE": "complete", "PRUNED": "pruned"}.get(trial.state.name, "unfinished")
    seen = max(trial.intermediate_values.values(), default=0.0)
    return Trial(
        trial.number,
        "diverged" if "diverged" in attributes else state,
        attributes.get("mrr", seen),
        attributes.get("minutes", 0.0),
        attributes.get("settings", {}),
    )
