"""Options of reading a file of triples."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tuckerkg.data.readers.bytes import Limits


@dataclass(frozen=True)
class ReadOptions:
    """How to read triple files.

    ``delimiter``: a character or one of tab, comma, space, semicolon, pipe; None goes by the file's name.
    ``header``: True skips the first row, False takes it as a triple, None asks when it looks like a header.
    ``columns``: head, relation and tail in a wider file, each a header name or a number from 1.
    ``on_error``: "stop" raises on any bad row; "skip" sets bad rows aside, into ``rejects`` if given.
    ``keep_literals``: RDF literals become entities; else they are left out and counted.
    ``integers``: columns of whole numbers in Parquet are names.
    """

    delimiter: str | None = None
    header: bool | None = None
    columns: tuple[str | int, str | int, str | int] | None = None
    on_error: Literal["stop", "skip"] = "stop"
    rejects: Path | None = None
    keep_literals: bool = False
    integers: bool = False
    limits: Limits = field(default_factory=Limits)
