"""Verbs for studies: count parameters, search settings, run the paper's tables, write the page of results."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tuckerkg.cli_options import (
    ColumnsOption,
    DataOption,
    DropLeaksOption,
    InversesOption,
    JsonOption,
    PairsOption,
    SetOption,
    observer,
    remedied,
    settings_of,
)
from tuckerkg.errors import TuckerkgError, printable_json


def params(
    dataset: Annotated[str, typer.Argument(help="A dataset's name or path.")] = "countries",
    encoder: Annotated[str, typer.Option(help="tgcn, rgcn, compgcn, sacn or none.")] = "tgcn",
    decoder: Annotated[str, typer.Option(help="tucker, distmult, complex, ...")] = "tucker",
    cp: Annotated[int, typer.Option(help="Number of CP bases n_b; 0 is the full core.", min=0)] = 0,
    dim: Annotated[int, typer.Option(help="Width of entities, d_e.", min=1)] = 100,
    relation_dim: Annotated[int, typer.Option(help="Width of relations, d_r.", min=1)] = 100,
    layers: Annotated[int, typer.Option(help="Layers of the encoder.", min=1)] = 2,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count free parameters as the paper does: #EFP of the embeddings, #NFP of the rest, #ENFP of the encoder."""
    from tuckerkg import api, show

    named = {"model.dim": dim, "model.relation_dim": relation_dim, "encoder": encoder, "decoder": decoder}
    if encoder == "tgcn":
        named |= {"encoder.bases": cp, "encoder.layers": layers}
    counts = api.count_parameters(dataset, settings_of(None, None, named, None), data)
    if as_json:
        print(json.dumps(counts))
    else:
        show.show_counts(counts)


def inspect(
    dataset: Annotated[str, typer.Argument(help="A dataset's name, a file, a folder or an archive.")],
    settings: Annotated[
        str | None, typer.Option("-s", "--settings", help="Say how long training with these settings takes here.")
    ] = None,
    relations: Annotated[int, typer.Option(help="How many relations to show, those with most triples.", min=0)] = 20,
    columns: ColumnsOption = None,
    changes: SetOption = None,
    data: DataOption = None,
    drop_leaks: DropLeaksOption = False,
    split_by_pairs: PairsOption = False,
    join_inverses: InversesOption = False,
    html: Annotated[Path | None, typer.Option(help="Also write it as a page with pictures to this .html.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Look at a graph before training: relations, leaks between splits, what guessing would score, how long it takes.

    Examples: `tuckerkg inspect my.tsv`, `tuckerkg inspect my.tsv --html my.html`, `tuckerkg inspect wn18rr --json`.
    """
    from tuckerkg import datasets, show
    from tuckerkg.cli_options import columns_of
    from tuckerkg.examine import examine
    from tuckerkg.read_options import ReadOptions
    from tuckerkg.report_page import check_page, write_examination

    if html is not None:
        if html.suffix.lower() != ".html":
            raise TuckerkgError(f"--html {html}: the name must end in .html")
        check_page(html)
    options = ReadOptions(columns=columns_of(columns))
    read = datasets.load(dataset, data=data, options=options, allow_leaks=True)
    read = remedied(read, join=join_inverses, pairs=split_by_pairs, drop=drop_leaks)
    found = examine(read, settings_of(settings, None, {}, changes))
    if as_json:
        print(printable_json(found.as_dict()))
    else:
        show.show_examination(found, relations)
    if html is not None:
        write_examination(found, html)
        print(f"{html} written", file=sys.stderr)


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; the first is what the others are held against.")],
    split: Annotated[str, typer.Option(help="test, valid or train.")] = "test",
    relations: Annotated[int, typer.Option(help="How many relations to show, those with most questions.", min=0)] = 10,
    plot: Annotated[Path | None, typer.Option(help="Also draw the comparison into this PNG or SVG file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Hold runs against each other: metrics, a paired bootstrap, MRR by relation and by degree.

    Refuses runs that were not asked the same questions in the same way.
    Example: `tuckerkg compare runs/a runs/b --plot compared.png`.
    """
    from tuckerkg import show
    from tuckerkg.compare import compare as hold
    from tuckerkg.compare_plot import draw_comparison
    from tuckerkg.plots import check_plot
    from tuckerkg.run import load

    if plot is not None:
        check_plot(plot)
    found = hold([load(folder) for folder in runs], split, told=lambda text: print(text, file=sys.stderr))
    if as_json:
        print(printable_json(found.as_dict()))
    else:
        show.show_comparison(found, relations)
    if plot is not None:
        draw_comparison(found, plot)
        print(f"{plot} written", file=sys.stderr)


def tune(
    experiment: Annotated[str, typer.Argument(help="A TOML file or a shipped experiment to vary.", show_default=False)],
    space: Annotated[str, typer.Option(help="What to vary: a TOML file, or `tucker`, or `paper` (its own grid).")],
    trials: Annotated[int, typer.Option(help="Stop when the study has so many finished trials.", min=1)] = 20,
    minutes: Annotated[float | None, typer.Option(help="Begin no trial after so many minutes.")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where the study is kept [default: studies/<experiment>-<space>].")
    ] = None,
    changes: SetOption = None,
    data: DataOption = None,
) -> None:
    """Search for settings on the validation split with Optuna. Ctrl-C saves; the same command goes on.

    The test split is not opened. Weak trials are stopped early. Several processes may work on one folder.
    Example: `tuckerkg tune fb15k-237-tgcn-tucker --space tucker --set train.epochs=8.0 --trials 30`.
    """
    from tuckerkg import datasets, show
    from tuckerkg.config import load_settings, parse_override
    from tuckerkg.spaces import load_space
    from tuckerkg.tune import Search

    chosen, fixed = load_space(space), dict(parse_override(change) for change in changes or ())
    place = folder or Path("studies") / f"{Path(experiment).stem}-{chosen.name}"
    dataset = datasets.load(load_settings(experiment, {**chosen.fixed, **fixed}).dataset, data=data)
    search = Search(experiment, chosen, dataset, place, fixed)
    found = search.run(trials, minutes, told=show.show_trial, observer=observer)
    show.show_trials(found, place)


def reproduce(
    rows: Annotated[
        list[str] | None,
        typer.Argument(help="Rows or tables (main, cp, decoder, front, width, rgcn, bases, subgraph, losses, best)."),
    ] = None,
    results: Annotated[Path, typer.Option(help="Where result files are kept.")] = Path("results"),
    runs: Annotated[Path, typer.Option(help="Where run folders are kept; a run that was begun goes on.")] = Path(
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
    from tuckerkg import paper, show
    from tuckerkg.reproduce import outcome
    from tuckerkg.reproduce import reproduce as run_rows

    chosen = paper.choose_rows(rows or ())
    missing = set(seed or ()) - {fixed for row in chosen for fixed in row.seeds}
    if missing:
        raise TuckerkgError(f"--seed {min(missing)}: none of these rows has it; seeds are fixed before the runs")
    if only_show:
        outcomes = [outcome(row, results) for row in chosen]
    else:
        outcomes = run_rows(
            paper.runnable(chosen),
            results=results,
            runs=runs,
            observer=observer,
            data=data,
            told=print,
            only_seeds=seed or (),
        )
    show.show_outcomes(outcomes)


def results(
    folder: Annotated[Path, typer.Option("--results", help="Where result files are kept.")] = Path("results"),
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("RESULTS.md"),
    readme: Annotated[
        Path | None, typer.Option(help="Also fill the headline table of this file, between its marks.")
    ] = None,
) -> None:
    """Write the page of results: the paper's tables, figures and claims beside ours, from result files alone."""
    from tuckerkg.figures import draw_figures
    from tuckerkg.results_page import all_outcomes, bench_lines, headline, page, replace_block

    found = all_outcomes(folder)
    filled = None if readme is None else replace_block(readme, "headline", headline(found))  # refuses before it writes
    figures = draw_figures(found, folder / "figures")
    place = Path(os.path.relpath(folder / "figures", out.resolve().parent))
    text = page(found, [(place / name).as_posix() for name in figures], bench_lines(folder))
    out.write_text(text, encoding="utf-8")
    if readme is not None and filled is not None:
        readme.write_text(filled, encoding="utf-8")
    print(f"{out} and {len(figures)} figures written")
