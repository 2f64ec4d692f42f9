"""Verbs for a finished run: explain what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tuckerkg.cli_options import JsonOption, PlainOption, RunArgument


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
    from tuckerkg.run import load

    if plot is not None:
        check_plot(plot)
    loaded = load(run, calibrated=not plain)
    bar, tick = counter(Console(stderr=True), "taking edges out")
    with bar:
        found = loaded.explain(head, relation, tail, count, tick)
    if as_json:
        print(json.dumps(found.as_dict(), indent=2, ensure_ascii=False))
    else:
        show.show_explanation(found)
    if plot is not None:
        draw_explanation(found, plot)
