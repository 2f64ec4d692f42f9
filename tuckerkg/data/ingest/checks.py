"""What stops an ingest after its files have been read: the same errors, in the same words, as for files in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tuckerkg.data.from_files import (
    LEAKS_REMEDY,
    RELATIONS_REMEDY,
    leak_problem,
    no_triples_left,
    unseen_relation_problem,
)
from tuckerkg.data.ingest.placing import Placed
from tuckerkg.data.ingest.reading import FileRead
from tuckerkg.data.ingest.request import Source
from tuckerkg.data.ingest.triples import Distinct
from tuckerkg.data.shards import file_names
from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.errors import InputError, Problem

Triple = tuple[int, int, int]


def check_rows(sources: Sequence[Source], files: Sequence[FileRead]) -> None:
    """Refuse a file of which nothing is left."""
    for source, read in zip(sources, files, strict=True):
        if not read.good:
            problems = [Problem(*problem) for problem in read.first_problems]
            raise no_triples_left(source.file.shown, source.split, read.read, problems)


def check_leaks(sources: Sequence[Source], placed: Placed, found: Distinct) -> None:
    """Refuse triples that are in two splits, with the lines of the first ones."""
    if not found.leaks:
        return
    leaked: dict[str, set[Triple]] = {split: set() for split in SPLITS}
    for head, relation, tail, split in found.leaked:
        leaked[SPLITS[split]].add((head, relation, tail))
    listed: dict[str, list[Problem]] = {split: [] for split in SPLITS}
    for block in placed.blocks():
        source = sources[block.file]
        wanted = leaked[source.split]
        if not wanted or len(listed[source.split]) >= InputError.SHOWN:
            continue
        lines = placed.line_numbers(block)
        for row in np.flatnonzero(np.isin(block.triples[:, 0], [head for head, _, _ in wanted])).tolist():
            head, relation, tail = block.triples[row].tolist()
            if (head, relation, tail) in wanted and len(listed[source.split]) < InputError.SHOWN:
                wanted.discard((head, relation, tail))
                names = [_name(placed, head), placed.relations[relation], _name(placed, tail)]
                listed[source.split].append(leak_problem(source.file.shown, int(lines[row]), source.split, names))
    raise InputError([problem for part in listed.values() for problem in part], LEAKS_REMEDY, found.leaks)


def check_relations(sources: Sequence[Source], placed: Placed) -> None:
    """Refuse relations that training does not have, with the first line of each."""
    files = list(zip(sources, placed.files, strict=True))
    known = {label for source, read in files if source.split == "train" for label in read.relations}
    unseen = [{label for label in read.relations if label not in known} for read in placed.files]
    if not any(unseen):
        return
    numbers = {label: number for number, label in enumerate(placed.relations)}
    problems = []
    for block in placed.blocks():
        for label in sorted(unseen[block.file], key=numbers.__getitem__):
            rows = np.flatnonzero(block.triples[:, 1] == numbers[label])
            if len(rows):
                line = int(placed.line_numbers(block)[rows[0]])
                problems.append((block.file, line, label))
                unseen[block.file].discard(label)
    shown = [unseen_relation_problem(sources[file].file.shown, line, label) for file, line, label in sorted(problems)]
    raise InputError(shown, RELATIONS_REMEDY)


def _name(placed: Placed, entity_id: int) -> str:
    import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

    shard = int(np.searchsorted(placed.offsets, entity_id, side="right")) - 1
    path: Path = placed.work / "number" / file_names(shard)["names"]
    names = pl.scan_parquet(path, glob=False).select("name")
    return str(names.slice(entity_id - int(placed.offsets[shard]), 1).collect().item())
