"""New facts for a trained run, without training again: read, checked, given rows, written as a version of the run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tuckerkg.config.build import build_embedding_model, build_loss
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.readers.read import Rows, TripleTable, read_rows
from tuckerkg.data.readers.rejects import write_rejects
from tuckerkg.data.triple_sets import rows_among
from tuckerkg.errors import InputError, Problem, TuckerkgError, UnknownNameError
from tuckerkg.inference.adding.fold_in import STEPS, fold_in, start_rows
from tuckerkg.nn.model import Model
from tuckerkg.storage.versions import Version, version_numbers, write_version
from tuckerkg.types import JsonObject, ProgressFunction

if TYPE_CHECKING:
    from tuckerkg.inference.run import Run


@dataclass(frozen=True)
class Added:
    """What became of a file's rows: facts, known, repeated, rejected and literals add up to ``read``.

    ``held_out`` of the facts are in the run's validation or test split, whose metrics are too good from now on.
    """

    version: int
    read: int
    facts: int
    known: int
    repeated: int
    rejected: int
    literals: int
    entities: int
    held_out: int

    def as_dict(self) -> dict[str, int]:
        """For JSON."""
        return asdict(self)


def add_facts(
    run: Run,
    source: str | os.PathLike[str] | TripleTable,
    options: ReadOptions | None = None,
    *,
    steps: int = STEPS,
    progress: ProgressFunction | None = None,
) -> Added:
    """Add the facts of ``source`` to the newest version of ``run`` and write the next one.

    Entities that the run does not know are new; each must be linked to known ones, directly or by way of other new
    ones. Raises InputError with the line of an unknown relation, of an ambiguous name, or of an entity that is not.
    """
    options = options or ReadOptions()
    if run.version != version_numbers(run.path)[-1]:
        raise TuckerkgError(f"{run.path}: version {run.version} is not the newest; facts are added to the newest only")
    rows = read_rows(source, options)
    triples, labels = _identified(run, rows)
    _check_linked(run, rows, triples, labels)
    if options.on_error == "skip" and options.rejects is not None:
        write_rejects(options.rejects, list(rows.rejects))
    distinct = np.unique(triples, axis=0)
    known = rows_among(distinct, run.split("train"))
    fresh = distinct[~known]
    if len(fresh) == 0:
        raise TuckerkgError(
            f"{rows.shown}: all {len(distinct):,} facts are in the run already, there is nothing to add"
        )
    held_out = rows_among(fresh, np.concatenate([run.split("valid"), run.split("test")]))
    counts = Added(
        version=version_numbers(run.path)[-1] + 1,
        read=rows.read,
        facts=len(fresh),
        known=int(known.sum()),
        repeated=len(triples) - len(distinct),
        rejected=len(rows.rejects),
        literals=rows.literals,
        entities=len(labels),
        held_out=int(held_out.sum()),
    )
    titles = {label: title for label, title in rows.titles.items() if label in labels}
    for each in _with_members(run):
        write_version(each.path, _version(each, fresh, labels, titles, counts, steps, progress))
    return counts


def _with_members(run: Run) -> Iterator[Run]:
    """A blend's members, then the run itself, whose version counts only where they have theirs."""
    for member in run.members:
        yield from _with_members(member)
    yield run


def _version(
    run: Run,
    fresh: np.ndarray,
    labels: Mapping[str, int],
    titles: Mapping[str, str],
    counts: Added,
    steps: int,
    progress: ProgressFunction | None,
) -> Version:
    """Give new entities rows in the tables, where the model has any; those that were added before keep theirs."""
    before = run.added
    rows = {} if run.members else _rows(run, fresh, labels, steps, progress)
    return Version(
        number=counts.version,
        step=run.step,
        labels=(*(before.labels if before else ()), *labels),
        triples=fresh if before is None else np.concatenate([before.triples, fresh]),
        rows=rows,
        titles={**(before.titles if before else {}), **titles},
        report=counts.as_dict(),
    )


def _rows(
    run: Run, fresh: np.ndarray, labels: Mapping[str, int], steps: int, progress: ProgressFunction | None
) -> dict[str, Tensor]:
    """The rows of all entities that came after training, in each of the model's entity tables, if it has any."""
    if not isinstance(run.model, Model):
        return {}
    everything = np.concatenate([run.split("train"), fresh])
    model = with_new_entities(run, run.model, everything, len(labels))
    if labels and steps:
        fold_in(model, build_loss(run.settings), everything, len(run.entities), steps=steps, progress=progress)
    rows = {"entities": model.entities.detach()[run.num_trained :]}
    if model.bias is not None:
        rows["bias"] = model.bias.detach()[run.num_trained :]
    return rows


def with_new_entities(run: Run, trained: Model, triples: np.ndarray, count: int) -> Model:
    """The run's ``trained`` model with ``count`` more entities, at the mean of entities with the same relations."""
    now = len(run.entities)
    model = build_embedding_model(run.settings, now + count, len(run.relations)).to(trained.entities.device)
    state: JsonObject = dict(trained.state_dict())
    if count:
        rows = start_rows(state["entities"].cpu(), triples, now, len(run.relations)).to(state["entities"])
        state["entities"] = torch.cat([state["entities"], rows])
        if "bias" in state:
            state["bias"] = torch.cat([state["bias"], state["bias"].mean().expand(count)])
    model.load_state_dict(state)
    return model.eval()


def _identified(run: Run, rows: Rows) -> tuple[np.ndarray, dict[str, int]]:
    """The rows as ids, and the new labels with the ids they get, in the order of the file."""
    problems: list[Problem] = []
    labels: dict[str, int] = {}
    triples = np.empty((len(rows.line_numbers), 3), dtype=np.int64)
    columns = (rows.heads.to_list(), rows.relations.to_list(), rows.tails.to_list())
    for row, names in enumerate(zip(*columns, strict=True)):
        for column, name in enumerate(names):
            kind = run.relations if column == 1 else run.entities
            try:
                number = kind.exact_id(name)
                if number is None and column == 1:
                    number = run.relations.id_of(name)  # refuses with the nearest names
                if number is None:
                    number = labels.setdefault(name, len(run.entities) + len(labels))
                triples[row, column] = number
            except UnknownNameError as error:
                problems.append(Problem(rows.shown, int(rows.line_numbers[row]), column + 1, str(error)))
    if problems:
        raise InputError(problems, "Nothing was added. A relation that the run was not trained with needs training.")
    return triples, labels


def _check_linked(run: Run, rows: Rows, triples: np.ndarray, labels: Mapping[str, int]) -> None:
    """Refuse new entities that no chain of facts joins to a known one, with the first line that names each."""
    joined = np.zeros(len(run.entities) + len(labels), dtype=bool)
    joined[: len(run.entities)] = True
    while True:
        reached = joined[triples[:, 0]] != joined[triples[:, 2]]
        if not reached.any():
            break
        joined[triples[reached][:, [0, 2]]] = True
    problems = []
    for label, number in labels.items():
        if not joined[number]:
            row = int(np.flatnonzero((triples[:, 0] == number) | (triples[:, 2] == number))[0])
            what = f"the new entity {label!r} is linked to no entity that the run knows"
            problems.append(Problem(rows.shown, int(rows.line_numbers[row]), None, what))
    if problems:
        raise InputError(problems, "Nothing was added. Add a fact that joins each of them to a known entity.")
