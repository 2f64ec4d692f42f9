"""The root of the command line, and its verbs in panels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from tuckerkg.cli import ask, classify, data, from_runs, paper, review, run, serving, train
from tuckerkg.cli.hints import HintingCommand

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

PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Train": {
        "demo": train.demo,
        "train": train.train,
        "tune": train.tune,
        "classify": classify.classify,
        "blend": from_runs.blend,
        "refit": from_runs.refit,
    },
    "Ask a run": {
        "predict": ask.predict,
        "score": ask.score,
        "explain": ask.explain,
        "add": run.add,
        "decide": review.decide,
        "decisions": review.decisions,
        "serve": serving.serve,
        "mcp": serving.mcp,
    },
    "Judge a run": {
        "evaluate": run.evaluate,
        "calibrate": from_runs.calibrate,
        "compare": run.compare,
        "report": run.report,
        "export": run.export,
    },
    "Data and settings": {
        "datasets": data.list_datasets,
        "inspect": data.inspect,
        "ingest": data.ingest,
        "pull": data.pull,
        "settings": train.show_settings,
    },
    "The paper": {"reproduce": paper.reproduce, "results": paper.results, "params": paper.params},
}
for panel, verbs in PANELS.items():
    for name, verb in verbs.items():
        app.command(name, cls=HintingCommand, rich_help_panel=panel)(verb)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Handle options that belong to no verb."""
    if version:
        import tuckerkg

        print(tuckerkg.__version__)
        raise typer.Exit
