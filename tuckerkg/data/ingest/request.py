"""What is asked of an ingest: files by split, options, and the memory it may use."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tuckerkg.data.load import split_files
from tuckerkg.data.readers.bytes import open_blocks
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.readers.read import TripleFile
from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.errors import TuckerkgError
from tuckerkg.types import JsonObject

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

MOST_SHARDS = 1024
LEAST_MEMORY = 300_000_000
MOST_FILES = 10_000
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


@dataclass(frozen=True)
class Source:
    """One file and the split it belongs to, with what tells that it has not changed."""

    file: TripleFile
    split: str
    bytes: int
    modified: int  # nanoseconds

    @classmethod
    def of(cls, file: TripleFile, split: str) -> Source:
        """A file as it is now; refuses what is missing or no regular file."""
        next(open_blocks(file.path, file.shown), b"")
        status = file.path.stat()
        return cls(file, split, status.st_size, status.st_mtime_ns)


@dataclass(frozen=True)
class Request:
    """Files and options: together they determine every byte of the result. Memory and threads do not."""

    sources: tuple[Source, ...]
    options: ReadOptions
    shards: int
    fractions: tuple[float, float, float] | None
    seed: int
    allow_leaks: bool

    def chosen(self) -> JsonObject:
        """The options as plain JSON values."""
        options = self.options
        return {
            "shards": self.shards,
            "split": None if self.fractions is None else list(self.fractions),
            "seed": self.seed,
            "allow_leaks": self.allow_leaks,
            "delimiter": options.delimiter,
            "header": options.header,
            "columns": None if options.columns is None else list(options.columns),
            "on_error": options.on_error,
            "keep_literals": options.keep_literals,
            "integers": options.integers,
        }

    def fingerprint(self) -> JsonObject:
        """What an unfinished ingest must agree with to be continued."""
        files = {
            f"{source.split} {source.file.path.resolve()}": [source.bytes, source.modified] for source in self.sources
        }
        # Leaks are judged after the stages that are recorded, so that --allow-leaks continues what they stopped.
        options = {name: value for name, value in self.chosen().items() if name != "allow_leaks"}
        return {"options": options, "files": files}


def make_request(
    files: Paths,
    valid: Paths = (),
    test: Paths = (),
    *,
    shards: int,
    split: Sequence[float] | None,
    seed: int,
    allow_leaks: bool,
    options: ReadOptions | None,
) -> Request:
    """Check what is asked before anything is read.

    Raises:
        TuckerkgError: no files, a folder beside others, too many shards, or shares that are none.
    """
    if not 1 <= shards <= MOST_SHARDS:
        raise TuckerkgError(f"{shards:,} shards were asked for, 1 to {MOST_SHARDS:,} are possible")
    found = {"train": _listed(files), "valid": _listed(valid), "test": _listed(test)}
    paths = found["train"]
    if not paths:
        raise TuckerkgError("no file was given; name one or more files of triples, or a folder with a train file")
    by_split = {name: [TripleFile(path, str(path)) for path in part] for name, part in found.items()}
    if any(path.is_dir() for path in paths):
        if len(paths) > 1 or found["valid"] or found["test"]:
            raise TuckerkgError(f"{paths[0]}: give one folder alone, or files")
        by_split = {name: [file] for name, file in split_files(paths[0]).items()}
    if sum(map(len, by_split.values())) > MOST_FILES:
        raise TuckerkgError(f"more than {MOST_FILES:,} files were given; join some of them")
    sources = tuple(Source.of(file, name) for name in SPLITS for file in by_split.get(name, ()))
    chosen = options or ReadOptions()
    # A file may be as large as it likes; lines and the ratio of a compressed one stay limited.
    chosen = replace(chosen, limits=replace(chosen.limits, total_bytes=2**63))
    return Request(sources, chosen, shards, _fractions(split, by_split), seed, allow_leaks)


def _listed(paths: Paths) -> list[Path]:
    single = isinstance(paths, str | os.PathLike)
    return [Path(paths)] if single else [Path(path) for path in paths]  # type: ignore[arg-type,union-attr]


def _fractions(
    split: Sequence[float] | None, by_split: dict[str, list[TripleFile]]
) -> tuple[float, float, float] | None:
    if split is None:
        return None
    if len(split) != 3 or min(split) < 0 or not np.isclose(sum(split), 1.0) or split[0] == 0:
        raise TuckerkgError(f"split {tuple(split)} must be three shares of train, valid and test that add up to 1")
    if by_split.get("valid") or by_split.get("test"):
        raise TuckerkgError("a split was asked for, and files for validation or test were given; leave out one of them")
    return (float(split[0]), float(split[1]), float(split[2]))


def parse_memory(text: str | int) -> int:
    """``2GB``, ``500 MB``, ``1.5GiB`` or a number, in bytes."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]I?)?B?\s*", str(text), re.IGNORECASE)
    if match is None:
        raise TuckerkgError(f"memory {text!r} is not a size; write it as 2GB, 500MB or 1.5GiB")
    size = int(float(match[1]) * UNITS[(match[2] or "").upper()])
    if size < LEAST_MEMORY:
        raise TuckerkgError(f"memory {text} is too little; {LEAST_MEMORY // 10**6} MB are needed at least")
    return size
