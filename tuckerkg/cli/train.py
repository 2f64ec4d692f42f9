"""Verbs that train: demo, train, tune; and settings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuckerkg.cli.options import (
    AllowLeaksOption,
    ColumnsOption,
    DataOption,
    DelimiterOption,
    DropLeaksOption,
    DuplicatesOption,
    EntityNamesOption,
    HeaderOption,
    IntegersOption,
    InversesOption,
    LiteralsOption,
    OnErrorOption,
    PairsOption,
    PluginOption,
    RejectsOption,
    RelationNamesOption,
    SetOption,
    SettingsOption,
    load_graph,
    log,
    read_options,
    remedied,
    settings_of,
    training_progress,
)
from tuckerkg.cli.ranks import graph_in_shards, in_shards, is_left_to_ranks, refuse_in_shards, train_in_shards
from tuckerkg.errors import TuckerkgError, printable
from tuckerkg.types import JsonObject

if TYPE_CHECKING:
    from tuckerkg.inference.run import Run
    from tuckerkg.review.carrying import Carried
    from tuckerkg.storage.run_folder import RunFolder


DEMO_MINUTES = 1.0


def demo(
    out: Annotated[Path, typer.Option(help="Where the run folder goes; an earlier demo there is replaced.")] = Path(
        "runs/demo"
    ),
    facts: Annotated[int, typer.Option(help="How many missing facts to name.", min=1)] = 10,
) -> None:
    """Train on the embedded graph of countries, print test metrics and ten missing facts as sentences."""
    from tuckerkg.api import train_automatically
    from tuckerkg.data.load import load
    from tuckerkg.inference.answers.predictions import few_of_each_relation
    from tuckerkg.reports import tables

    if out.exists():
        _remove_run(out)
    dataset = load("countries")
    tables.show_dataset(dataset)
    run = train_automatically(dataset, out, minutes=DEMO_MINUTES, callback=training_progress(), log=print)
    tables.show_evaluation(run.evaluate("test"))
    print(f"\n{facts} facts that are missing from the training graph, and that the model finds most probable:\n")
    probable = run.top_missing(100 * facts, missing_from=("train",))
    for number, fact in enumerate(few_of_each_relation(probable, facts), 1):
        verdict = "true: it was held out" if fact.known else "not in the data"
        print(f"{number:3}. {printable(fact.sentence()):70} {fact.probability:4.0%}  {verdict}")
    print(
        f"\nNext:\n  tuckerkg predict {out} --head France --relation borders\n"
        f"  tuckerkg predict {out} --head Switzerland --tail Italy --known\n"
        f"  tuckerkg explain {out} France borders Italy\n"
        f"  tuckerkg serve {out}    (or make serve: look at it in a browser)\n"
        "  tuckerkg train your-triples.tsv --out runs/yours\n  tuckerkg --help"
    )


def train(
    dataset: Annotated[
        str | None,
        typer.Argument(help="A dataset's name, a folder with train/valid/test files, or one file to be split."),
    ] = None,
    settings: SettingsOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The run folder to write.", show_default="runs/<experiment or dataset>"),
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue this run folder instead of starting one.")] = None,
    encoder: Annotated[
        str | None, typer.Option(help="tgcn, rgcn, compgcn, sacn, none, or one of a plugin.", rich_help_panel="Model")
    ] = None,
    decoder: Annotated[
        str | None,
        typer.Option(
            help="tucker, distmult, complex, rescal, rotate, transe, conve, convtranse, or one of a plugin.",
            rich_help_panel="Model",
        ),
    ] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(
            help="Seed of everything random. Repeat it to train once per seed.", min=0, rich_help_panel="Model"
        ),
    ] = None,
    number_of_seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds", help="Train so many times, with the seeds 0, 1, 2, ...", min=1, rich_help_panel="Model"
        ),
    ] = None,
    changes: SetOption = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--start", "--start-from", help="A run folder whose best weights to start from.", rich_help_panel="Model"
        ),
    ] = None,
    plugins: PluginOption = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="How long it may take, where no model or setting is given.",
            min=0.1,
            show_default="what the graph needs, 60 at most",
        ),
    ] = None,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit", help="When done, train once more on all facts, into the run folder's name with -refit behind."
        ),
    ] = False,
    decisions: Annotated[
        Path | None,
        typer.Option(
            help="A run folder about whose facts people decided: accepted ones join training, and none is asked again."
        ),
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option(
            help="Train on so many processes here, each with a part of the entity table; see the page on ranks.",
            min=1,
            rich_help_panel="Ranks",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds that a rank waits for the others.", min=1.0, rich_help_panel="Ranks")
    ] = 300.0,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write TensorBoard files into the run folder.")
    ] = False,
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
    allow_leaks: AllowLeaksOption = False,
    keep_literals: LiteralsOption = False,
    integers: IntegersOption = False,
    entity_names: EntityNamesOption = None,
    relation_names: RelationNamesOption = None,
    drop_leaks: DropLeaksOption = False,
    split_by_pairs: PairsOption = False,
    join_inverses: InversesOption = False,
    join_duplicates: DuplicatesOption = False,
) -> None:
    """Train a model and write a run folder. Ctrl-C saves; `--resume` continues, bit for bit.

    Without a model or a setting, the program chooses what suits the graph, on its validation split: messages from the
    question, embeddings, or a blend of both. It says what, why, and how long that takes.

    Examples: `tuckerkg train my.tsv`, `tuckerkg train umls --minutes 2`, `tuckerkg train graph.ttl --out runs/mine`,
    `tuckerkg train my.csv --columns subject,predicate,object`, `tuckerkg train -s fb15k-237-tgcn-tucker --seed 1`.
    """
    from tuckerkg import api
    from tuckerkg.reports import tables
    from tuckerkg.review.carrying import Carried, with_decisions
    from tuckerkg.storage.run_folder import RunFolder, check_place

    if is_left_to_ranks(ranks, timeout):
        return
    if resume is not None:
        if dataset is not None or settings is not None or changes or start is not None or seed or number_of_seeds:
            raise TuckerkgError(
                "--resume takes everything from the run folder: leave out the dataset, --settings, --seed, --seeds, "
                "--set, --start-from"
            )
        _finish(RunFolder.open(resume), tensorboard, result, data, refit, timeout)
        return
    seeds = _seeds(seed, number_of_seeds)
    named: JsonObject = {"encoder": encoder, "decoder": decoder, "plugins": list(plugins) if plugins else None}
    if start is not None:
        changes = [*(changes or ()), f"start.run={json.dumps(str(RunFolder.open(start).path))}"]
    if out is not None:
        check_place(out)  # before time is spent on reading
    options = read_options(columns, delimiter, header, on_error, rejects, keep_literals, integers)
    several = len(seed or ()) > 1 or bool(number_of_seeds) or refit
    by_hand = bool(settings or changes or any(named.values()))
    given, one_model = changes, by_hand and not several
    first = settings_of(settings, dataset, named, changes := in_shards(given, ranks, one_model))
    graph = graph_in_shards(first, ranks)
    if graph is not None:
        refuse_in_shards(
            join_inverses, join_duplicates, split_by_pairs, drop_leaks, entity_names, relation_names, minutes, decisions
        )
        changes = in_shards(given, ranks, one_model, graph)
        chosen = settings_of(settings, dataset, {**named, "train.seed": seeds[0]}, changes)
        place = out or Path("runs") / (first.experiment or graph.path.resolve().name)
        print(graph.summary())
        _finish(api.prepare_in_shards(graph, chosen, place), tensorboard, result, data, refit, timeout)
        return
    read = load_graph(first.dataset, data, options, allow_leaks, entity_names, relation_names)
    read = remedied(read, inverses=join_inverses, duplicates=join_duplicates, pairs=split_by_pairs, drop=drop_leaks)
    carried = with_decisions(read, decisions) if decisions else Carried(read, [])
    read = carried.dataset
    tables.show_dataset(read)
    place = out or Path("runs") / (first.experiment or read.name)
    by_hand = by_hand or tensorboard
    if minutes is not None and by_hand:
        raise TuckerkgError("--minutes bounds what the program chooses: leave it out, or the models and settings")
    for each in seeds:
        folder = place.with_name(f"{place.name}-seed{each}") if len(seeds) > 1 else place
        if refit:
            check_place(api.refit_place(folder))
        if not by_hand:
            _train_automatically(carried, folder, minutes, each, result, refit)
            continue
        chosen = first if each is None else settings_of(settings, dataset, {**named, "train.seed": each}, changes)
        prepared = api.prepare(read, chosen, folder)
        carried.keep(prepared.path)
        _finish(prepared, tensorboard, result, data, refit, timeout)


def _seeds(named: list[int] | None, count: int | None) -> list[int | None]:
    """The seeds to train with, one run each; None: that of the settings."""
    if named and count:
        raise TuckerkgError("--seed names seeds and --seeds counts them: give one of the two")
    return list(named or range(count or 0)) or [None]


def _train_automatically(
    carried: Carried, place: Path, minutes: float | None, seed: int | None, result: Path | None, refit: bool
) -> None:
    """Train what suits the graph and say what came of it."""
    from tuckerkg.api import train_automatically

    run = train_automatically(
        carried.dataset, place, minutes=minutes, seed=seed or 0, callback=training_progress(), log=print
    )
    carried.keep(run.path)
    _close(run, result, refit)


def _finish(
    folder: RunFolder, tensorboard: bool, result: Path | None, data: Path | None, refit: bool, timeout: float
) -> None:
    """Train a run folder to its end and say what came of it."""
    from tuckerkg import api

    if folder.graph is not None:
        train_in_shards(folder, training_progress(), timeout, alone=not (tensorboard or result or refit))
        return
    board = folder.path / "tensorboard" if tensorboard else None
    _close(api.resume(folder, training_progress(board), data, print, timeout), result, refit, data)


def _close(run: Run, result: Path | None, refit: bool, data: Path | None = None) -> None:
    """Say what came of a run, write its result, train once more on all facts."""
    from tuckerkg import api
    from tuckerkg.refitting import knows_everything
    from tuckerkg.storage.run_folder import is_run

    show_trained(run)
    if result is not None:
        _write_result(run, result)
    if refit and knows_everything(run):
        print(f"{run.path}: nothing was held out of it, so it is trained on all facts already")
    elif refit:
        place = api.refit_place(run.path)
        if is_run(place):
            show_trained(api.resume(place, training_progress(), data, print))
        else:
            show_trained(api.refit_run(run, out=place, callback=training_progress(), log=print))


def show_trained(run: Run) -> None:
    """What came of a training, and what to do next."""
    from tuckerkg.refitting import without_validation

    if run.state["best_mrr"] is None:
        print(without_validation(run.folder))
        print(f"saved in {run.path}\nnext: tuckerkg predict {run.path} --top-missing 20")
    else:
        print(f"best validation MRR {run.state['best_mrr']:.4f} at step {run.step:,}; saved in {run.path}")
        print(f"next: tuckerkg evaluate {run.path}")


def tune(
    experiment: Annotated[
        str,
        typer.Argument(
            help="A TOML file or shipped experiment to vary, a dataset's name or path, or a run of `classify`.",
            show_default=False,
        ),
    ],
    space: Annotated[str, typer.Option(help="What to vary: a TOML file, or `tucker`, or `paper` (its own grid).")],
    trials: Annotated[int, typer.Option(help="Stop when the study has so many finished trials.", min=1)] = 20,
    minutes: Annotated[float | None, typer.Option(help="Begin no trial after so many minutes.")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where the study is kept.", show_default="studies/<experiment>-<space>")
    ] = None,
    changes: SetOption = None,
    plugins: PluginOption = None,
    data: DataOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    on_error: OnErrorOption = "stop",
    rejects: RejectsOption = Path("rejected.tsv"),
    keep_literals: LiteralsOption = False,
    integers: IntegersOption = False,
) -> None:
    """Search for settings on the validation split with Optuna. Ctrl-C saves; the same command continues.

    The test split is not opened. Weak trials are stopped early. Several processes may work on one folder.
    Examples: `tuckerkg tune my.tsv --space tucker --trials 30`,
    `tuckerkg tune fb15k-237-tgcn-tucker --space tucker --set train.epochs=8.0`.
    """
    from tuckerkg.config.toml import parse_override
    from tuckerkg.reports import tables
    from tuckerkg.tuning.tune import tune as search

    found = search(
        experiment,
        space,
        trials=trials,
        minutes=minutes,
        folder=folder,
        overrides=dict(parse_override(change) for change in changes or ()),
        data=data,
        options=read_options(columns, delimiter, header, on_error, rejects, keep_literals, integers),
        on_trial=tables.show_trial,
        callback=training_progress,
    )
    tables.show_trials(found.trials, found.folder)


def show_settings(
    settings: Annotated[
        str | None, typer.Argument(help="A TOML file or a shipped experiment; none: the defaults.")
    ] = None,
    changes: SetOption = None,
    plugins: PluginOption = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what every setting means, its range and its default.")
    ] = False,
) -> None:
    """Print every setting with its value as JSON, and the names of the shipped experiments.

    Examples: `tuckerkg settings --explain`, `tuckerkg settings wn18rr-tgcn-tucker`.
    """
    from tuckerkg.config.reference import reference_text
    from tuckerkg.config.toml import experiment_files, experiment_name

    if explain:
        print(reference_text())
        return
    print(json.dumps(settings_of(settings, None, {}, changes).as_dict(), indent=2))
    if settings is None:
        log("shipped experiments: " + ", ".join(experiment_name(file) for file in experiment_files()))


def _write_result(run: Run, target: Path) -> None:
    from tuckerkg.paper.result_file import result_of, result_path, write_result
    from tuckerkg.reports import tables

    test = run.evaluate("test")
    result = result_of(run, run.evaluate("valid"), test)
    path = target if target.suffix == ".json" else result_path(target, result["experiment"], result["seed"])
    write_result(path, result)
    tables.show_evaluation(test)
    print(f"result written to {path}")


def _remove_run(path: Path) -> None:
    """Remove an earlier demo, but nothing that is not a run folder."""
    from tuckerkg.storage.run_folder import RunFolder

    if any(path.iterdir() if path.is_dir() else [path]):
        RunFolder.open(path)
    shutil.rmtree(path)
