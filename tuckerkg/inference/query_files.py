"""Questions and triples from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tuckerkg.data.labels import Labels
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.readers.read import read_rows
from tuckerkg.errors import InputError, Problem, UnknownNameError
from tuckerkg.inference.predictions import Predictions
from tuckerkg.types import ProgressFunction

if TYPE_CHECKING:
    from tuckerkg.inference.run import Run

OPEN = "?"


def ask_file(
    run: Run,
    file: Path,
    options: ReadOptions,
    k: int,
    *,
    known: bool = False,
    typed: bool = True,
    progress: ProgressFunction | None = None,
) -> Predictions:
    """The ``k`` best answers to every question of ``file``, question by question.

    All rows are checked first; raises InputError that names those with an unknown name, or without one ``?``.
    """
    rows = read_rows(file, options)
    questions = list(zip(rows.heads.to_list(), rows.relations.to_list(), rows.tails.to_list(), strict=True))
    problems = [
        Problem(str(file), line, 1, what)
        for line, question in zip(rows.line_numbers.tolist(), questions, strict=True)
        if (what := _wrong(run, question)) is not None
    ]
    if problems:
        remedy = f"Write {OPEN} for what is asked for, and names that the run was trained with for the rest."
        raise InputError(problems[: InputError.SHOWN], remedy, total=len(problems))
    found = Predictions()
    for done, question in enumerate(questions, 1):
        head, relation, tail = (None if part == OPEN else part for part in question)
        found += run.predict(head, relation, tail, k, known=known, typed=typed)
        if progress is not None:
            progress(done, len(questions))
    return found


def _wrong(run: Run, question: tuple[str, str, str]) -> str | None:
    if question.count(OPEN) != 1:
        return f"{question.count(OPEN)} of head, relation and tail are {OPEN}, one was expected"
    for names, name in zip((run.entities, run.relations, run.entities), question, strict=True):
        if name != OPEN:
            try:
                names.id_of(name)
            except UnknownNameError as error:
                return str(error)
    return None


def score_file(run: Run, file: Path, options: ReadOptions) -> Predictions:
    """Every row of ``file`` with its score, in file order. Raises InputError naming rows with unknown names."""
    rows = read_rows(file, options)
    triples = list(zip(rows.heads.to_list(), rows.relations.to_list(), rows.tails.to_list(), strict=True))
    problems: list[Problem] = []
    for line, (head, relation, tail) in zip(rows.line_numbers.tolist(), triples, strict=True):
        for column, (names, name) in enumerate(
            ((run.entities, head), (run.relations, relation), (run.entities, tail)), 1
        ):
            problem = _problem(str(file), line, column, names, name, explain=len(problems) < InputError.SHOWN)
            if problem is not None:
                problems.append(problem)
    if problems:
        raise InputError(problems, "Only names that the run was trained with can be scored.")
    return run.score(triples)


def _problem(file: str, line: int, column: int, names: Labels, name: str, *, explain: bool) -> Problem | None:
    """``explain`` False saves the search for near names once enough problems are explained."""
    if name in names:
        return None
    try:
        names.id_of(name)
    except UnknownNameError as error:
        return Problem(file, line, column, str(error) if explain else f"unknown {names.kind}")
    return None
