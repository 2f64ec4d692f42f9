"""The verb for files larger than memory: ingest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tuckerkg.cli.options import (
    AllowLeaksOption,
    ColumnsOption,
    DelimiterOption,
    HeaderOption,
    IntegersOption,
    LiteralsOption,
    OnErrorOption,
    RejectsOption,
    log,
    read_options,
)
from tuckerkg.errors import TuckerkgError


def ingest(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Files of training triples: TSV, CSV, Parquet, N-Triples, N-Quads, text also as .gz; or one folder "
            "with train, valid and test files.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write; it must not exist.")],
    valid: Annotated[list[Path] | None, typer.Option(help="Validation triples. May be repeated.")] = None,
    test: Annotated[list[Path] | None, typer.Option(help="Test triples. May be repeated.")] = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="TRAIN,VALID,TEST",
            help="Hold out shares by a hash of each triple, e.g. 0.98,0.01,0.01; else all files are training, and "
            "`train` splits them as it splits one file.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split.", min=0)] = 0,
    shards: Annotated[
        int, typer.Option(help="How many shards; more of them need less memory each.", min=1, max=1024)
    ] = 64,
    memory: Annotated[str, typer.Option(help="How much memory to use, such as 500MB or 8GB.")] = "2GB",
    threads: Annotated[
        int | None, typer.Option(help="How many threads to use.", min=1, show_default="one per core")
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin again where an unfinished ingest had other files or options.")
    ] = False,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    on_error: OnErrorOption = "stop",
    rejects: RejectsOption = Path("rejected.tsv"),
    keep_literals: LiteralsOption = False,
    integers: IntegersOption = False,
    allow_leaks: AllowLeaksOption = False,
) -> None:
    """Turn files of any size into a folder of integers that is used like any dataset, within a limit of memory.

    Rows are judged and counted as `train` does it. Stopped half-way, it continues when it is called again with the same
    files and options; temporary files lie in DIR.partial and take about as much room as the text.

    Examples: `tuckerkg ingest facts.tsv.gz --out graph --memory 4GB`, then `tuckerkg inspect graph` and `tuckerkg train
    graph`; `tuckerkg ingest part-*.parquet --out graph --split 0.98,0.01,0.01`.
    """
    if threads is not None:
        os.environ.setdefault("POLARS_MAX_THREADS", str(threads))  # read once, when Polars is imported
    from tuckerkg.console import progress_bar
    from tuckerkg.data.ingest.ingest import ingest as run

    options = read_options(columns, delimiter, header, on_error, rejects, keep_literals, integers)
    with progress_bar("ingesting") as progress:
        graph = run(
            files,
            out,
            valid=valid or (),
            test=test or (),
            split=_shares(split),
            seed=seed,
            shards=shards,
            memory=memory,
            threads=threads,
            options=options,
            allow_leaks=allow_leaks,
            restart=restart,
            progress=progress,
            log=log,
        )
    for line in graph.report().lines():
        log(line)
    print(graph.summary())


def _shares(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise TuckerkgError(f"--split {text!r}: three shares were expected, such as 0.98,0.01,0.01") from None
