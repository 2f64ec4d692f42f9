"""DuckDB under a memory limit: sorts, joins and groups the rows of one shard, on disk where they do not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tuckerkg.errors import TuckerkgError, printable

if TYPE_CHECKING:
    import polars as pl

Columns = Mapping[str, npt.NDArray[Any]]

CHUNK = 1 << 18  # rows fetched at a time
# The interpreter, its libraries, what they hold of the stage before, and the arrays of a chunk (benchmark "ingest").
RESERVED = 250_000_000
SHARE, LEAST = 0.5, 100_000_000
INSTALL = 'DuckDB is not installed; it comes with: pip install "tuckerkg[ingest]"'


def duckdb_module() -> ModuleType:
    """DuckDB, or a TuckerkgError that says how to install it."""
    try:
        import duckdb  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise TuckerkgError(INSTALL) from error
    return duckdb


def database_memory(memory: int) -> int:
    """What DuckDB may use of the memory, in bytes."""
    return max(LEAST, min(int(memory * SHARE), memory - RESERVED))


class Engine:
    """A database in memory that spills into ``spill``. Its tables are temporary."""

    def __init__(self, memory: int, threads: int, spill: Path) -> None:
        self.duckdb = duckdb_module()
        self.memory, self.spill = memory, spill
        spill.mkdir(exist_ok=True)
        settings: dict[str, Any] = {
            "memory_limit": f"{database_memory(memory) // 10**6}MB",
            "threads": threads,
            "temp_directory": str(spill),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        self.connection = self.duckdb.connect(":memory:", config=settings)

    def close(self) -> None:
        """Free the memory and the files."""
        self.connection.close()

    def arrays(self, query: str, *values: object) -> dict[str, npt.NDArray[Any]]:
        """The columns of a result that fits into memory."""
        with self._explained():
            found: dict[str, Any] = self.connection.execute(query, list(values)).fetchnumpy()
        return {name: np.ma.getdata(column) for name, column in found.items()}

    def frame(self, query: str) -> pl.DataFrame:
        """A result with strings."""
        import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

        # By way of a file: without pyarrow, handing it over in memory leaves complaints of a leak at exit.
        path = self.spill / "frame.parquet"
        target = str(path).replace("'", "''")
        with self._explained():
            self.connection.execute(f"COPY ({query}) TO '{target}' (FORMAT parquet)")
        return pl.read_parquet(path, glob=False)

    def keep(self, table: str, query: str, given: Columns | None = None) -> int:
        """Make a temporary table of a query, its rows in the order of the query; returns their number.

        ``given`` are arrays that the query reads as a table of that name.
        """
        with self._explained():
            if given is not None:
                self.connection.register("given", dict(given))
            self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {query}")
            if given is not None:
                self.connection.unregister("given")
        return self.count(table)

    def count(self, table: str) -> int:
        """The number of rows of a table."""
        return int(self.arrays(f"SELECT count(*) AS number FROM {table}")["number"][0])  # noqa: S608

    def drop(self, *tables: str) -> None:
        """Free tables."""
        for table in tables:
            self.connection.execute(f"DROP TABLE IF EXISTS {table}")

    def chunks(self, table: str) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """A temporary table, a number of rows at a time, in their order."""
        number = self.count(table)
        query = f"SELECT * FROM {table} WHERE rowid >= ? AND rowid < ? ORDER BY rowid"  # noqa: S608
        for start in range(0, number, CHUNK):
            yield self.arrays(query, start, start + CHUNK)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except self.duckdb.OutOfMemoryException as error:
            raise TuckerkgError(
                f"{self.memory // 10**6:,} MB of memory are not enough for a shard: raise --memory, or take more "
                f"--shards (DuckDB: {_first_line(error)})"
            ) from error
        except self.duckdb.IOException as error:
            raise TuckerkgError(
                f"DuckDB cannot read or write: {_first_line(error)}; check the disk of --out"
            ) from error


def parquet(folder: Path, pattern: str) -> str:
    """The Parquet files under a folder whose names fit ``pattern``, as a table in SQL."""
    files = re.sub(r"([*?\[])", r"[\1]", str(folder)).replace("'", "''")
    return f"read_parquet('{files}/{pattern}')"


def _first_line(error: Exception) -> str:
    return printable(str(error).splitlines()[0])
