"""Verbs about a trained run: evaluate, add, compare, report, export. Those that ask it are in ``ask.py``."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuckerkg.cli.classify import is_class_run, load_class_run, show_class_comparison, show_evaluation
from tuckerkg.cli.options import (
    AskingRanksOption,
    CheckpointOption,
    ColumnsOption,
    DelimiterOption,
    GraphOption,
    HeaderOption,
    IntegersOption,
    JsonOption,
    LiteralsOption,
    OnErrorOption,
    PluginOption,
    RejectsOption,
    RunArgument,
    TimeoutOption,
    graph_options,
    load_run,
    log,
    read_options,
)
from tuckerkg.cli.ranks import asking, is_shown, open_on_ranks
from tuckerkg.errors import RunFolderError, TuckerkgError, printable_json
from tuckerkg.types import JsonObject

if TYPE_CHECKING:
    from tuckerkg.evaluation.metrics import Evaluation
    from tuckerkg.inference.run import Run
    from tuckerkg.storage.run_before import RunBefore


def evaluate(
    run: RunArgument,
    split: Annotated[
        str | None,
        typer.Option(
            help="test (the default), valid or train. With --graph also valid+test; test and valid+test by default.",
            show_default=False,
        ),
    ] = None,
    graph: GraphOption = None,
    as_json: JsonOption = False,
    relations: Annotated[bool, typer.Option("--relations", help="Also show every relation.")] = False,
    calibration: Annotated[
        bool, typer.Option("--calibration", help="Also show how far probabilities and answer sets can be trusted.")
    ] = False,
    coverage: Annotated[
        float, typer.Option(help="With --calibration: how often an answer set should hold the answer.")
    ] = 0.9,
    checkpoint: CheckpointOption = "best",
    ranks: AskingRanksOption = None,
    timeout: TimeoutOption = 300.0,
    plugins: PluginOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    integers: IntegersOption = False,
    keep_literals: LiteralsOption = False,
    on_error: OnErrorOption = "stop",
    rejects: RejectsOption = Path("rejected.tsv"),
) -> None:
    """Rank a split: filtered, both directions, over all entities; ties at random, other tie rules for comparison.

    A refit was trained on all facts: what was measured on the run before is shown. Example:
    `tuckerkg evaluate runs/fb237_v1 --graph fb237_v1_ind`.
    """
    if is_class_run(run):
        show_evaluation(load_class_run(run, checkpoint), as_json)
        return
    options = graph_options(graph, columns, delimiter, header, on_error, rejects, keep_literals, integers)
    with asking(ranks, timeout, graph=graph, calibration=calibration) as group:
        if group is None:
            loaded = load_run(run, checkpoint=checkpoint, graph=graph, options=options)
        else:
            loaded = open_on_ranks(group, run, checkpoint)
        shown = is_shown(group)
        if loaded.refit_of is not None and loaded.graph is None and split != "train":
            if shown:
                _show_run_before(run, loaded.refit_of, as_json, relations)
            return
        found = _evaluated(loaded, split, keep=shown and checkpoint == "best", bar=shown)
        if shown:
            _show_evaluation(loaded, found, as_json, relations, coverage if calibration else None)


def _show_run_before(run: Path, before: RunBefore, as_json: bool, relations: bool) -> None:
    from tuckerkg.reports import tables

    if as_json:
        print(printable_json({"refit_of": before.as_dict()}))
    else:
        tables.show_run_before(str(run), before, relations)


def _show_evaluation(
    loaded: Run, found: list[Evaluation], as_json: bool, relations: bool, coverage: float | None
) -> None:
    """Show what was found, and, for answer sets of a ``coverage``, how far probabilities can be trusted."""
    from tuckerkg.console import progress_bar
    from tuckerkg.reports import tables

    evaluation, *others = found
    guessing = loaded.guessing_mrr(evaluation.split)
    trust = None
    if coverage is not None:
        asked = evaluation.split
        plain = loaded.uncalibrated().reliability(asked)
        with progress_bar("searching missing facts") as progress:
            everywhere = loaded.trust(progress)
        trust = loaded.reliability(asked), plain, loaded.answer_set_coverage(asked, coverage), everywhere
    if as_json:
        more: JsonObject = {"guessing_mrr": guessing, **{other.split: other.as_dict() for other in others}}
        if trust is not None:
            fitted, raw, sets, everywhere = trust
            more |= {"calibrated": fitted.as_dict(), "plain_sigmoid": raw.as_dict(), "answer_sets": sets.as_dict()}
            more |= {"trust": everywhere.as_dict()}
        print(printable_json({**evaluation.as_dict(), **more}))
    else:
        for shown in (evaluation, *others):
            tables.show_evaluation(shown, relations=relations, names=loaded.relations.short_names())
        print(f"guessing each relation's most frequent answers scores an MRR of {guessing:.4f} on {evaluation.split}")
        if trust is not None:
            tables.show_trust(*trust)


def _evaluated(run: Run, split: str | None, keep: bool, bar: bool = True) -> list[Evaluation]:
    """Rank a split; by default test, and of another graph valid+test too, which some tables rank and some do not."""
    from tuckerkg.console import progress_bar
    from tuckerkg.inference.evaluating import VALID_AND_TEST

    wanted = [split or "test"]
    if split is None and run.graph is not None and len(run.split("valid")):
        wanted = ["test", VALID_AND_TEST] if len(run.split("test")) else ["valid"]
    found = []
    for each in wanted:
        with progress_bar(f"ranking {each}") if bar else nullcontext() as progress:
            found.append(run.evaluate(each, progress))
        if keep:
            _keep(run, found[-1])
    return found


def _keep(run: Run, evaluation: Evaluation) -> None:
    """Write the evaluation into the run folder, unless that is read-only."""
    from contextlib import suppress

    from tuckerkg.storage.sealed_folder import write_atomic

    text = json.dumps({"step": run.step, **evaluation.as_dict()}, indent=2, ensure_ascii=False)
    with suppress(OSError, RunFolderError):
        write_atomic(run.evaluation_file(evaluation.split), text.encode())


def add(
    run: RunArgument,
    file: Annotated[Path, typer.Argument(help="New triples: TSV, CSV, Parquet or RDF.", show_default=False)],
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    on_error: OnErrorOption = "stop",
    rejects: RejectsOption = Path("rejected.tsv"),
    keep_literals: LiteralsOption = False,
    integers: IntegersOption = False,
    as_json: JsonOption = False,
    plugins: PluginOption = None,
) -> None:
    """Add new facts, and entities linked to known ones, without training again: the run gets a new version.

    The next `predict`, `explain` or `evaluate` uses it; `RUN@1` is the run as it was trained. Example:
    `tuckerkg add runs/mine new.tsv`.
    """
    from tuckerkg.console import progress_bar
    from tuckerkg.inference.adding.add_facts import add_facts

    options = read_options(columns, delimiter, header, on_error, rejects, keep_literals, integers)
    with progress_bar("fitting new entities") as progress:
        done = add_facts(load_run(run), file, options, progress=progress)
    if as_json:
        print(json.dumps(done.as_dict()))
        return
    print(
        f"{done.read:,} rows read: {done.facts:,} facts added, {done.known:,} known already, {done.repeated:,} "
        f"repeated, {done.rejected:,} rejected, {done.literals:,} literals; {done.entities:,} new entities"
    )
    if done.held_out:
        print(
            f"warning: {done.held_out:,} of them were held out: figures on validation and test are too good from now on"
        )
    print(f"version {done.version} of {run}; the one before stays: {run}@{done.version - 1}")


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; the first one is the baseline.")],
    split: Annotated[str, typer.Option(help="test, valid or train.")] = "test",
    relations: Annotated[int, typer.Option(help="How many relations to show, those with most questions.", min=0)] = 10,
    plot: Annotated[Path | None, typer.Option(help="Also draw the comparison into this PNG or SVG file.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Also write the table to this .csv file.")] = None,
    latex: Annotated[
        Path | None, typer.Option(help="Also write the table to this .tex file, as a LaTeX tabular.")
    ] = None,
    as_json: JsonOption = False,
    plugins: PluginOption = None,
) -> None:
    """Compare runs: metrics, a paired bootstrap, MRR by relation and by degree.

    Runs that differ by their seed alone are one line, with mean and standard deviation. Refuses runs that were not
    evaluated under one protocol. Example: `tuckerkg compare runs/a runs/b --plot compared.png --csv compared.csv`.
    """
    from tuckerkg.reports import tables
    from tuckerkg.reports.comparison import compare as compare_runs
    from tuckerkg.reports.plots import check_plot, draw_comparison

    if all(is_class_run(folder) for folder in runs):
        show_class_comparison(runs, as_json)
        return
    if plot is not None:
        check_plot(plot)
    for path, ending in ((csv, ".csv"), (latex, ".tex")):
        if path is not None and path.suffix.lower() != ending:
            raise TuckerkgError(f"{path}: the name must end in {ending}")
    found = compare_runs([load_run(folder) for folder in runs], split, log=log)
    for path, text in ((csv, found.to_csv), (latex, found.to_latex)):
        if path is not None:
            path.write_text(text(), encoding="utf-8")
            log(f"{path} written")
    if plot is not None:
        draw_comparison(found, plot)
        log(f"{plot} written")
    if as_json:
        print(printable_json(found.as_dict()))
    else:
        tables.show_comparison(found, relations)


def report(
    run: RunArgument,
    out: Annotated[
        Path, typer.Option(help="Where it goes: .html is the report, .md the model card.", show_default=True)
    ] = Path("report.html"),
    checkpoint: CheckpointOption = "best",
    plugins: PluginOption = None,
) -> None:
    """Write a page on a run: curve, metrics by relation and degree, calibration, examples; or its model card.

    Examples: `tuckerkg report runs/mine`, `tuckerkg report runs/mine --out MODEL_CARD.md`.
    """
    from tuckerkg.reports.html import check_page, write_class_report
    from tuckerkg.reports.html import report as write_report

    of_classes = is_class_run(run)
    check_page(out, pictures=not of_classes)
    if of_classes:
        write_class_report(load_class_run(run, checkpoint), out)
        print(f"{out} written")
        return
    write_report(load_run(run, checkpoint=checkpoint), out, log=log)
    print(f"{out} written")


def export(
    run: RunArgument,
    out: Annotated[Path, typer.Argument(help="The file to write, .parquet or .npz.", show_default=False)],
    what: Annotated[
        str, typer.Option(help="encoded (entities after the encoder), entities (as learnt) or relations.")
    ] = "encoded",
    checkpoint: CheckpointOption = "best",
    plugins: PluginOption = None,
) -> None:
    """Write vectors to use elsewhere: label, title and vector of every entity or relation.

    Examples: `tuckerkg export runs/mine vectors.parquet`, `tuckerkg export runs/mine r.npz --what relations`.
    """
    from tuckerkg.inference.export import check_export

    check_export(out, what)
    chosen: Any = what
    loaded = load_run(run, checkpoint=checkpoint)
    loaded.export(out, chosen)
    rows, width = loaded.vectors(chosen)["vector"].to_numpy().shape
    print(f"{rows:,} vectors of width {width} written to {out}")
