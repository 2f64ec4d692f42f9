"""Many questions from a file: rows of head, relation and tail in which one is ``?``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tuckerkg.errors import InputError, Problem, UnknownNameError
from tuckerkg.predict import Prediction
from tuckerkg.read_options import ReadOptions
from tuckerkg.reading import read_rows
from tuckerkg.run import Run

OPEN = "?"


def ask_file(
    run: Run,
    file: Path,
    options: ReadOptions,
    k: int,
    *,
    include_known: bool = False,
    typed: bool = True,
    tick: Callable[[int, int], None] | None = None,
) -> list[Prediction]:
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
    found: list[Prediction] = []
    for done, question in enumerate(questions, 1):
        head, relation, tail = (None if part == OPEN else part for part in question)
        found += run.predict(head, relation, tail, k, include_known=include_known, typed=typed)
        if tick is not None:
            tick(done, len(questions))
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
