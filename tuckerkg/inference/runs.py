"""Several runs of one experiment, one per seed."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from statistics import mean, stdev
from typing import TYPE_CHECKING

from tuckerkg.inference.run import Run

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Summary:
    """Metrics of several seeds: ``values[name]`` is one number per run."""

    split: str
    values: dict[str, tuple[float, ...]]

    @property
    def mean(self) -> dict[str, float]:
        """Mean over seeds, by metric."""
        return {name: mean(found) for name, found in self.values.items()}

    @property
    def deviation(self) -> dict[str, float]:
        """Standard deviation between seeds, by metric; 0 for a single one."""
        return {name: stdev(found) if len(found) > 1 else 0.0 for name, found in self.values.items()}

    def to_frame(self) -> pl.DataFrame:
        """A Polars frame: metric, mean, deviation."""
        import polars as pl  # noqa: PLC0415  (half a second that --help need not wait for)

        names = list(self.values)
        return pl.DataFrame(
            {
                "metric": names,
                "mean": [self.mean[name] for name in names],
                "deviation": [self.deviation[name] for name in names],
            }
        )

    def __str__(self) -> str:
        return ", ".join(f"{name} {self.mean[name]:.4f} ± {self.deviation[name]:.4f}" for name in self.values)

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{self.mean[name]:.4f} ± {self.deviation[name]:.4f}</td></tr>"
            for name in self.values
        )
        header = f"<th>{escape(self.split)}</th><th>mean ± deviation</th>"
        return f"<table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>"


class Runs(list[Run]):
    """Runs of one experiment, one per seed."""

    def summary(self, split: str = "test") -> Summary:
        """Evaluate every run on ``split``: MRR, Hits@k, mean rank."""
        found = [run.evaluate(split).overall.as_dict() for run in self]
        return Summary(split, {name: tuple(each[name] for each in found) for name in found[0] if name != "queries"})
