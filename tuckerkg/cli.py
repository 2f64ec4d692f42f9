"""The verbs of the command line. Heavy modules are imported inside the verbs, so that ``--help`` answers at once."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuckerkg import cli_after, cli_study
from tuckerkg.cli_options import (
    ColumnsOption,
    DataOption,
    DelimiterOption,
    DropLeaksOption,
    HeaderOption,
    InversesOption,
    JsonOption,
    OnErrorOption,
    PairsOption,
    PlainOption,
    RejectsOption,
    RunArgument,
    SetOption,
    UnguardedOption,
    load_run,
    observer,
    read_options,
    remedied,
    settings_of,
)
from tuckerkg.errors import TuckerkgError, printable, printable_json

if TYPE_CHECKING:
    from tuckerkg.read_options import ReadOptions
    from tuckerkg.run import Run

app = typer.Typer(
    name="tuckerkg",
    help="Completes knowledge graphs with Tucker Graph Convolutional Networks (TGCN).\n\n"
    "First steps: [bold]tuckerkg demo[/bold] trains on a small graph of the world's countries and names facts that are "
    "missing from it. [bold]tuckerkg train my.tsv --out runs/mine[/bold] does the same with a file of your own.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=True,
)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Handles options that belong to no verb."""
    if version:
        import tuckerkg

        print(tuckerkg.__version__)
        raise typer.Exit


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the run folder goes; an earlier demo there is replaced.")] = Path(
        "runs/demo"
    ),
    facts: Annotated[int, typer.Option(help="How many missing facts to name.", min=1)] = 10,
) -> None:
    """Train on the embedded graph of countries, print test metrics and ten missing facts as sentences."""
    from tuckerkg import api, datasets, show
    from tuckerkg.config import load_settings
    from tuckerkg.predict import few_of_each_relation

    if out.exists():
        _remove_run(out)
    dataset = datasets.load("countries")
    show.show_dataset(dataset)
    with observer() as watching:
        run = api.resume(api.prepare(dataset, load_settings("countries-tgcn-tucker"), out), watching)
    show.show_evaluation(run.evaluate("test"))
    print(f"\n{facts} facts that are missing from the training graph, and that the model believes most:\n")
    believed = run.top_missing(100 * facts, missing_from=("train",))
    for number, fact in enumerate(few_of_each_relation(believed, facts), 1):
        verdict = "true: it was held out" if fact.known else "not in the data"
        print(f"{number:3}. {printable(fact.sentence()):70} {fact.probability:4.0%}  {verdict}")
    print(
        f"\nNext:\n  tuckerkg predict {out} --head France --relation borders\n"
        f"  tuckerkg predict {out} --head Switzerland --tail Italy --known\n"
        f"  tuckerkg explain {out} France borders Italy\n"
        f"  tuckerkg serve {out}    (or make serve: look at it in a browser)\n"
        "  tuckerkg train your-triples.tsv --out runs/yours\n  tuckerkg --help"
    )


@app.command()
def train(
    dataset: Annotated[
        str | None,
        typer.Argument(help="A dataset's name, a folder with train/valid/test files, or one file to be split."),
    ] = None,
    settings: Annotated[
        str | None, typer.Option("--settings", "-s", help="A TOML file, or the name of a shipped experiment.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder to write [default: runs/<experiment or dataset>].")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with this run folder instead of starting one.")] = None,
    encoder: Annotated[str | None, typer.Option(help="tgcn, rgcn, compgcn, sacn or none.")] = None,
    decoder: Annotated[
        str | None, typer.Option(help="tucker, distmult, complex, rescal, rotate, transe, conve, convtranse.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.", min=0)] = None,
    changes: SetOption = None,
    start: Annotated[
        Path | None, typer.Option("--start-from", help="A run folder whose best weights to go on from.")
    ] = None,
    data: DataOption = None,
    result: Annotated[
        Path | None,
        typer.Option(help="When done, rank the test split and write this result file (or into this folder)."),
    ] = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    on_error: OnErrorOption = "stop",
    rejects: RejectsOption = Path("rejected.tsv"),
    allow_leaks: Annotated[bool, typer.Option(help="Accept triples that stand in two splits.")] = False,
    keep_literals: Annotated[bool, typer.Option("--keep-literals", help="RDF: literals are entities too.")] = False,
    integers: Annotated[bool, typer.Option("--integers", help="Parquet: whole numbers are names.")] = False,
    drop_leaks: DropLeaksOption = False,
    split_by_pairs: PairsOption = False,
    join_inverses: InversesOption = False,
) -> None:
    """Train a model and write a run folder. Ctrl-C saves; `--resume` goes on, bit for bit.

    Examples: `tuckerkg train umls`, `tuckerkg train my.csv --columns subject,predicate,object --out runs/mine`,
    `tuckerkg train graph.ttl`, `tuckerkg train -s fb15k-237-tgcn-tucker --seed 1`.
    """
    from dataclasses import replace

    from tuckerkg import api, show
    from tuckerkg.checkpoint import RunFolder
    from tuckerkg.paper import usual_start
    from tuckerkg.place import check_place
    from tuckerkg.warm import start_from

    if resume is not None:
        if dataset is not None or settings is not None or changes or start is not None:
            raise TuckerkgError(
                "--resume takes everything from the run folder: leave out the dataset, --settings, --set, --start-from"
            )
        folder = RunFolder.open(resume)
    else:
        chosen = settings_of(settings, dataset, {"encoder": encoder, "decoder": decoder, "train.seed": seed}, changes)
        options = read_options(columns, delimiter, header, on_error, rejects)
        options = replace(options, keep_literals=keep_literals, integers=integers)
        if out is not None:
            check_place(out)  # before time is spent on reading
        read = _load(chosen.dataset, data, options, allow_leaks)
        read = remedied(read, join=join_inverses, pairs=split_by_pairs, drop=drop_leaks)
        show.show_dataset(read)
        former = None if start is None else RunFolder.open(start)
        folder = api.prepare(read, chosen, out or Path("runs") / (chosen.experiment or read.name))
        if former is not None:
            afresh = start_from(folder, former)
            print(f"starts from {former.path}; afresh: {', '.join(afresh) or 'nothing'}")
        elif usual := usual_start(chosen.experiment):
            print(
                f"note: {chosen.experiment} is made to go on from a run of {usual}, and its figure in RESULTS.md does. "
                f"Give that run with --start-from, or train both with `tuckerkg reproduce {chosen.experiment}`."
            )
    with observer(folder) as watching:
        run = api.resume(folder, watching)
    print(f"best validation MRR {run.state['best_mrr']:.4f} at step {run.step:,}; saved in {folder.path}")
    if result is not None:
        _write_result(run, result)
    else:
        print(f"next: tuckerkg evaluate {folder.path}")


@app.command()
def evaluate(
    run: RunArgument,
    split: Annotated[str, typer.Option(help="test, valid or train.")] = "test",
    as_json: JsonOption = False,
    relations: Annotated[bool, typer.Option("--relations", help="Also show every relation.")] = False,
    calibration: Annotated[
        bool, typer.Option("--calibration", help="Also show how far probabilities and answer sets can be trusted.")
    ] = False,
    coverage: Annotated[float, typer.Option(help="What answer sets are to hold, with --calibration.")] = 0.9,
) -> None:
    """Rank a split: filtered, both directions, over all entities, random ties with mean, best and worst beside."""
    from rich.console import Console

    from tuckerkg import show
    from tuckerkg.progress import counter

    loaded = load_run(run)
    bar, tick = counter(Console(stderr=True), "ranking")
    with bar:
        evaluation = loaded.evaluate(split, tick)
    trust = None
    if calibration:
        plain = load_run(run, plain=True)
        trust = loaded.reliability(split), plain.reliability(split), loaded.coverage(split, coverage)
    if as_json:
        more: dict[str, Any] = {}
        if trust is not None:
            fitted, raw, sets = trust
            more = {"calibrated": fitted.as_dict(), "plain_sigmoid": raw.as_dict(), "answer_sets": sets.as_dict()}
        print(printable_json({**evaluation.as_dict(), **more}))
    else:
        show.show_evaluation(evaluation, relations=relations)
        if trust is not None:
            show.show_trust(*trust)


@app.command()
def predict(
    run: RunArgument,
    head: Annotated[str | None, typer.Option(help="An entity: its label or readable name.")] = None,
    relation: Annotated[str | None, typer.Option(help="A relation.")] = None,
    tail: Annotated[str | None, typer.Option(help="An entity.")] = None,
    k: Annotated[int, typer.Option("-k", help="How many answers.", min=1)] = 10,
    known: Annotated[bool, typer.Option("--known", help="Also show facts that the graph holds, marked.")] = False,
    top_missing: Annotated[int | None, typer.Option(help="The N best missing facts of the whole graph.", min=1)] = None,
    untyped: Annotated[
        bool, typer.Option("--untyped", help="Any entity in any place of a relation, not only those seen there.")
    ] = False,
    questions: Annotated[
        Path | None, typer.Option(help="A file of questions: head, relation, tail, with ? for what is asked.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the answers to this file: .tsv, .json, .jsonl, .parquet or .nt.")
    ] = None,
    plain: PlainOption = False,
    form: Annotated[str, typer.Option("--format", help="table, tsv or json.")] = "table",
    unguarded: UnguardedOption = False,
) -> None:
    """Name missing links: tails, heads, relations, or the best of the whole graph.

    Examples: `tuckerkg predict RUN --head France --relation borders`, `... --relation borders --tail Spain`,
    `... --head France --tail Spain`, `... --top-missing 20`, `... --questions ask.tsv --out answers.parquet`.
    """
    from rich.console import Console

    from tuckerkg import show
    from tuckerkg.outputs import check_output, write_predictions
    from tuckerkg.progress import counter
    from tuckerkg.questions import ask_file
    from tuckerkg.read_options import ReadOptions

    show.check_format(form)
    if out is not None:
        check_output(out)
    asked = head or relation or tail
    if asked and (top_missing is not None or questions is not None):
        other = "--questions" if questions is not None else "--top-missing"
        raise TuckerkgError(f"{other} asks by itself: leave out --head, --relation and --tail")
    if top_missing is not None and questions is not None:
        raise TuckerkgError("--top-missing and --questions are two questions: give one of them")
    loaded, typed = load_run(run, plain), not untyped
    if not (top_missing or questions):
        facts = loaded.predict(head, relation, tail, k, include_known=known, typed=typed)
    else:
        if top_missing is not None:
            asked_for = loaded.predictor.missing_questions(typed)
            seconds = loaded.predictor.seconds_for(asked_for, typed)
            size = f"{len(asked_for):,} questions, each over {len(loaded.entities):,} entities"
            print(f"{size}: about {seconds:,.0f} s here", file=sys.stderr)
        bar, tick = counter(Console(stderr=True), "asking")
        with bar:
            if questions is not None:
                options = ReadOptions(header=False)
                facts = ask_file(loaded, questions, options, k, include_known=known, typed=typed, tick=tick)
            else:
                facts = loaded.top_missing(top_missing or 1, typed=typed, tick=tick)
    if out is None:
        show.show_predictions(facts, form, guard=not unguarded)
    else:
        write_predictions(facts, out, guard=not unguarded)
        print(f"{len(facts):,} facts written to {out}")


@app.command()
def score(
    run: RunArgument,
    file: Annotated[Path, typer.Argument(help="Triples of names, TSV or CSV.", show_default=False)],
    form: Annotated[str, typer.Option("--format", help="table, tsv or json.")] = "table",
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    plain: PlainOption = False,
    unguarded: UnguardedOption = False,
) -> None:
    """Give each triple of a file its score and probability."""
    from tuckerkg import show
    from tuckerkg.scoring import score_file

    show.check_format(form)
    options = read_options(columns, delimiter, header, "stop", None)
    show.show_predictions(score_file(load_run(run, plain), file, options), form, guard=not unguarded)


@app.command("datasets")
def list_datasets(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the datasets that can be used by name, with their counts and where each was found."""
    from dataclasses import asdict

    from tuckerkg import show
    from tuckerkg.datasets import available

    rows = available(data)
    if as_json:
        print(json.dumps([asdict(row) for row in rows], indent=2, default=str))
    else:
        show.show_datasets(rows)


@app.command("settings")
def show_settings(
    settings: Annotated[
        str | None, typer.Argument(help="A TOML file or a shipped experiment; none: the defaults.")
    ] = None,
    changes: SetOption = None,
) -> None:
    """Print every setting with its value as JSON, and the names of the shipped experiments."""
    from tuckerkg.config import experiment_files

    print(json.dumps(settings_of(settings, None, {}, changes).as_dict(), indent=2))
    if settings is None:
        print("shipped experiments: " + ", ".join(file.stem for file in experiment_files()), file=sys.stderr)


app.command()(cli_after.explain)
app.command()(cli_after.add)
app.command()(cli_after.report)
app.command()(cli_after.export)
app.command()(cli_after.serve)
app.command()(cli_study.params)
app.command()(cli_study.inspect)
app.command()(cli_study.compare)
app.command()(cli_study.tune)
app.command()(cli_study.reproduce)
app.command()(cli_study.results)


def _load(name: str, data: Path | None, options: ReadOptions, allow_leaks: bool) -> Any:
    from rich.console import Console

    from tuckerkg import datasets
    from tuckerkg.progress import counter

    bar, tick = counter(Console(stderr=True), "downloading")
    with bar:
        return datasets.load(name, data, options=options, allow_leaks=allow_leaks, progress=tick)


def _write_result(run: Run, target: Path) -> None:
    from tuckerkg import show
    from tuckerkg.results import result_of, write_result

    test = run.evaluate("test")
    result = result_of(run, run.evaluate("valid"), test)
    path = target if target.suffix == ".json" else target / f"{result['experiment']}-seed{result['seed']}.json"
    write_result(path, result)
    show.show_evaluation(test)
    print(f"result written to {path}")


def _remove_run(path: Path) -> None:
    """Removes an earlier demo, but nothing that is not a run folder."""
    from tuckerkg.checkpoint import RunFolder

    if any(path.iterdir() if path.is_dir() else [path]):
        RunFolder.open(path)
    shutil.rmtree(path)
