"""The verb that trains a run once more, on all facts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuckerkg.cli.options import PluginOption, RunArgument, load_run, training_progress


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
