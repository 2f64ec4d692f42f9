"""Verbs about the paper: params, reproduce, results."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from tuckerkg.cli.options import DataOption, JsonOption, SetOption, settings_of, training_progress
from tuckerkg.errors import TuckerkgError


def params(
    dataset: Annotated[str, typer.Argument(help="A dataset's name or path.")] = "countries",
    encoder: Annotated[str, typer.Option(help="tgcn, rgcn, compgcn, sacn or none.")] = "tgcn",
    decoder: Annotated[str, typer.Option(help="tucker, distmult, complex, ...")] = "tucker",
    cp: Annotated[int, typer.Option(help="Number of CP bases n_b; 0 is the full core.", min=0)] = 0,
    dim: Annotated[int, typer.Option(help="Width of entities, d_e.", min=1)] = 100,
    relation_dim: Annotated[int, typer.Option(help="Width of relations, d_r.", min=1)] = 100,
    layers: Annotated[int, typer.Option(help="Layers of the encoder.", min=1)] = 2,
    changes: SetOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count free parameters as the paper does: #EFP of the embeddings, #NFP of the rest, #ENFP of the encoder.

    Example of a model without embeddings: `tuckerkg params umls --set kind=paths --set paths.width=64`.
    """
    from tuckerkg.api import count_parameters
    from tuckerkg.reports import tables

    named = {"model.dim": dim, "model.relation_dim": relation_dim, "encoder": encoder, "decoder": decoder}
    if encoder == "tgcn":
        named |= {"encoder.bases": cp, "encoder.layers": layers}
    settings = settings_of(None, None, named, changes)
    counts = count_parameters(dataset, settings, data)
    if as_json:
        print(json.dumps(counts))
    else:
        tables.show_counts(counts, settings.kind)


def reproduce(
    rows: Annotated[
        list[str] | None,
        typer.Argument(
            help="Rows or tables (question, main, cp, decoder, front, width, rgcn, bases, subgraph, losses, best)."
        ),
    ] = None,
    results: Annotated[Path, typer.Option(help="Where result files are kept.")] = Path("results"),
    runs: Annotated[Path, typer.Option(help="Where run folders are kept; one that was begun is continued.")] = Path(
        "runs"
    ),
    seed: Annotated[
        list[int] | None, typer.Option(help="Of a row's seeds run only these, e.g. one per process; may be repeated.")
    ] = None,
    only_show: Annotated[bool, typer.Option("--show", help="Train nothing, show what is there.")] = False,
    data: DataOption = None,
) -> None:
    """Run the paper's tables: train what is missing, then show paper, ours, difference, minutes, memory, verdict.

    Examples: `tuckerkg reproduce main`, `tuckerkg reproduce wn18rr-tgcn-tucker`, `tuckerkg reproduce --show`.
    """
    from tuckerkg.paper import rows as table
    from tuckerkg.paper.reproduce import outcome
    from tuckerkg.paper.reproduce import reproduce as run_rows
    from tuckerkg.reports import tables

    chosen = table.choose_rows(rows or ())
    missing = set(seed or ()) - {fixed for row in chosen for fixed in row.seeds}
    if missing:
        raise TuckerkgError(f"--seed {min(missing)}: none of these rows has it; seeds are fixed before the runs")
    if only_show:
        outcomes = [outcome(row, results) for row in chosen]
    else:
        outcomes = run_rows(
            table.runnable(chosen),
            results=results,
            runs=runs,
            callback=training_progress,
            data=data,
            log=print,
            only_seeds=seed or (),
        )
    tables.show_outcomes(outcomes)


def results(
    folder: Annotated[Path, typer.Option("--results", help="Where result files are kept.")] = Path("results"),
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("RESULTS.md"),
    readme: Annotated[
        Path | None, typer.Option(help="Also fill the headline table of this file, between its marks.")
    ] = None,
) -> None:
    """Write the page of results: the paper's tables, figures and claims beside ours, from result files alone."""
    from tuckerkg.paper.figures import draw_figures
    from tuckerkg.paper.question_page import Studies
    from tuckerkg.paper.results_page import all_outcomes, bench_lines, headline, page, replace_block

    found, studies = all_outcomes(folder), Studies.read(folder)
    # Refuses before it writes.
    filled = None if readme is None else replace_block(readme, "headline", headline(found, studies))
    figures = draw_figures(found, folder / "figures", studies)
    place = Path(os.path.relpath(folder / "figures", out.resolve().parent))
    text = page(found, [(place / name).as_posix() for name in figures], bench_lines(folder), studies)
    out.write_text(text, encoding="utf-8")
    if readme is not None and filled is not None:
        readme.write_text(filled, encoding="utf-8")
    print(f"{out} and {len(figures)} figures written")
