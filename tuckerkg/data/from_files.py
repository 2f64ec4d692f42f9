"""Triple files to ids: vocabulary, splits, and the report of what was read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tuckerkg.data.labels import Vocabulary
from tuckerkg.data.read_report import FileReport, ReadReport, report_on
from tuckerkg.data.readers.delimited import sorted_labels
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.readers.read import Rows, TripleFile, TripleTable, read_rows, read_titles
from tuckerkg.data.readers.rejects import write_rejects
from tuckerkg.data.splitting import first_rows, split_triples
from tuckerkg.data.triple_sets import SPLITS, Triples, is_among, triple_keys
from tuckerkg.errors import InputError, Problem

if TYPE_CHECKING:
    import polars as pl

File = str | os.PathLike[str] | TripleFile
Source = File | TripleTable
Titles = Mapping[str, str] | File
LEAKS_REMEDY = "If this is intended, pass --allow-leaks; the results will be too good."
RELATIONS_REMEDY = "Move a triple of each such relation into training, or remove them."


@dataclass(frozen=True)
class ReadGraph:
    """Triples of ids, ``[n, 3]`` as (head, relation, tail), in three splits, with names and readable titles."""

    name: str
    entities: Vocabulary
    relations: Vocabulary
    train: Triples  # [n, 3]
    valid: Triples  # [n, 3]
    test: Triples  # [n, 3]
    entity_titles: Mapping[str, str]
    relation_titles: Mapping[str, str]
    report: ReadReport


# The arguments are the public surface; grouping them would only move the names into another object.
def read_graph(  # noqa: PLR0913
    train: Source,
    valid: Source | None = None,
    test: Source | None = None,
    *,
    name: str | None = None,
    entity_titles: Titles | None = None,
    relation_titles: Titles | None = None,
    options: ReadOptions | None = None,
    allow_leaks: bool = False,
    split: tuple[float, float, float] | None = (0.8, 0.1, 0.1),
    seed: int = 0,
    unseen_relations: bool = False,
) -> ReadGraph:
    """Read triple files; the vocabulary takes in the names of all splits. See ``Dataset.from_files``.

    Raises:
        InputError: a file is bad, a triple is in two files (unless ``allow_leaks``), or a relation is missing from
            training (unless ``unseen_relations``).
    """
    options = options or ReadOptions()
    given = zip(SPLITS, (train, valid, test), strict=True)
    sources = {split_name: source for split_name, source in given if source is not None}
    rows = _read_all(sources, options)
    entities, relations = _vocabularies(list(rows.values()))
    parts = {split_name: _Part.of(part, entities, relations) for split_name, part in rows.items()}
    leaks = _check_leaks(parts, allow_leaks)
    if not unseen_relations:
        _check_relations(rows)
    triples = {split_name: part.triples for split_name, part in parts.items()}
    carved, warnings = fill_splits(triples, len(entities), len(relations), split, seed)
    if leaks:
        warnings.append(leaks_warning(leaks))
    if options.on_error == "skip" and options.rejects is not None:
        write_rejects(options.rejects, [reject for part in rows.values() for reject in part.rejects])
    files = [part.report(split_name) for split_name, part in parts.items()]
    report = report_on(carved, files, {"leaks": leaks}, warnings, entities.labels, relations.labels)
    first = train.shown if isinstance(train, TripleFile | TripleTable) else os.fspath(train)
    return ReadGraph(
        name=name or _plain_name(first),
        entities=entities,
        relations=relations,
        train=carved["train"],
        valid=carved["valid"],
        test=carved["test"],
        entity_titles=_titles(entity_titles, entities, options, rows.values()),
        relation_titles=_titles(relation_titles, relations, options, rows.values()),
        report=report,
    )


def _read_all(sources: Mapping[str, Source], options: ReadOptions) -> dict[str, Rows]:
    """Read every file before complaining, so that one run shows what is wrong with all of them."""
    rows: dict[str, Rows] = {}
    problems: list[Problem] = []
    remedies: dict[str, None] = {}
    total = 0
    for name, source in sources.items():
        try:
            rows[name] = read_rows(source, options)
        except InputError as error:
            problems += error.problems
            total += error.total
            if error.remedy:
                remedies[error.remedy] = None
    if problems:
        raise InputError(problems, "\n".join(remedies), total)
    for name, part in rows.items():
        if not len(part.line_numbers):
            raise no_triples_left(part.shown, name, part.read, [reject.problem for reject in part.rejects])
    return rows


def no_triples_left(shown: str, split: str, read: int, problems: Sequence[Problem]) -> InputError:
    """The error of a file without a single good row; ``problems`` are the first of its rows."""
    what = f"0 triples left for {split}: all {read:,} rows are bad"
    return InputError([Problem(shown, None, None, what), *problems], total=1 + read)


def _vocabularies(rows: Sequence[Rows]) -> tuple[Vocabulary, Vocabulary]:
    kinds = ([part.entity_labels for part in rows], [part.relation_labels for part in rows])
    entities, relations = (found[0] if len(found) == 1 else sorted_labels(found) for found in kinds)
    return Vocabulary(tuple(entities.to_list())), Vocabulary(tuple(relations.to_list()))


@dataclass(frozen=True)
class _Part:
    """One file as ids: its distinct ``triples``, their ``keys``, and the ``positions`` of their rows in the file."""

    rows: Rows
    triples: Triples
    keys: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: Rows, entities: Vocabulary, relations: Vocabulary) -> _Part:
        entity_ids, relation_ids = _ids(rows.entity_labels, entities), _ids(rows.relation_labels, relations)
        triples = np.empty((len(rows.line_numbers), 3), dtype=np.int64)  # [n, 3]
        triples[:, 0] = entity_ids[rows.head_positions]
        triples[:, 1] = relation_ids[rows.relation_positions]
        triples[:, 2] = entity_ids[rows.tail_positions]
        keys = triple_keys(triples, len(entities), len(relations))
        positions = np.arange(len(keys))
        repeats = _repeats(keys)
        if len(repeats):
            positions = np.delete(positions, repeats)
            triples, keys = triples.take(positions, axis=0), keys[positions]
        return cls(rows, triples, keys, positions)

    def report(self, split: str) -> FileReport:
        return FileReport(
            name=self.rows.shown,
            split=split,
            sha256=self.rows.sha256,
            read=self.rows.read,
            kept=len(self.positions),
            rejected=len(self.rows.rejects),
            duplicates=len(self.rows.line_numbers) - len(self.positions),
            blank=self.rows.blank,
            comments=self.rows.comments,
            notes=self.rows.notes,
            literals=self.rows.literals,
        )


def _ids(labels: pl.Series, vocabulary: Vocabulary) -> npt.NDArray[np.integer[Any]]:
    """The id of each of the sorted ``labels`` of one file, all of which are in the vocabulary."""
    import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

    if len(labels) == len(vocabulary):
        return np.arange(len(labels))
    return labels.cast(pl.Enum(vocabulary.labels)).to_physical().to_numpy()


def _repeats(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Positions of keys that occurred before. Sorting alone is far cheaper than sorting with positions."""
    ordered = np.sort(keys)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    among = np.flatnonzero(is_among(keys, repeated))
    firsts = np.unique(keys[among], return_index=True)[1]
    return np.delete(among, firsts)


def _check_leaks(parts: Mapping[str, _Part], allowed: bool) -> int:
    """Count triples that are in an earlier file too; unless allowed, that is an error that lists them."""
    earlier: list[npt.NDArray[np.int64]] = []
    problems: list[Problem] = []
    total = 0
    for name, part in parts.items():
        seen = np.sort(np.concatenate(earlier)) if earlier else part.keys[:0]
        leaked = part.positions[is_among(part.keys, seen)]
        total += len(leaked)
        rows = part.rows
        for row in leaked[: InputError.SHOWN].tolist():
            problems.append(leak_problem(rows.shown, int(rows.line_numbers[row]), name, rows.triple(row)))
        earlier.append(part.keys)
    if problems and not allowed:
        raise InputError(problems, LEAKS_REMEDY, total)
    return total


def leak_problem(shown: str, line: int, split: str, triple: Sequence[str]) -> Problem:
    """A triple that an earlier split has too."""
    what = f"the {split} triple {' | '.join(triple)} is also in an earlier split; remove it from one of them"
    return Problem(shown, line, 1, what)


def _check_relations(rows: Mapping[str, Rows]) -> None:
    known = set(rows["train"].relation_labels.to_list())
    problems = []
    for part in rows.values():
        labels = part.relation_labels.to_list()
        if known.issuperset(labels):
            continue
        firsts = part.line_numbers[first_rows(part.relation_positions, len(labels))].tolist()
        for first, relation in sorted(zip(firsts, labels, strict=True)):
            if relation in known:
                continue
            problems.append(unseen_relation_problem(part.shown, first, relation))
    if problems:
        raise InputError(problems, RELATIONS_REMEDY)


def unseen_relation_problem(shown: str, line: int, relation: str) -> Problem:
    """A relation that only held-out triples have."""
    what = f"the relation {relation} does not occur in training, so nothing can be learned about it"
    return Problem(shown, line, 1, what)


def leaks_warning(number: int) -> str:
    """What to know where triples that are in two splits were allowed."""
    return f"{number:,} triples are in more than one split and were kept in each: results are too good"


def fill_splits(
    triples: Mapping[str, Triples],
    num_entities: int,
    num_relations: int,
    split: tuple[float, float, float] | None,
    seed: int,
) -> tuple[dict[str, Triples], list[str]]:
    """Take the splits that were not given out of training."""
    empty = np.empty((0, 3), dtype=np.int64)
    filled = {name: triples.get(name, empty) for name in SPLITS}
    if split is None or "valid" in triples:
        warnings = [] if "test" in triples else ["there is no test split"]
        return filled, warnings
    shares = split if "test" not in triples else (1.0 - split[1], split[1], 0.0)
    parts = split_triples(triples["train"], num_entities, num_relations, shares, seed)
    warnings = []
    for name, share, part in zip(SPLITS[1:], shares[1:], parts[1:], strict=True):
        wanted = int(share * len(triples["train"]))
        if len(part) < wanted:
            warnings.append(
                f"only {len(part):,} of the {wanted:,} triples wanted for {name} could be taken from "
                "training without leaving an entity or relation without a triple there"
            )
    if "test" in triples:
        parts = (parts[0], parts[1], triples["test"])
    return dict(zip(SPLITS, parts, strict=True)), warnings


def _titles(
    source: Titles | None, vocabulary: Vocabulary, options: ReadOptions, rows: Iterable[Rows]
) -> dict[str, str]:
    """Readable names; given ones take precedence over those in the triple files."""
    titles: dict[str, str] = {}
    for part in rows:
        titles = {**part.titles, **titles}
    if source is not None:
        titles |= source if isinstance(source, Mapping) else read_titles(source, options.limits)
    return {label: title for label, title in titles.items() if label in vocabulary}


def _plain_name(path: str) -> str:
    name = Path(path).name
    return name.split(".")[0] or name
