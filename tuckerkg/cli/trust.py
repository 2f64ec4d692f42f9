"""The verb about probabilities: what they are fitted on, and how far they hold."""

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
    read_options,
)
from tuckerkg.errors import TuckerkgError, printable_json


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
