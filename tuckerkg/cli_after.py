"""Verbs for a finished run: explain what it says, add facts to it, report on it, take its vectors elsewhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from tuckerkg.cli_options import (
    ColumnsOption,
    DelimiterOption,
    HeaderOption,
    JsonOption,
    OnErrorOption,
    PlainOption,
    RejectsOption,
    RunArgument,
    load_run,
    read_options,
)
from tuckerkg.errors import TuckerkgError, printable_json


def explain(
    run: RunArgument,
    head: Annotated[str, typer.Argument(help="An entity: its label or readable name.")],
    relation: Annotated[str, typer.Argument(help="A relation.")],
    tail: Annotated[str, typer.Argument(help="An entity.")],
    count: Annotated[int, typer.Option("-k", help="How many edges and paths to name.", min=1)] = 5,
    plot: Annotated[Path | None, typer.Option(help="Draw it to this .png, .svg or .pdf.")] = None,
    plain: PlainOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say why a fact is believed: the edges that carried its score, what happens without them, and supporting paths.

    Example: `tuckerkg explain runs/demo France borders Italy --plot why.svg`.
    """
    from rich.console import Console

    from tuckerkg import show
    from tuckerkg.explain_plot import draw_explanation
    from tuckerkg.plots import check_plot
    from tuckerkg.progress import counter

    if plot is not None:
        check_plot(plot)
    loaded = load_run(run, plain)
    bar, tick = counter(Console(stderr=True), "taking edges out")
    with bar:
        found = loaded.explain(head, relation, tail, count, tick)
    if as_json:
        print(printable_json(found.as_dict()))
    else:
        show.show_explanation(found)
    if plot is not None:
        draw_explanation(found, plot)


def add(
    run: RunArgument,
    file: Annotated[Path, typer.Argument(help="New triples: TSV, CSV, Parquet or RDF.", show_default=False)],
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    on_error: OnErrorOption = "stop",
    rejects: RejectsOption = Path("rejected.tsv"),
    as_json: JsonOption = False,
) -> None:
    """Add new facts, and entities linked to known ones, without training again: the run gets a new version.

    The next `predict`, `explain` or `evaluate` uses it; `RUN@1` is the run as it was trained. Example:
    `tuckerkg add runs/mine new.tsv`.
    """
    from rich.console import Console

    from tuckerkg.adding import add_file
    from tuckerkg.progress import counter

    options = read_options(columns, delimiter, header, on_error, rejects)
    bar, tick = counter(Console(stderr=True), "fitting new entities")
    with bar:
        done = add_file(load_run(run), file, options, tick=tick)
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


def report(
    run: RunArgument,
    out: Annotated[
        Path, typer.Option(help="Where it goes: .html is the report, .md the model card.", show_default=True)
    ] = Path("report.html"),
) -> None:
    """Write a page on a run: curve, metrics by relation and degree, calibration, examples; or its model card.

    Examples: `tuckerkg report runs/mine`, `tuckerkg report runs/mine --out MODEL_CARD.md`.
    """
    from tuckerkg.report import report_of
    from tuckerkg.report_page import check_page, write_report

    check_page(out)
    write_report(report_of(load_run(run), told=lambda text: print(text, file=sys.stderr)), out)
    print(f"{out} written")


def export(
    run: RunArgument,
    out: Annotated[Path, typer.Argument(help="The file to write, .parquet or .npz.", show_default=False)],
    what: Annotated[
        str, typer.Option(help="encoded (entities after the encoder), entities (as learnt) or relations.")
    ] = "encoded",
) -> None:
    """Write vectors to use elsewhere: label, title and vector of every entity or relation.

    Examples: `tuckerkg export runs/mine vectors.parquet`, `tuckerkg export runs/mine r.npz --what relations`.
    """
    from tuckerkg.export import check_export, write_vectors

    check_export(out, what)
    rows, width = write_vectors(load_run(run), out, what)
    print(f"{rows:,} vectors of width {width} written to {out}")


def serve(
    run: RunArgument,
    host: Annotated[str, typer.Option(help="The address to listen on; another than loopback needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port to listen on.", min=1, max=65535)] = 8000,
    token: Annotated[
        str | None, typer.Option(envvar="TUCKERKG_TOKEN", help="What clients must send: Authorization: Bearer TOKEN.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A further name that clients may use for this host; may be repeated.")
    ] = None,
) -> None:
    """Serve a run over HTTP: a page to look at it, and the same as JSON. Ctrl-C ends it.

    Example: `tuckerkg serve runs/demo`, then open http://127.0.0.1:8000/.
    """

    try:
        from tuckerkg.serve import server
    except ImportError as error:
        raise TuckerkgError(f"serving needs {error.name}: pip install 'tuckerkg[serve]'") from error

    def told(text: str) -> None:
        print(f"tuckerkg: {text}", file=sys.stderr, flush=True)

    told(f"loading {run}")
    names = allow_host or ()
    raise typer.Exit(server.serve(run, host=host, port=port, token=token, names=names, told=told))
