"""Classes of nodes or graphs in one call: read, choose, train, open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tuckerkg.config.settings import Settings, parse_settings
from tuckerkg.config.toml import put_all
from tuckerkg.data.dataset import Dataset
from tuckerkg.data.labels import Vocabulary
from tuckerkg.data.load import read_dataset
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.errors import TuckerkgError, printable
from tuckerkg.storage.run_folder import RunFolder, check_place
from tuckerkg.tasks.choosing import AUTOMATIC, base_settings, choose
from tuckerkg.tasks.reading.graph_sets import GraphSet, is_tu_folder, read_graph_column, read_tu
from tuckerkg.tasks.reading.labels import LabelRow, classes_of, read_labels, read_table
from tuckerkg.tasks.reading.literals import literal_features
from tuckerkg.tasks.reading.own_edges import own_edges
from tuckerkg.tasks.reading.tensors import is_tensors, task_of_tensors
from tuckerkg.tasks.run import ClassRun
from tuckerkg.tasks.task import TEST, TRAIN, Task, TaskKind, read_task, stratified_folds
from tuckerkg.tasks.training import fit_labels
from tuckerkg.training.callbacks import Callback
from tuckerkg.types import LogFunction, ignore

HELD_OUT = 0.2  # of the labels, where no file and no column says which


@dataclass(frozen=True)
class ReadTask:
    """A task with the names of what it is about."""

    name: str
    task: Task
    nodes: tuple[str, ...]
    relations: tuple[str, ...]
    titles: Mapping[str, str]
    relation_titles: Mapping[str, str]
    fold: torch.Tensor | None = None
    """The part of a cross-validation that each label is in, where a column says it, ``[m]``."""


@dataclass(frozen=True)
class LabelOptions:
    """Where the labels are, and what is done to the graph.

    Attributes:
        target: the column with the classes.
        labels, test_labels: files of labels; all of the second one are held out.
        column: the column that names the items; None: the one most of whose values do.
        split: a column that says train or test; without it and ``test_labels`` a fifth is held out.
        fold: a column that names the part of a cross-validation.
        literals: "nodes" keeps RDF literals as nodes of the graph, "features" makes numbers of them, "none" leaves
            them out.
        features: a table of numbers per node, with a column of their names.
        keep_own_edges: keep relations that say the label.
        graph_column: the graph is a set of graphs, and this column of its file names them.
        seed: of the labels that are held out.
    """

    target: str = ""
    labels: Path | None = None
    test_labels: Path | None = None
    column: str | None = None
    split: str | None = None
    fold: str | None = None
    literals: str = "nodes"
    features: Path | None = None
    keep_own_edges: bool = False
    graph_column: str | None = None
    seed: int = 0


def read_task_files(
    graph: Any, options: LabelOptions, reading: ReadOptions | None = None, data: str | Path | None = None
) -> ReadTask:
    """Read a graph, or a set of graphs, and its labels.

    Raises:
        InputError: a file is bad; names file and line.
        TuckerkgError: there is nothing to tell apart, or options exclude each other.
    """
    if is_tensors(graph):
        return _tensor_task(graph, options)
    if isinstance(graph, str | Path) and (options.graph_column or is_tu_folder(Path(graph))):
        return _graph_task(Path(graph), options, reading)
    if options.labels is None:
        raise TuckerkgError("labels are needed: --labels FILE --target COLUMN")
    if options.literals not in ("nodes", "features", "none"):
        raise TuckerkgError(f"--literals is '{options.literals}', expected nodes, features or none")
    reading = replace(reading or ReadOptions(), keep_literals=options.literals != "none")
    read = read_dataset(graph, data, split=None, options=reading)
    return _node_task(read, options)


def classify(  # noqa: PLR0913  (by keyword)
    graph: Any,
    labels: str | Path | None = None,
    target: str = "",
    *,
    test_labels: str | Path | None = None,
    out: str | Path | None = None,
    encoder: str | None = None,
    seed: int = 0,
    overrides: Mapping[str, Any] | None = None,
    callback: Callback | None = None,
    log: LogFunction = ignore,
    data: str | Path | None = None,
    **options: Any,
) -> ClassRun:
    """Put nodes of a graph, or the graphs of a set, into classes.

    Args:
        graph: what ``tuckerkg.train`` takes; a folder in the TU format; with ``graph_column``, a file of graphs; or
            a ``Data`` of PyTorch Geometric with ``y``, or a list of them, one for each graph.
        labels: a TSV, CSV or Parquet file of labels. A folder in the TU format has its own.
        target: its column with the classes.
        test_labels: a file of labels that are held out.
        out: the run folder to write; None: a temporary one.
        encoder: whose messages; None: what judges unseen labels best.
        seed: of everything random in training.
        overrides: dotted settings on top; with any, nothing is chosen.
        options: those of ``LabelOptions``.
    """
    asked = LabelOptions(
        target=target,
        labels=None if labels is None else Path(labels),
        test_labels=None if test_labels is None else Path(test_labels),
        **options,
    )
    if out is not None:
        check_place(Path(out))
    read = read_task_files(graph, asked, data=data)
    settings = settings_for(read, encoder, seed, overrides, log)
    return train_task(read, settings, out, callback)


def settings_for(
    read: ReadTask, encoder: str | None, seed: int, overrides: Mapping[str, Any] | None, log: LogFunction = ignore
) -> Settings:
    """What to train with: the defaults with ``overrides``, or, without any, what is chosen on unseen labels."""
    kind: TaskKind = read.task.kind
    values = base_settings(kind, read.name, seed, None if encoder is None else {"name": encoder})
    if overrides:
        return parse_settings(put_all(values, overrides))
    found, _ = choose(read.task, values, AUTOMATIC if encoder is None else (encoder,), log)
    return found


def train_task(
    read: ReadTask, settings: Settings, out: str | Path | None = None, callback: Callback | None = None
) -> ClassRun:
    """Write a run folder for a task, train it to its end and open it; ``out`` None: a temporary one."""
    import tempfile  # noqa: PLC0415

    if out is not None:
        folder = prepare_task(read, settings, Path(out))
        fit_labels(folder, callback)
        return ClassRun(folder)
    with tempfile.TemporaryDirectory(prefix="tuckerkg-") as place:
        folder = prepare_task(read, settings, Path(place) / "run")
        fit_labels(folder, callback)
        run = ClassRun(folder)
        run.scores  # noqa: B018  (what is asked later needs no files)
        return run


def prepare_task(read: ReadTask, settings: Settings, out: Path) -> RunFolder:
    """Write a new run folder for a task; training then needs nothing else."""
    empty = np.empty((0, 3), np.int64)
    return RunFolder.create(
        out,
        settings.as_dict(),
        entities=read.nodes,
        relations=read.relations,
        splits={"train": read.task.triples, "valid": empty, "test": empty},
        entity_titles=read.titles,
        relation_titles=read.relation_titles,
        extra=read.task.files(),
    )


def copy_task(run: RunFolder, settings: Settings, out: Path) -> RunFolder:
    """A new run folder for the task of another one."""
    task = read_task(run)
    names = tuple(run.entities()), tuple(run.relations()), run.entity_titles(), run.relation_titles()
    return prepare_task(ReadTask(settings.dataset, task, *names), settings, out)


def cross_validate(
    read: ReadTask,
    encoder: str | None,
    *,
    folds: int = 10,
    seed: int = 0,
    overrides: Mapping[str, Any] | None = None,
    log: LogFunction = ignore,
) -> list[ClassRun]:
    """Hold out another part of all labels each time; settings are chosen anew, on the rest alone.

    Where a column of the labels says the parts, these are held out, however many ``folds`` are asked for.
    """
    task = read.task
    part_of = stratified_folds(task.label, folds, seed + 1) if read.fold is None else read.fold
    folds = int(part_of.max()) + 1
    runs = []
    for number in range(folds):
        part = replace(read, task=task.with_parts(torch.nonzero(part_of == number)[:, 0]))
        settings = settings_for(part, encoder, seed, overrides)
        run = train_task(part, settings)
        judgement = run.evaluate().judgement
        log(f"fold {number + 1} of {folds}: {judgement.accuracy:.1%} of {judgement.count} right")
        runs.append(run)
    return runs


def _node_task(read: Dataset, options: LabelOptions) -> ReadTask:
    rows = _label_rows(options, read.entities)
    triples = np.concatenate([read.split(name) for name in SPLITS])
    said: list[str] = []
    features = _given_features(options, read.entities)
    names: list[str] = []
    if options.literals == "features":
        literal = literal_features(triples, read.entities.labels, read.relations.labels)
        triples, names = literal.kept, list(literal.names)
        features = literal.values if features is None else torch.cat([features, literal.values], 1)
        said.append(f"literals became {len(names)} numbers of each node")
    classes, labelled, label, part, fold = _labels(rows, read.entities, options)
    task = Task(
        kind="nodes", target=options.target, classes=classes, triples=triples, num_nodes=len(read.entities),
        num_relations=len(read.relations), labelled=labelled, label=label, part=part, features=features,
        notes={"said": said, "features": names},
    )  # fmt: skip
    task = _without_own_edges(task, read.relations.labels, options, said)
    return ReadTask(
        read.name, task, read.entities.labels, read.relations.labels, read.entity_titles, read.relation_titles, fold
    )


def _tensor_task(graph: Any, options: LabelOptions) -> ReadTask:
    """A task whose graph and labels are tensors."""
    task, given_parts = task_of_tensors(graph, options.target or "y")
    if not given_parts:
        task = task.with_parts(
            torch.nonzero(stratified_folds(task.label, round(1 / HELD_OUT), options.seed) == 0)[:, 0]
        )
    said: list[str] = []
    relations = tuple(f"edge {number}" for number in range(task.num_relations))
    task = _without_own_edges(replace(task, notes={"said": said, "features": []}), relations, options, said)
    nodes = tuple(f"{number:0{len(str(task.num_nodes))}}" for number in range(task.num_nodes))
    return ReadTask("tensors", task, nodes, relations, {}, {})


def _without_own_edges(task: Task, relations: Sequence[str], options: LabelOptions, said: list[str]) -> Task:
    """Leave out relations that say the label, or say that they are kept."""
    found = own_edges(task)
    for each in found:
        way = "from" if each.from_item else "to"
        done = "is KEPT: results will be too good" if options.keep_own_edges else "is left out of the graph"
        said.append(
            f"relation {relations[each.relation]} {way} {each.covered:.0%} of the labelled nodes says their class "
            f"({each.agree:.0%}) and {done}"
        )
    if options.keep_own_edges or not found:
        return task
    gone = np.isin(task.triples[:, 1], [each.relation for each in found])
    return replace(task, triples=task.triples[~gone])


def _graph_task(path: Path, options: LabelOptions, reading: ReadOptions | None) -> ReadTask:
    if options.graph_column:
        found = read_graph_column(path, options.graph_column, None if reading is None else reading.delimiter)
    else:
        found = read_tu(path)
    rows = _rows_of_set(found, options)
    classes, labelled, label, part, fold = _labels(rows, found.graphs, options)
    task = Task(
        kind="graphs", target=options.target or "class", classes=classes, triples=found.triples,
        num_nodes=len(found.nodes), num_relations=len(found.relations), labelled=labelled, label=label, part=part,
        graph_of=torch.from_numpy(found.graph_of), graphs=found.graphs.labels,
        node_types=torch.from_numpy(found.node_types),
        features=None if found.features is None else torch.from_numpy(found.features),
        inverses=not found.edges_stand_twice,
    )  # fmt: skip
    return ReadTask(found.name, task, found.nodes, found.relations, {}, {}, fold)


def _rows_of_set(found: GraphSet, options: LabelOptions) -> list[LabelRow]:
    if options.labels is not None:
        return _label_rows(options, found.graphs)
    if found.labels is None:
        raise TuckerkgError("labels are needed: --labels FILE --target COLUMN")
    return [
        LabelRow(name, label, False, line)
        for line, (name, label) in enumerate(zip(found.graphs.labels, found.labels, strict=True), start=1)
    ]


def _label_rows(options: LabelOptions, names: Vocabulary) -> list[LabelRow]:
    if options.labels is None or not options.target:
        raise TuckerkgError("labels are needed: --labels FILE --target COLUMN")
    rows = read_labels(
        options.labels, options.target, names, column=options.column, split=options.split, fold=options.fold
    )
    if options.test_labels is None:
        return rows
    further = read_labels(options.test_labels, options.target, names, column=options.column, held_out=True)
    both = {row.item for row in rows} & {row.item for row in further}
    if both:
        raise TuckerkgError(
            f"{len(both)} items are in both files of labels, for example {min(both)}: what is held out must not be "
            "trained on; remove them from one of the two"
        )
    return [*rows, *further]


def _labels(
    rows: Sequence[LabelRow], names: Vocabulary, options: LabelOptions
) -> tuple[tuple[str, ...], torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Classes, and of every label its item, class and part, and its fold where a column says it."""
    rows = sorted(rows, key=lambda row: row.item)  # so that the order of the file does not matter
    classes = classes_of(rows)
    number = {name: place for place, name in enumerate(classes)}
    label = torch.tensor([number[row.label] for row in rows])
    part = torch.tensor([TEST if row.held_out else TRAIN for row in rows])
    if options.test_labels is None and options.split is None:
        part = (stratified_folds(label, round(1 / HELD_OUT), options.seed) == 0).long() * TEST
    fold = None
    if options.fold is not None:
        if options.test_labels is not None or options.split is not None:
            raise TuckerkgError("a column of folds says what is held out: leave out --test-labels and --split-column")
        named = sorted({row.fold for row in rows})
        if len(named) == 1:
            raise TuckerkgError(f"the column {printable(options.fold)} has one value: folds are two and more")
        fold = torch.tensor([named.index(row.fold) for row in rows])
    return classes, torch.tensor([names.id_of(row.item) for row in rows]), label, part, fold


def _given_features(options: LabelOptions, names: Vocabulary) -> torch.Tensor | None:
    """Standardized numbers from a table, 0 where a node has none."""
    if options.features is None:
        return None
    table = read_table(options.features)
    shares = {column: sum(value in names for value in table[column].to_list()) for column in table.columns}
    own = max(shares, key=lambda column: shares[column])
    if not shares[own]:
        raise TuckerkgError(f"{options.features}: no column names nodes of the graph")
    columns = [column for column in table.columns if column != own]
    try:
        values = np.array([[float(value) for value in table[column].to_list()] for column in columns]).T
    except (TypeError, ValueError):
        values = np.array([[np.nan]])
    if not np.isfinite(values).all():
        raise TuckerkgError(f"{options.features}: every column but '{own}' must hold numbers")
    deviation = values.std(0)
    varies = deviation > 1e-9 * np.abs(values).max(0)  # a column of equal numbers deviates by rounding
    values = np.where(varies, (values - values.mean(0)) / np.where(varies, deviation, 1.0), 0.0)
    found = np.zeros((len(names), len(columns)), np.float32)
    rows = [(names.id_of(item), place) for place, item in enumerate(table[own].to_list()) if item in names]
    ids, places = zip(*rows, strict=True)
    found[list(ids)] = values[list(places)]
    return torch.from_numpy(found)
