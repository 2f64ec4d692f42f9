"""Verbs about data: datasets, inspect, ingest, pull."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from tuckerkg.cli.options import (
    AllowLeaksOption,
    ColumnsOption,
    DataOption,
    DelimiterOption,
    DropLeaksOption,
    DuplicatesOption,
    EntityNamesOption,
    HeaderOption,
    IntegersOption,
    InversesOption,
    JsonOption,
    KeyOption,
    LiteralsOption,
    NodeLabelOption,
    OnErrorOption,
    PairsOption,
    PluginOption,
    RejectsOption,
    RelationNamesOption,
    SetOption,
    StoreGraphOption,
    UserOption,
    load_graph,
    log,
    read_options,
    remedied,
    settings_of,
)
from tuckerkg.errors import TuckerkgError, printable_json


def list_datasets(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the datasets that can be used by name, with their counts and where each was found."""
    from dataclasses import asdict

    from tuckerkg.data.load import available
    from tuckerkg.reports import tables

    rows = available(data)
    if as_json:
        print(json.dumps([asdict(row) for row in rows], indent=2, default=str))
    else:
        tables.show_datasets(rows)


def inspect(
    dataset: Annotated[str, typer.Argument(help="A dataset's name, a file, a folder or an archive.")],
    settings: Annotated[
        str | None, typer.Option("-s", "--settings", help="Say how long training with these settings takes here.")
    ] = None,
    relations: Annotated[int, typer.Option(help="How many relations to show, those with most triples.", min=0)] = 20,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    on_error: OnErrorOption = "stop",
    rejects: RejectsOption = Path("rejected.tsv"),
    keep_literals: LiteralsOption = False,
    integers: IntegersOption = False,
    entity_names: EntityNamesOption = None,
    relation_names: RelationNamesOption = None,
    changes: SetOption = None,
    plugins: PluginOption = None,
    data: DataOption = None,
    drop_leaks: DropLeaksOption = False,
    split_by_pairs: PairsOption = False,
    join_inverses: InversesOption = False,
    join_duplicates: DuplicatesOption = False,
    html: Annotated[Path | None, typer.Option(help="Also write it as a page with pictures to this .html.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Inspect a graph before training: relations, leaks between splits, a baseline, and how long training takes.

    Examples: `tuckerkg inspect my.tsv`, `tuckerkg inspect my.tsv --html my.html`, `tuckerkg inspect wn18rr --json`.
    """
    from tuckerkg.data.labels import Labels
    from tuckerkg.reports import tables
    from tuckerkg.reports.html import check_page, write_inspection
    from tuckerkg.reports.inspection import inspect_dataset

    if html is not None:
        if html.suffix.lower() != ".html":
            raise TuckerkgError(f"--html {html}: the name must end in .html")
        check_page(html)
    options = read_options(columns, delimiter, header, on_error, rejects, keep_literals, integers)
    read = load_graph(dataset, data, options, True, entity_names, relation_names)
    read = remedied(read, inverses=join_inverses, duplicates=join_duplicates, pairs=split_by_pairs, drop=drop_leaks)
    found = inspect_dataset(read, settings_of(settings, None, {}, changes))
    if as_json:
        print(printable_json(found.as_dict()))
    else:
        names = Labels("relation", read.relations.labels, read.relation_titles).short_names()
        tables.show_inspection(found, relations, names)
    if html is not None:
        write_inspection(found, html)
        log(f"{html} written")


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


def pull(
    address: Annotated[str, typer.Argument(help="A SPARQL endpoint, https://host/sparql, or Neo4j, bolt://host:7687.")],
    out: Annotated[Path, typer.Option(help="The file to write: .nt of an endpoint, .tsv or .parquet of Neo4j.")],
    user: UserOption = None,
    graph: StoreGraphOption = None,
    page: Annotated[int, typer.Option(help="Statements of one answer of an endpoint.", min=1)] = 10_000,
    key: KeyOption = "name",
    title: Annotated[
        str | None, typer.Option(help="Neo4j: the property that people read; it goes to OUT.names.tsv.")
    ] = None,
    node_label: NodeLabelOption = None,
) -> None:
    """Read a graph out of the store where it lives, page by page, into a file that every verb takes.

    An endpoint is read subject by subject, and continues where it was interrupted; statements with blank nodes, which
    have no lasting names, are left out and counted. The password of --user is read from TUCKERKG_STORE_PASSWORD.

    Examples: `tuckerkg pull https://example.org/sparql --out graph.nt`, then `tuckerkg train graph.nt`; `tuckerkg pull
    bolt://localhost:7687 --user neo4j --key id --title name --out graph.tsv`.
    """
    from tuckerkg.console import progress_bar
    from tuckerkg.stores.address import parse_address
    from tuckerkg.stores.neo4j import Database, Naming
    from tuckerkg.stores.pulling import pull_neo4j, pull_sparql
    from tuckerkg.stores.sparql import Endpoint

    store = parse_address(address, user)
    with progress_bar("reading") as progress:
        if store.kind == "sparql":
            pulled = pull_sparql(Endpoint(store, graph, page), out, progress)
        else:
            pulled = pull_neo4j(Database(store, graph, Naming(key, title, node_label)), out, progress)
    print(f"{pulled.facts:,} facts written to {out}")
    if pulled.left_out:
        log(f"warning: {pulled.left_out:,} statements with blank nodes were left out")
    if pulled.names is not None:
        log(f"readable names are in {pulled.names}: give --entity-names {pulled.names} to the verb that reads {out}")


def _shares(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise TuckerkgError(f"--split {text!r}: three shares were expected, such as 0.98,0.01,0.01") from None
