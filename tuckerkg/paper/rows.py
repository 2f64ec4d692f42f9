"""The paper's tables as rows: what it prints, and our run for it (``paper.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tuckerkg.config.settings import Settings
from tuckerkg.config.toml import experiment_files, experiment_name, load_settings
from tuckerkg.errors import UnknownNameError, did_you_mean, printable
from tuckerkg.types import JsonObject

METRICS = ("mrr", "hits@1", "hits@3", "hits@10")
DATASETS = ("fb15k-237", "wn18rr")


class Row(BaseModel):
    """One row of a table."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    table: str
    name: str
    system: str
    dim: int
    paper: tuple[float, ...] = ()
    seeds: tuple[int, ...] = (0,)
    x: int | None = None
    base: str = ""
    set: JsonObject = {}
    same: str = ""  # the row whose runs serve here as well

    @property
    def dataset(self) -> str:
        """The dataset that the name begins with."""
        return next(dataset for dataset in DATASETS if self.name.startswith(dataset))

    @property
    def experiment(self) -> str:
        """The settings that the row starts from."""
        return self.base or self.name

    @property
    def run_as(self) -> Row:
        """The row whose runs stand here: itself, or the one that it names as the same."""
        return row_named(self.same) if self.same else self

    @property
    def can_run(self) -> bool:
        """Whether its settings are shipped."""
        if self.same:
            return self.run_as.can_run
        return self.experiment in {experiment_name(file) for file in experiment_files()}

    def printed(self, metric: str) -> float | None:
        """What the paper prints, if it does."""
        place = METRICS.index(metric)
        return self.paper[place] if place < len(self.paper) else None

    @property
    def start(self) -> str:
        """The experiment that its run starts from; empty if none."""
        return self.settings(0).start.run

    def settings(self, seed: int) -> Settings:
        """The settings of one run."""
        return load_settings(self.experiment, {**self.set, "experiment": self.name, "train.seed": seed})


def paper_rows() -> list[Row]:
    """All rows, in the order of the file."""
    tables = tomllib.loads((Path(__file__).with_name("paper.toml")).read_text(encoding="utf-8"))
    return [Row(table=table, name=name, **row) for table, rows in tables.items() for name, row in rows.items()]


def row_named(name: str) -> Row:
    """One row."""
    return next(row for row in paper_rows() if row.name == name)


def choose_rows(wanted: Sequence[str]) -> list[Row]:
    """Rows by name or by table, all where nothing is named.

    Raises:
        UnknownNameError: a name is neither a row nor a table.
    """
    rows = paper_rows()
    tables, names = {row.table for row in rows}, {row.name for row in rows}
    for text in wanted:
        if text not in tables | names:
            raise UnknownNameError(
                f"{printable(text)}: neither a row nor a table.{did_you_mean(text, [*tables, *names])} "
                f"Tables: {', '.join(sorted(tables))}; `tuckerkg reproduce --show` lists all rows"
            )
    return [row for row in rows if not wanted or row.table in wanted or row.name in wanted]


def runnable(rows: Sequence[Row]) -> list[Row]:
    """Those of ``rows`` whose settings are shipped.

    Raises:
        UnknownNameError: there is none.
    """
    found = [row for row in rows if row.can_run]
    if not found:
        missing = ", ".join(sorted({row.experiment for row in rows}))
        raise UnknownNameError(f"none of these rows can be run yet: there is no experiment {missing}")
    return found
