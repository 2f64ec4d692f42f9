"""The verb that puts nodes or graphs into classes, and what other verbs say of such a run."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuckerkg.cli.options import (
    ColumnsOption,
    DataOption,
    DelimiterOption,
    HeaderOption,
    IntegersOption,
    JsonOption,
    OnErrorOption,
    PluginOption,
    RejectsOption,
    SetOption,
    SettingsOption,
    checkpoint_of,
    log,
    read_options,
    training_progress,
)
from tuckerkg.errors import TuckerkgError, printable, printable_json
from tuckerkg.types import JsonObject

if TYPE_CHECKING:
    from tuckerkg.tasks.run import ClassEvaluation, ClassPredictions, ClassRun

SHOWN = 20  # classes of a confusion table


def classify(
    graph: Annotated[
        str | None,
        typer.Argument(help="A graph as `train` takes it, or a set of graphs: a TU folder, or see --graph-column."),
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="A TSV, CSV or Parquet file of labels, with a header.")] = None,
    target: Annotated[str, typer.Option(help="The column with the classes.")] = "",
    test_labels: Annotated[
        Path | None, typer.Option(help="A second file of labels, all of them held out.", show_default="a fifth of all")
    ] = None,
    item_column: Annotated[
        str | None, typer.Option(help="The column that names nodes or graphs.", show_default="the one that does")
    ] = None,
    split_column: Annotated[str | None, typer.Option(help="A column that says train or test.")] = None,
    fold_column: Annotated[
        str | None, typer.Option(help="A column that names parts: cross-validate, each of them held out in turn.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder to write.", show_default="runs/GRAPH-TARGET")] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue this run folder instead of starting one.")] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="rgcn, tgcn, compgcn, sacn, or one of a plugin.", show_default="what is best on labels"),
    ] = None,
    settings_file: SettingsOption = None,
    changes: SetOption = None,
    literals: Annotated[
        str, typer.Option(help="RDF literals: nodes of the graph, features of nodes, or none.")
    ] = "nodes",
    features: Annotated[Path | None, typer.Option(help="A table of numbers per node, with a column of names.")] = None,
    keep_own_edges: Annotated[
        bool, typer.Option("--keep-own-edges", help="Keep relations of the graph that say the label.")
    ] = False,
    graph_column: Annotated[
        str | None, typer.Option(help="GRAPH is one file of many graphs, and this column names the graph.")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(help="Cross-validate instead: hold out each of so many parts in turn.", min=2)
    ] = None,
    number_of_seeds: Annotated[
        int, typer.Option("--seeds", help="Train so many times, with the seeds 0, 1, 2, ...", min=1)
    ] = 1,
    as_json: JsonOption = False,
    plugins: PluginOption = None,
    data: DataOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    integers: IntegersOption = False,
    on_error: OnErrorOption = "stop",
    rejects: RejectsOption = Path("rejected.tsv"),
) -> None:
    """Put nodes of a graph, or whole graphs, into classes that some of them are known to have.

    Encoder, depth and start vectors are chosen on labels that each trial does not see; held-out labels are only looked
    at in the end. Relations of the graph that say the label are found, said and left out.

    Examples: `tuckerkg classify aifb.nt --labels train.tsv --test-labels test.tsv --target affiliation`,
    `tuckerkg classify graph.tsv --labels people.csv --target group --folds 10`, `tuckerkg classify MUTAG/ --folds 10`.
    """
    from tuckerkg.config.toml import dotted, parse_override, read_values
    from tuckerkg.storage.run_folder import RunFolder, check_place
    from tuckerkg.tasks.classify import LabelOptions, cross_validate, read_task_files, settings_for, train_task
    from tuckerkg.tasks.run import ClassRun
    from tuckerkg.tasks.task import notes_of, summary
    from tuckerkg.tasks.training import fit_labels

    if resume is not None:
        if any(each is not None for each in (graph, labels, encoder, settings_file)) or changes:
            raise TuckerkgError("--resume takes everything from the run folder: leave out the graph and its options")
        folder = RunFolder.open(resume)
        fit_labels(folder, training_progress())
        show_evaluation(ClassRun(folder), as_json)
        return
    if graph is None:
        raise TuckerkgError("give a graph, or --resume RUN")
    asked = LabelOptions(
        target=target, labels=labels, test_labels=test_labels, column=item_column, split=split_column,
        fold=fold_column, literals=literals, features=features, keep_own_edges=keep_own_edges,
        graph_column=graph_column,
    )  # fmt: skip
    place = out or Path("runs") / f"{Path(graph).name.partition('.')[0]}-{target or 'classes'}"
    if folds is None and fold_column is None:
        check_place(place if number_of_seeds == 1 else _seeded(place, 0))  # before time is spent on reading
    reading = read_options(columns, delimiter, header, on_error, rejects, literals != "none", integers)
    read = read_task_files(graph, asked, reading, data)
    say = log if as_json else print
    say(summary(read.task))
    for text in notes_of(read.task):
        say(f"  {printable(text)}")
    overrides = {} if settings_file is None else dotted(read_values(settings_file))
    overrides |= dict(parse_override(change) for change in changes or ())
    if folds is not None or fold_column is not None:
        runs = cross_validate(read, encoder, folds=folds or 0, overrides=overrides, log=say)
        _show_several([run.evaluate() for run in runs], f"{len(runs)} folds", as_json)
        return
    settings = settings_for(read, encoder, 0, overrides, say)
    found: list[ClassRun] = []
    for seed in range(number_of_seeds):
        own = settings.model_copy(update={"train": settings.train.model_copy(update={"seed": seed})})
        where = place if number_of_seeds == 1 else _seeded(place, seed)
        found.append(train_task(read, own, where, training_progress()))
    if number_of_seeds == 1:
        show_evaluation(found[0], as_json)
    else:
        _show_several([run.evaluate() for run in found], f"{number_of_seeds} seeds", as_json)


def show_evaluation(run: ClassRun, as_json: bool) -> None:
    """Print how labels that members did not see were judged, and those that were held out."""
    found = run.judged()
    if as_json:
        judged = {part: each.as_dict() for part, each in found.items()}
        print(printable_json({"run": str(run.path), **judged, "alone": run.alone()}))
        return
    alone = run.alone()
    for part, each in found.items():
        print(f"\n{'held-out labels' if part == 'test' else 'labels that members did not see'}: {told(each)}")
        if alone:
            said = ", ".join(f"{voters} {shares[part]:.1%}" for voters, shares in alone.items())
            print(f"  alone: {said}; the counts' share is {run.fitted.counted:.0%}")
    if "test" in found:
        print(confusion_table(found["test"]))
    print(f"saved in {run.path}")


def told(found: ClassEvaluation) -> str:
    """One line for people."""
    figures = found.judgement
    text = (
        f"{figures.accuracy:.1%} of {figures.count:,} right, macro F1 {figures.macro_f1:.3f}, "
        f"calibration error {figures.calibration_error:.3f}"
    )
    if found.answered < 1.0:
        text += f"; {found.answered:.0%} answered, of which {found.accuracy_answered:.1%} right, the rest unsure"
    return text


def confusion_table(found: ClassEvaluation) -> str:
    """How many items of a class (row) were put into which (column)."""
    judgement = found.judgement
    if len(judgement.classes) > SHOWN:
        return f"({len(judgement.classes)} classes: their table is in --json)"
    names = [printable(name)[-24:] for name in judgement.classes]
    width = max(map(len, names))
    lines = [f"{'true':>{width}}   told: " + "  ".join(f"[{place}]" for place in range(len(names)))]
    for place, (name, row) in enumerate(zip(names, judgement.confusion, strict=True)):
        cells = "  ".join(f"{count:>{len(str(number)) + 2}}" for number, count in enumerate(row))
        lines.append(f"{name:>{width}} [{place}]   {cells}")
    return "\n".join(lines)


def show_predictions(run: ClassRun, items: Sequence[str] | None, out: Path | None, as_json: bool, limit: int) -> None:
    """Print or write the classes of items."""
    found: ClassPredictions = run.predict(items)
    if out is not None:
        write_classes(found, out)
        log(f"{len(found):,} rows in {out}")
        return
    if as_json:
        print(printable_json([each.as_dict() for each in found]))
        return
    for each in found[:limit]:
        known = "" if each.known is None else f"   (label: {printable(each.known)})"
        print(f"{printable(each.item):60} {printable(each.told):30} {each.probability:5.1%}{known}")
    if len(found) > limit:
        log(f"{len(found) - limit:,} more: give --k or --out")


def write_classes(found: ClassPredictions, out: Path) -> None:
    """Write classes as .tsv, .csv, .json or .parquet.

    Raises:
        TuckerkgError: the ending is none of these, or the place cannot be written.
    """
    from io import BytesIO

    from tuckerkg.storage.sealed_folder import write_atomic

    frame, kind, text = found.to_frame(), out.suffix.lower(), BytesIO()
    if kind == ".parquet":
        frame.write_parquet(text)
    elif kind == ".json":
        text.write(printable_json([each.as_dict() for each in found]).encode())
    elif kind in (".tsv", ".csv"):
        frame.write_csv(text, separator="\t" if kind == ".tsv" else ",")
    else:
        raise TuckerkgError(f"--out {out}: the name must end in .tsv, .csv, .json or .parquet")
    try:
        write_atomic(out, text.getvalue())
    except OSError as error:
        raise TuckerkgError(f"--out {out}: cannot be written: {error.strerror}") from error


def _show_several(found: Sequence[ClassEvaluation], what: str, as_json: bool) -> None:
    accuracies = [each.judgement.accuracy for each in found]
    right = sum(each.judgement.accuracy * each.judgement.count for each in found)
    count = sum(each.judgement.count for each in found)
    result: JsonObject = {
        "over": what,
        "accuracy": right / count,
        "deviation": statistics.stdev(accuracies),
        "macro_f1": statistics.mean(each.judgement.macro_f1 for each in found),
        "each": [each.as_dict() for each in found],
    }
    if as_json:
        print(printable_json(result))
        return
    lowest, highest = min(accuracies), max(accuracies)
    print(
        f"\nheld-out labels, {what}: {result['accuracy']:.1%} right, ± {result['deviation']:.1%} between them "
        f"({lowest:.1%} to {highest:.1%}), macro F1 {result['macro_f1']:.3f}"
    )


def show_class_explanation(run: ClassRun, item: str, count: int, as_json: bool) -> None:
    """Print the facts that carried an item's class."""
    found = run.explain(item, count)
    if as_json:
        print(printable_json(found.as_dict()))
        return
    print(f"{printable(found.item)}: {printable(found.told)}, {found.probability:.1%}")
    for text, after in found.facts:
        print(f"  {printable(text)}   without it {after:.1%}")
    if not found.facts:
        print("  no fact makes it more probable")


def show_class_comparison(runs: Sequence[Path], as_json: bool) -> None:
    """Print runs of classes side by side, those that differ by their seed as one."""
    from tuckerkg.tasks.comparing import compare_class_runs

    found = compare_class_runs([load_class_run(path) for path in runs])
    if as_json:
        print(printable_json([group.as_dict() for group in found]))
        return
    print(f"{'':32} {'runs':>4} {'accuracy':>16} {'macro F1':>9} {'likelihood':>10}   against the first")
    for group in found:
        spread = "" if group.deviation is None else f" ± {group.deviation:.1%}"
        against = "" if group.p is None else f"{group.difference:+.1%}, p = {group.p:.2g}"
        accuracy = f"{group.accuracy:.1%}{spread}"
        print(
            f"{printable(group.name)[:32]:32} {len(group.runs):>4} {accuracy:>16} {group.macro_f1:>9.3f} "
            f"{group.likelihood:>10.3f}   {against}"
        )


def load_class_run(path: Path, checkpoint: str = "best") -> ClassRun:
    """Open a run of classes."""
    from tuckerkg.tasks.run import load_class_run as load

    return load(path, checkpoint_of(checkpoint))


def _seeded(place: Path, seed: int) -> Path:
    return place.with_name(f"{place.name}-seed{seed}")


def is_class_run(path: Path) -> bool:
    """Whether a run folder holds classes; False where it is no run folder, which others say better."""
    import json

    try:
        settings: Any = json.loads((path / "settings.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(settings, dict) and settings.get("kind") in ("nodes", "graphs")
