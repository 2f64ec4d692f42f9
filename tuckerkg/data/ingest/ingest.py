"""Files larger than memory to a folder of shards, stage by stage; what was interrupted is continued.

    read      each file in blocks, by the readers that judge files in memory
    number    names to ids, shard by shard
    place     rows to triples of ids, by the shard of their head
    triples   repeats dropped, leaks between splits found, shard by shard
    split     where asked for: a share is held out
    edges     training once more, by the shard of the tail

Every stage reads what the stages before it wrote, and only sorts that need one shard go through DuckDB.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tuckerkg.data.from_files import leaks_warning
from tuckerkg.data.ingest.arrays import id_type
from tuckerkg.data.ingest.checks import check_leaks, check_relations, check_rows
from tuckerkg.data.ingest.engine import Engine, duckdb_module, parquet
from tuckerkg.data.ingest.held_out import hold_out
from tuckerkg.data.ingest.numbering import best_titles, number_entities
from tuckerkg.data.ingest.placing import Placed, place_rows
from tuckerkg.data.ingest.reading import FileRead, block_bytes, read_file
from tuckerkg.data.ingest.request import Paths, Request, Source, make_request, parse_memory
from tuckerkg.data.ingest.triples import Distinct, distinct_triples, join_parts, write_edges
from tuckerkg.data.ingest.work import OVER, Work
from tuckerkg.data.read_report import FileReport
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.readers.rejects import REJECTS_HEADER
from tuckerkg.data.shards import FORMAT, GRAPH, RELATIONS, ShardedGraph, is_sharded
from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.errors import InputError, TuckerkgError
from tuckerkg.storage.lock import held
from tuckerkg.storage.sealed_folder import explained, json_bytes, seal_files
from tuckerkg.types import JsonObject, LogFunction, ProgressFunction, ignore

# Shares of the time, for the time left (benchmark stage "ingest").
TIME = {"read": 50, "number": 18, "place": 10, "triples": 12, "edges": 10}


def ingest(  # noqa: PLR0913  (by keyword)
    files: Paths,
    out: str | os.PathLike[str],
    *,
    valid: Paths = (),
    test: Paths = (),
    shards: int = 64,
    memory: str | int = "2GB",
    threads: int | None = None,
    split: Sequence[float] | None = None,
    seed: int = 0,
    options: ReadOptions | None = None,
    allow_leaks: bool = False,
    restart: bool = False,
    progress: ProgressFunction | None = None,
    log: LogFunction = ignore,
) -> ShardedGraph:
    """Write the folder ``out`` of integer shards from files of any size; it is used like any dataset.

    An ingest that was interrupted continues when it is called again with the same files and options.

    Args:
        files: training files (TSV, CSV, Parquet, N-Triples, N-Quads; text may be gzipped), or a folder with a train
            file and perhaps valid and test files.
        out: the folder to write; it must not exist.
        valid, test: files of these splits.
        shards: how many shards; more of them need less memory each.
        memory: how much to use, such as "2GB".
        threads: of DuckDB; None: one per core.
        split: shares of train, valid and test to hold out by a hash, such as (0.98, 0.01, 0.01); None: all files are
            training, and whoever opens the folder splits it as one file is split.
        seed: of the split.
        options: delimiter, header, columns, what to do with bad rows.
        allow_leaks: accept triples that are in two splits.
        restart: begin again where an unfinished ingest had other files or options.

    Raises:
        InputError: a file is bad, a triple is in two splits, or a relation is missing from training; names the line.
        TuckerkgError: DuckDB is not installed, or the folder exists.
    """
    duckdb_module()
    limit = parse_memory(memory)
    place = Path(out)
    request = make_request(
        files, valid, test, shards=shards, split=split, seed=seed, allow_leaks=allow_leaks, options=options
    )
    work = Work(place)
    if os.path.lexists(place):
        if is_sharded(place) and work.is_over(request.fingerprint()):
            work.remove()
            return ShardedGraph(place)
        raise TuckerkgError(f"{place}: exists already; remove it, or choose another --out")
    with explained(f"Cannot write {work.path}"):
        work.path.mkdir(parents=True, exist_ok=True)
    try:
        with held(work.path):
            if work.open(request.fingerprint(), restart):
                log(f"continuing the unfinished ingest in {work.path}: {', '.join(work.done) or 'no stage'} done")
            engine = Engine(limit, threads or os.cpu_count() or 1, work.path / "spill")
            try:
                _Ingest(request, work, engine, place, progress or (lambda done, total: None)).run(block_bytes(limit))
            finally:
                engine.close()
    except InputError:
        if not work.done:  # nothing to continue
            work.remove()
        raise
    work.remove()
    return ShardedGraph(place)


class _Ingest:
    """The stages in their order."""

    def __init__(self, request: Request, work: Work, engine: Engine, out: Path, progress: ProgressFunction) -> None:
        self.request, self.work, self.engine, self.out, self.progress = request, work, engine, out, progress
        self.splits = [SPLITS.index(source.split) for source in request.sources]

    def run(self, size: int) -> None:
        """Run what is left to do."""
        request, work = self.request, self.work
        files = self._read(size)
        check_rows(request.sources, files)
        offsets = self._stage(
            "number", lambda folder, tick: number_entities(self.engine, work.path, folder, request.shards, tick)
        )
        relations = sorted({label for read in files for label in read.relations})
        placed = Placed(work.path, files, np.array(offsets, dtype=np.int64), relations)
        self._stage("place", lambda folder, tick: place_rows(placed, self.splits, folder, tick))
        found = Distinct(**self._stage("triples", lambda folder, tick: asdict(self._distinct(folder, offsets, tick))))
        if not request.allow_leaks:
            check_leaks(request.sources, placed, found)
        check_relations(request.sources, placed)
        work.drop("place", "read-*/labels-*.parquet", "read-*/rows-*.npy")
        train, sizes = "triples", found.splits
        if request.fractions is not None:
            train = "split"
            sizes = self._stage("split", lambda folder, tick: self._hold_out(folder, offsets, len(relations), tick))
        self._stage("edges", lambda folder, tick: self._edges(train, folder, offsets, tick))
        work.drop("by-tail")
        self._finish(placed, found, train, sizes)

    def _stage(
        self, name: str, run: Callable[[Path, ProgressFunction], Any], before: int = 0, whole: int | None = None
    ) -> Any:
        """The result of a stage, run where it is not recorded; of a part of one, ``before`` of ``whole`` is done."""
        if name not in self.work.done:
            tick = self._ticker(name.partition("-")[0], before, whole)
            self.work.finish(name, run(self.work.start(name), tick))
        return self.work.done[name]

    def _ticker(self, stage: str, before: int, whole: int | None) -> ProgressFunction:
        """The progress of a stage as that of all of them."""
        share, everything = TIME.get(stage, 0), sum(TIME.values())
        start = sum(list(TIME.values())[: list(TIME).index(stage)]) if share else 0

        def tick(done: int, total: int) -> None:
            part = min((before + done) / max(whole or total, 1), 1.0)
            if share:
                self.progress(int(1000 * (start + share * part)), 1000 * everything)

        return tick

    def _read(self, size: int) -> list[FileRead]:
        """Read the files that are not read yet."""
        total = sum(source.bytes for source in self.request.sources)
        found, before = [], 0
        for number, source in enumerate(self.request.sources):
            run = partial(self._read_file, source, number, size)
            found.append(FileRead(**self._stage(f"read-{number:04}", run, before, total)))
            before += source.bytes
        return found

    def _read_file(self, source: Source, number: int, size: int, folder: Path, tick: ProgressFunction) -> JsonObject:
        return asdict(read_file(source, number, self.request, size, folder, tick))

    def _distinct(self, folder: Path, offsets: Sequence[int], tick: ProgressFunction) -> Distinct:
        return distinct_triples(self.engine, self.work.folder("place"), folder, offsets, self.splits, tick)

    def _hold_out(self, folder: Path, offsets: Sequence[int], num_relations: int, tick: ProgressFunction) -> list[int]:
        sizes = (self.request.shards, offsets[-1], num_relations)
        fractions = self.request.fractions or (1.0, 0.0, 0.0)
        return hold_out(self.work.folder("triples"), folder, sizes, fractions, self.request.seed, tick)

    def _edges(self, train: str, folder: Path, offsets: Sequence[int], tick: ProgressFunction) -> None:
        scratch = self.work.start("by-tail")
        write_edges(self.engine, self.work.folder(train), scratch, folder, np.array(offsets, dtype=np.int64), tick)

    def _finish(self, placed: Placed, found: Distinct, train: str, sizes: Sequence[int]) -> None:
        """Gather the result, write the rows set aside, and seal."""
        work, request = self.work, self.request
        graph = work.folder(OVER)
        kind = id_type(int(placed.offsets[-1]))
        with explained(f"Cannot write {graph}"):
            graph.mkdir(exist_ok=True)
            for split in SPLITS[1:]:
                join_parts(work.folder(train), split, request.shards, graph / f"{split}.npy", kind)
            self._write_relations(placed.relations, graph / RELATIONS)
            about = json_bytes(self._about(placed, found, train, sizes))
            (graph / GRAPH).write_bytes(about)
            self._write_rejects()
            for folder, pattern in ((train, "train-*.npy"), ("edges", "edges-*.npy"), ("number", "names-*.parquet")):
                for path in sorted(work.folder(folder).glob(pattern)):
                    path.replace(graph / path.name)
        work.finish(OVER, None)
        seal_files(graph, self.out)

    def _write_relations(self, relations: Sequence[str], path: Path) -> None:
        import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

        titles: dict[str, str] = {}
        if any(self.work.path.glob("read-*/titles-*.parquet")):
            wanted = pl.Series(relations, dtype=pl.String).to_frame("label")
            wanted.write_parquet(self.work.path / "relations.parquet")
            named = parquet(self.work.path, "relations.parquet")
            query = best_titles(parquet(self.work.path, "read-*/titles-*.parquet"))
            found = self.engine.frame(f"{query} WHERE label IN (SELECT label FROM {named}) GROUP BY label")  # noqa: S608
            titles = dict(found.iter_rows())
        frame = {"name": list(relations), "title": [titles.get(label) for label in relations]}
        pl.DataFrame(frame, schema={"name": pl.String, "title": pl.String}).write_parquet(path, compression="zstd")

    def _write_rejects(self) -> None:
        options = self.request.options
        if options.on_error != "skip" or options.rejects is None:
            return
        temporary = options.rejects.with_name(f".{options.rejects.name}.{os.getpid()}.tmp")
        with explained(f"{options.rejects}: rejected rows cannot be written"):
            with temporary.open("wb") as file:
                file.write(f"{REJECTS_HEADER}\n".encode())
                for number in range(len(self.request.sources)):
                    file.write((self.work.folder(f"read-{number:04}") / "rejects.tsv").read_bytes())
            temporary.replace(options.rejects)

    def _about(self, placed: Placed, found: Distinct, train: str, sizes: Sequence[int]) -> JsonObject:
        sources = self.request.sources
        counts = {
            split: size if train == "split" or number in self.splits else None
            for number, (split, size) in enumerate(zip(SPLITS, sizes, strict=True))
        }
        reports = [
            FileReport(
                name=source.file.shown,
                split=source.split,
                sha256=read.sha256,
                read=read.read,
                kept=kept,
                rejected=read.rejected,
                duplicates=read.good - kept,
                blank=read.blank,
                comments=read.comments,
                notes=tuple(read.notes),
                literals=read.literals,
            )
            for source, read, kept in zip(sources, placed.files, found.kept, strict=True)
        ]
        return {
            "format": FORMAT,
            "shards": self.request.shards,
            "entities": int(placed.offsets[-1]),
            "relations": len(placed.relations),
            "offsets": placed.offsets.tolist(),
            "counts": counts,
            "leaks": found.leaks,
            "files": [asdict(report) for report in reports],
            "bytes": [source.bytes for source in sources],
            "options": self.request.chosen(),
            "warnings": [leaks_warning(found.leaks)] if found.leaks else [],
        }
