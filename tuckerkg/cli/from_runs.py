"""The verbs that make a run of others: of several, or of one on all facts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuckerkg.cli.options import JsonOption, PluginOption, RunArgument, load_run, log, training_progress
from tuckerkg.errors import printable_json
from tuckerkg.types import JsonObject


def blend(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, trained on the same splits.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The run folder to write.", show_default=False)],
    test: Annotated[
        bool, typer.Option("--test", help="Also rank the test split, with a paired bootstrap against the best member.")
    ] = False,
    as_json: JsonOption = False,
    plugins: PluginOption = None,
) -> None:
    """Blend runs into a new one: a weighted sum of their log shares, with weights fitted on validation.

    The new run holds copies of its members and is used like any other. Example:
    `tuckerkg blend runs/a runs/b --out runs/both --test`.
    """
    from tuckerkg.console import progress_bar
    from tuckerkg.inference.blend import blend as make_blend
    from tuckerkg.reports import tables
    from tuckerkg.reports.blends import BlendReport
    from tuckerkg.reports.comparison import compare

    opened = [load_run(run) for run in runs]
    with progress_bar("asking") as progress:
        made = make_blend(opened, out=out, log=log, progress=progress)
    found = BlendReport.of(made)
    compared = None
    if test:
        best = max(range(len(opened)), key=lambda place: found.alone[place])
        others = [run for place, run in enumerate(opened) if place != best]
        compared = compare([opened[best], made, *others], "test", log=log)
    if as_json:
        more: JsonObject = {} if compared is None else {"test": compared.as_dict()}
        print(printable_json({**found.as_dict(), **more}))
        return
    tables.show_blend(found)
    if compared is not None:
        tables.show_comparison(compared, 0)
    print(f"next: tuckerkg evaluate {out}")


def refit(
    run: RunArgument,
    out: Annotated[Path, typer.Option(help="The run folder to write.", show_default=False)],
    plugins: PluginOption = None,
) -> None:
    """Train once more on all facts, held-out and added ones too, for use in production.

    Settings and the number of epochs are those that validation chose; nothing is left to measure the new run on, so
    figures and probabilities of the run before are kept. Ctrl-C saves; `tuckerkg train --resume` continues. Example:
    `tuckerkg refit runs/mine --out runs/production`.
    """
    from tuckerkg import api
    from tuckerkg.cli.train import show_trained

    show_trained(api.refit_run(load_run(run), out=out, callback=training_progress(), log=print))
