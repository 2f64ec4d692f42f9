"""Verbs that ask a trained run: predict, score, explain."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuckerkg.cli.classify import is_class_run, load_class_run, show_class_explanation, show_predictions
from tuckerkg.cli.options import (
    AskingRanksOption,
    BaseRateOption,
    CheckpointOption,
    ColumnsOption,
    DelimiterOption,
    GraphOption,
    HeaderOption,
    IndexOption,
    IntegersOption,
    JsonOption,
    LiteralsOption,
    OnErrorOption,
    PlainOption,
    PluginOption,
    RejectsOption,
    RunArgument,
    TimeoutOption,
    UnguardedOption,
    graph_options,
    load_run,
    log,
    read_options,
    with_index,
)
from tuckerkg.cli.ranks import asking, is_shown, open_on_ranks
from tuckerkg.errors import TuckerkgError, printable_json

if TYPE_CHECKING:
    import polars as pl

    from tuckerkg.data.readers.options import ReadOptions
    from tuckerkg.inference.answers.predictions import Predictions
    from tuckerkg.inference.query_files import FileAnswers
    from tuckerkg.inference.retrieval import Retrieval
    from tuckerkg.inference.run import Run
    from tuckerkg.ranks.group import Group

LONG_MINUTES = 5.0  # a search that takes longer is left to the questions that a fast member of a blend finds


def predict(  # noqa: PLR0912  (options that exclude each other are refused one by one)
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
    retriever: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="With --top-missing: a run with embeddings that finds the questions worth asking, for a run that is "
            "slow to ask. A blend has one among its members.",
        ),
    ] = None,
    ask: Annotated[
        int | None, typer.Option(help="With --top-missing: ask only so many questions, the most promising.", min=1)
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="With --top-missing: ask as many questions as so many minutes allow.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the answers to this file: .tsv, .csv, .json, .jsonl, .parquet or .nt.")
    ] = None,
    items: Annotated[
        list[str] | None,
        typer.Option("--item", help="Of a run of `classify`: a node or graph to name the class of; may be repeated."),
    ] = None,
    base_rate: BaseRateOption = None,
    one_way: Annotated[
        bool,
        typer.Option(
            "--one-way",
            help="Probability from the question that is asked alone, without asking each answer's own question in the "
            "other direction: faster, and less sure.",
        ),
    ] = False,
    index: IndexOption = None,
    ranks: AskingRanksOption = None,
    timeout: TimeoutOption = 300.0,
    plain: PlainOption = False,
    form: Annotated[str, typer.Option("--format", help="table, tsv or json.")] = "table",
    unguarded: UnguardedOption = False,
    graph: GraphOption = None,
    checkpoint: CheckpointOption = "best",
    plugins: PluginOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = False,
    integers: IntegersOption = False,
    on_error: OnErrorOption = "stop",
    rejects: RejectsOption = Path("rejected.tsv"),
) -> None:
    """Name missing links: tails, heads, relations, or the best of the whole graph.

    Examples: `tuckerkg predict RUN --head France --relation borders`, `... --relation borders --tail Spain`,
    `... --head France --tail Spain`, `... --top-missing 20`, `... --questions ask.tsv --out answers.parquet`,
    `... --top-missing 20 --retriever runs/fast --minutes 10`.
    """
    from tuckerkg.inference.answers.files import check_output
    from tuckerkg.reports import tables

    tables.check_format(form)
    if is_class_run(run):
        show_predictions(load_class_run(run, checkpoint), items, out, form == "json", k)
        return
    if items:
        raise TuckerkgError("--item is for a run of `classify`: give --head, --relation or --tail")
    options = read_options(columns, delimiter, header, on_error, rejects, integers=integers)
    if out is not None:
        check_output(out, (questions, rejects if on_error == "skip" else None))
    if (head or relation or tail) and (top_missing is not None or questions is not None):
        other = "--questions" if questions is not None else "--top-missing"
        raise TuckerkgError(f"{other} asks by itself: leave out --head, --relation and --tail")
    if top_missing is not None and questions is not None:
        raise TuckerkgError("--top-missing and --questions are two questions: give one of them")
    retrieved = retriever is not None or ask is not None or minutes is not None
    if retrieved and top_missing is None:
        raise TuckerkgError("--retriever, --ask and --minutes are for --top-missing: give that too")
    if questions is None and graph is None and (columns or delimiter or header or integers or on_error != "stop"):
        raise TuckerkgError(
            "--columns, --delimiter, --header, --integers and --on-error are for the files of --questions and --graph: "
            "give one of them too"
        )
    if one_way and top_missing is not None:
        raise TuckerkgError("--top-missing weighs facts from both of their questions: leave out --one-way")
    of_graph = replace(options, header=header or None)  # only a file of questions has surely no header
    typed, joined = not untyped, not one_way

    def found_by(loaded: Run, group: Group | None) -> Predictions | pl.DataFrame:
        if top_missing is not None and retrieved:
            fast = None if retriever is None else load_run(retriever)
            return _retrieved(loaded.retrieval(fast, ask=ask, minutes=minutes, typed=typed), top_missing)
        if top_missing is not None:
            return _top_missing(loaded, top_missing, typed, group)
        if questions is not None:
            return _answers(loaded, questions, options, k, known, typed, joined, group).frame
        return loaded.predict(head, relation, tail, k, known=known, typed=typed, joined=joined)

    with asking(ranks, timeout, graph=graph, retriever=retriever, ask=ask, minutes=minutes, index=index) as group:
        if group is None:
            loaded = with_index(load_run(run, plain, checkpoint, graph, base_rate, of_graph), index)
        else:
            loaded = open_on_ranks(group, run, checkpoint, plain, base_rate)
        facts = found_by(loaded, group)
        if is_shown(group):
            _give(facts, form, out, guard=not unguarded)


def _give(facts: Predictions | pl.DataFrame, form: str, out: Path | None, guard: bool) -> None:
    """Show facts, or write them to a file."""
    from tuckerkg.inference.answers.files import write_predictions
    from tuckerkg.reports import tables

    if out is None:
        tables.show_predictions(facts, form, guard=guard)
    else:
        write_predictions(facts, out, guard=guard)
        print(f"{len(facts):,} facts written to {out}")


def _top_missing(run: Run, k: int, typed: bool, group: Group | None) -> Predictions:
    """Search the whole graph, after saying how long it takes; where that is long, the promising part of it."""
    from tuckerkg.console import progress_bar
    from tuckerkg.inference.retrieval import embedding_member

    asked = run.predictor.missing_questions(typed)
    if group is not None:  # all of them ask all questions: a measured time would be another one on each
        if group.is_first:
            log(f"{len(asked):,} questions, each over {len(run.entities):,} entities, on {group.size} ranks")
        with progress_bar("asking") if group.is_first else nullcontext() as progress:
            return run.top_missing(k, typed=typed, progress=progress)
    if not len(asked):
        log("no question is open where only entities are taken that were seen there; --untyped takes any")
    seconds = run.predictor.seconds_for(asked, typed, k)
    if seconds > 60.0 * LONG_MINUTES and embedding_member(run) is not None:
        log(f"asking all takes about {seconds / 60.0:,.0f} minutes here (--ask {len(asked)} does it); instead:")
        return _retrieved(run.retrieval(minutes=LONG_MINUTES, typed=typed), k)
    log(f"{len(asked):,} questions, each over {len(run.entities):,} entities: about {seconds:,.0f} s here")
    with progress_bar("asking") as progress:
        return run.top_missing(k, typed=typed, progress=progress)


def _retrieved(search: Retrieval, k: int) -> Predictions:
    """Search the whole graph with a budget, after saying what it costs."""
    from tuckerkg.console import progress_bar

    log(str(search.cost))
    with progress_bar("finding questions") as progress:
        questions = search.promising(progress)
    with progress_bar("asking") as progress:
        return search.top_missing(k, questions, progress)


def _answers(
    run: Run, questions: Path, options: ReadOptions, k: int, known: bool, typed: bool, joined: bool, group: Group | None
) -> FileAnswers:
    from tuckerkg.console import progress_bar
    from tuckerkg.inference.query_files import ask_file
    from tuckerkg.nn.contracts import is_slow

    if joined and is_slow(run.scorer):
        log("this run is slow to ask, and each answer's own question is asked too; --one-way leaves that out")
    shown = is_shown(group)
    options = options if shown else replace(options, rejects=None)  # one rank writes them
    with progress_bar("asking") if shown else nullcontext() as progress:
        found = ask_file(run, questions, options, k, known=known, typed=typed, joined=joined, progress=progress)
    if shown:
        _say_rejects(len(found.rejects), options)
    return found


def _say_rejects(count: int, options: ReadOptions) -> None:
    if count:
        log(f"{count:,} rows were set aside, with what is wrong with each: {options.rejects}")


def score(
    run: RunArgument,
    file: Annotated[Path, typer.Argument(help="Triples of names, TSV or CSV.", show_default=False)],
    form: Annotated[str, typer.Option("--format", help="table, tsv or json.")] = "table",
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    integers: IntegersOption = False,
    on_error: OnErrorOption = "stop",
    rejects: RejectsOption = Path("rejected.tsv"),
    out: Annotated[
        Path | None, typer.Option(help="Write the answers to this file: .tsv, .csv, .json, .jsonl, .parquet or .nt.")
    ] = None,
    items: Annotated[
        list[str] | None,
        typer.Option("--item", help="Of a run of `classify`: a node or graph to name the class of; may be repeated."),
    ] = None,
    base_rate: BaseRateOption = None,
    plain: PlainOption = False,
    unguarded: UnguardedOption = False,
    graph: GraphOption = None,
    checkpoint: CheckpointOption = "best",
    plugins: PluginOption = None,
) -> None:
    """Say of each triple of a file how probable it is, and whether it is true: yes, no or unsure.

    Yes and no come from thresholds of each relation, chosen on validation against false facts of the right type; how
    often they were wrong there stands beside them. `tuckerkg calibrate` takes facts that you have labelled instead.
    """
    from tuckerkg.inference.answers.files import check_output
    from tuckerkg.inference.query_files import score_file
    from tuckerkg.reports import tables

    tables.check_format(form)
    options = read_options(columns, delimiter, header, on_error, rejects, integers=integers)
    if out is not None:
        check_output(out, (file, rejects if on_error == "skip" else None))
    found = score_file(load_run(run, plain, checkpoint, graph, base_rate, options), file, options)
    _say_rejects(len(found.rejects), options)
    _give(found.frame, form, out, guard=not unguarded)


def explain(
    run: RunArgument,
    head: Annotated[str, typer.Argument(help="An entity: its label or readable name.")],
    relation: Annotated[str | None, typer.Argument(help="A relation; none for a run of `classify`.")] = None,
    tail: Annotated[str | None, typer.Argument(help="An entity; none for a run of `classify`.")] = None,
    k: Annotated[int, typer.Option("-k", help="How many edges and paths to name.", min=1)] = 5,
    plot: Annotated[Path | None, typer.Option(help="Draw it to this .png, .svg or .pdf.")] = None,
    base_rate: BaseRateOption = None,
    plain: PlainOption = False,
    as_json: JsonOption = False,
    graph: GraphOption = None,
    checkpoint: CheckpointOption = "best",
    plugins: PluginOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    integers: IntegersOption = False,
    keep_literals: LiteralsOption = False,
    on_error: OnErrorOption = "stop",
    rejects: RejectsOption = Path("rejected.tsv"),
) -> None:
    """Say why a fact is predicted: the edges that carried its score, what happens without them, supporting paths.

    Example: `tuckerkg explain runs/demo France borders Italy --plot why.svg`.
    """
    from tuckerkg.console import progress_bar
    from tuckerkg.reports import tables
    from tuckerkg.reports.plots import check_plot, draw_explanation

    if is_class_run(run):
        show_class_explanation(load_class_run(run, checkpoint), head, k, as_json)
        return
    if relation is None or tail is None:
        raise TuckerkgError("give a fact: head, relation and tail")
    if plot is not None:
        check_plot(plot)
    options = graph_options(graph, columns, delimiter, header, on_error, rejects, keep_literals, integers)
    loaded = load_run(run, plain, checkpoint, graph, base_rate, options)
    with progress_bar("taking edges out") as progress:
        found = loaded.explain(head, relation, tail, k, progress)
    if as_json:
        print(printable_json(found.as_dict()))
    else:
        tables.show_explanation(found)
    if plot is not None:
        draw_explanation(found, plot)
