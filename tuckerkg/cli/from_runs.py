"""The verbs that make something of trained runs: one of several, one on all facts, or fitted probabilities."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tuckerkg.cli.options import (
    CheckpointOption,
    ColumnsOption,
    DelimiterOption,
    HeaderOption,
    IntegersOption,
    JsonOption,
    OnErrorOption,
    PluginOption,
    RejectsOption,
    RunArgument,
    load_run,
    log,
    read_options,
    training_progress,
)
from tuckerkg.errors import TuckerkgError, printable_json
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


def calibrate(
    run: RunArgument,
    positives: Annotated[Path | None, typer.Option(help="A file of facts that are true.", show_default=False)] = None,
    negatives: Annotated[Path | None, typer.Option(help="A file of facts that are not.", show_default=False)] = None,
    as_json: JsonOption = False,
    checkpoint: CheckpointOption = "best",
    plugins: PluginOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    integers: IntegersOption = False,
    on_error: OnErrorOption = "stop",
    rejects: RejectsOption = Path("rejected.tsv"),
) -> None:
    """Fit a run's probabilities again: on facts that you have labelled, or on validation; and show how far they hold.

    They are kept in the run folder. With labelled facts a probability is the share that is true among facts like
    these; without files everything is as it was after training. Example:
    `tuckerkg calibrate runs/mine --positives right.tsv --negatives wrong.tsv`.
    """
    from tuckerkg.console import progress_bar
    from tuckerkg.reports import tables

    if (positives is None) != (negatives is None):
        raise TuckerkgError("labelled facts are needed of both kinds: give --positives and --negatives")
    options = read_options(columns, delimiter, header, on_error, rejects, integers=integers)
    fitted = load_run(run, checkpoint=checkpoint).calibrate(positives, negatives, options)
    if fitted.labelled is not None:
        found = fitted.labelled
        if as_json:
            print(printable_json({"labelled": asdict(found)}))
            return
        print(
            f"fitted on {found.positives:,} facts that are true and {found.negatives:,} that are not: area under the "
            f"curve {found.auc:.3f}; yes and no are right in {found.accuracy:.1%}, {found.unsure:.1%} are unsure"
        )
        print("probabilities are now the share that is true among facts like these; --base-rate gives another share")
        return
    with progress_bar("searching missing facts") as progress:
        trust = fitted.trust(progress)
    if as_json:
        print(printable_json({"trust": trust.as_dict()}))
    else:
        tables.show_first(trust)
