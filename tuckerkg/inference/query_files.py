"""Questions and triples from a file.

A file is read as a file of facts is. Its distinct names are looked up once, its distinct questions asked once, many at
a time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tuckerkg.data.labels import Labels
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.readers.read import Rows, TripleTable, read_rows
from tuckerkg.data.readers.rejects import Reject, write_rejects
from tuckerkg.errors import InputError, Problem, UnknownNameError
from tuckerkg.inference.answers.columns import Answers
from tuckerkg.types import ProgressFunction

if TYPE_CHECKING:
    import polars as pl

    from tuckerkg.inference.predictor import Predictor
    from tuckerkg.inference.run import Run

OPEN = "?"
ASKED, UNKNOWN = -1, -2  # instead of an id


@dataclass(frozen=True)
class FileAnswers:
    """What was found for the rows of a file.

    ``frame`` has what a prediction has, and in front of it the row's line: as ``question``, with the ``rank`` among its
    answers, or as ``line`` where triples were scored. ``questions`` counts the rows that were used.
    """

    frame: pl.DataFrame
    questions: int
    rejects: tuple[Reject, ...]


def ask_file(
    run: Run,
    file: Path,
    options: ReadOptions,
    k: int,
    *,
    known: bool = False,
    typed: bool = True,
    joined: bool = True,
    progress: ProgressFunction | None = None,
) -> FileAnswers:
    """The ``k`` best answers to every question of ``file``.

    All rows are checked first: InputError names those with an unknown name, or without one ``?``. With ``on_error``
    "skip" they are set aside instead, into ``rejects`` if given.
    """
    rows = read_rows(file, options)
    ids = _ids(run, rows, asking=True)
    wrong = (ids == UNKNOWN).any(1) | ((ids == ASKED).sum(1) != 1)
    what = f"Write {OPEN} for what is asked for, and names that the run was trained with for the rest"
    rejects = _set_aside(run, rows, ids, wrong, options, what)
    found = answer_ids(run.predictor, ids[~wrong], k, known=known, typed=typed, joined=joined, progress=progress)
    lines = torch.from_numpy(rows.line_numbers[~wrong])
    frame = _renumbered(found, lines).frame(run.entities, run.relations)
    return FileAnswers(frame, int((~wrong).sum()), rejects)


def known_triples(run: Run, source: str | os.PathLike[str] | TripleTable, options: ReadOptions) -> np.ndarray:
    """Facts ``[n, 3]`` of a file or table in ids; rows with unknown names as in ``ask_file``."""
    rows = read_rows(source, options)
    ids = _ids(run, rows)
    wrong = (ids == UNKNOWN).any(1)
    _set_aside(run, rows, ids, wrong, options, "Only names that the run was trained with can be weighed")
    known: np.ndarray = ids[~wrong]
    return known


def score_file(run: Run, file: Path, options: ReadOptions) -> FileAnswers:
    """Every row of ``file`` with its probability and verdict, in file order; unknown names as in ``ask_file``."""
    import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

    rows = read_rows(file, options)
    ids = _ids(run, rows)
    wrong = (ids == UNKNOWN).any(1)
    rejects = _set_aside(run, rows, ids, wrong, options, "Only names that the run was trained with can be scored")
    found, verdicts, errors = run.predictor.judge(torch.from_numpy(ids[~wrong]))
    frame = _renumbered(found, torch.from_numpy(rows.line_numbers[~wrong])).frame(run.entities, run.relations)
    frame = (
        frame.rename({"question": "line"})
        .drop("rank")
        .with_columns(
            pl.Series("verdict", verdicts, dtype=pl.String), pl.Series("error_rate", errors, dtype=pl.Float64)
        )
    )
    return FileAnswers(frame, len(frame), rejects)


def answer_ids(
    predictor: Predictor,
    questions: np.ndarray,
    k: int,
    *,
    known: bool = False,
    typed: bool = True,
    joined: bool = True,
    progress: ProgressFunction | None = None,
) -> Answers:
    """The best answers to ``questions [Q, 3]`` of (head, relation, tail), one of them -1; in their order."""
    distinct, places = np.unique(questions, axis=0, return_inverse=True)
    heads, relation_ids, tails = torch.from_numpy(distinct).unbind(1)
    for_relation = relation_ids == ASKED
    for_head = heads == ASKED
    one_end, pairs = ((chosen).nonzero()[:, 0] for chosen in (~for_relation, for_relation))
    queries = torch.stack(
        [torch.where(for_head, tails, heads), relation_ids + predictor.num_relations * for_head.long()], 1
    )[one_end]
    count = len(queries)

    def tell(start: int, size: int) -> ProgressFunction:
        def of_all(done: int, total: int) -> None:
            if progress is not None:
                progress(start + size * done // max(total, 1), len(distinct))

        return of_all

    flags = (torch.full((count,), known), torch.full((count,), typed))
    found = predictor.answers(queries, torch.full((count,), k), *flags, joined=joined, progress=tell(0, count))
    ends = torch.stack([heads, tails], 1)[pairs]
    more = predictor.relation_answers(ends, k, known, typed=typed, joined=joined, progress=tell(count, len(pairs)))
    everything = Answers.joined([_renumbered(found, one_end), *(_renumbered(part, pairs) for part in more)])
    order = torch.argsort(everything.questions, stable=True)
    return everything.rows(order).of(torch.from_numpy(places.reshape(-1)))


def _renumbered(part: Answers, numbers: Tensor) -> Answers:
    return Answers(numbers[part.questions], *list(vars(part).values())[1:])


def _ids(run: Run, rows: Rows, asking: bool = False) -> np.ndarray:
    """Ids of every row ``[n, 3]``; ``UNKNOWN`` for a name that is none, ``ASKED`` for a question mark."""
    entities = _found(run.entities, rows.entity_labels.to_list(), asking)
    relations = _found(run.relations, rows.relation_labels.to_list(), asking)
    heads, tails = entities[rows.head_positions], entities[rows.tail_positions]
    return np.stack([heads, relations[rows.relation_positions], tails], 1)


def _found(names: Labels, written: list[str], asking: bool) -> np.ndarray:
    ids = [ASKED if asking and name == OPEN else names.find(name) for name in written]
    return np.array([UNKNOWN if number is None else number for number in ids], dtype=np.int64)


def _set_aside(
    run: Run, rows: Rows, ids: np.ndarray, wrong: np.ndarray, options: ReadOptions, remedy: str
) -> tuple[Reject, ...]:
    """Rows that cannot be used, those of ``wrong [n]`` among them; raises InputError unless they may be skipped."""
    numbers = np.flatnonzero(wrong).tolist()
    if numbers and options.on_error == "stop":
        problems = [each for row in numbers[: InputError.SHOWN] for each in _problems(run, rows, row, ids)]
        total = int(np.maximum((ids[wrong] == UNKNOWN).sum(1), 1).sum())
        remedy += "; or pass --on-error=skip to set these rows aside and go on."
        raise InputError(problems, remedy, total=total)
    found = []
    for place, row in enumerate(numbers):
        problems = _problems(run, rows, row, ids, explain=place < InputError.SHOWN)
        what = "; ".join(problem.what for problem in problems)
        found.append(Reject(replace(problems[0], what=what), "\t".join(rows.triple(row))))
    rejects = tuple(sorted([*rows.rejects, *found], key=lambda reject: reject.problem.line or 0))
    if options.on_error == "skip" and options.rejects is not None:
        write_rejects(options.rejects, rejects)
    return rejects


def _problems(run: Run, rows: Rows, row: int, ids: np.ndarray, explain: bool = True) -> list[Problem]:
    """What is wrong with a row; ``explain`` False saves the search for near names."""
    line, written = int(rows.line_numbers[row]), rows.triple(row)
    parts = zip((run.entities, run.relations, run.entities), written, ids[row].tolist(), strict=True)
    found = [
        Problem(rows.shown, line, column, _why(names, name) if explain else f"unknown {names.kind}")
        for column, (names, name, number) in enumerate(parts, 1)
        if number == UNKNOWN
    ]
    what = f"{written.count(OPEN)} of head, relation and tail are {OPEN}, one was expected"
    return found or [Problem(rows.shown, line, 1, what)]


def _why(names: Labels, name: str) -> str:
    try:
        names.id_of(name)
    except UnknownNameError as error:
        return str(error)
    return f"unknown {names.kind}"
