"""Scores for the triples of a file; a name that the run does not know is reported with its line."""

from __future__ import annotations

from pathlib import Path

from tuckerkg.errors import InputError, Problem, UnknownNameError
from tuckerkg.names import Names
from tuckerkg.predict import Prediction
from tuckerkg.read_options import ReadOptions
from tuckerkg.reading import read_rows
from tuckerkg.run import Run


def score_file(run: Run, file: Path, options: ReadOptions) -> list[Prediction]:
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


def _problem(file: str, line: int, column: int, names: Names, name: str, *, explain: bool) -> Problem | None:
    """``explain`` False saves the search for near names once enough problems are explained."""
    if name in names:
        return None
    try:
        names.id_of(name)
    except UnknownNameError as error:
        return Problem(file, line, column, str(error) if explain else f"unknown {names.kind}")
    return None
