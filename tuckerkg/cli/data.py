"""Verbs about data: datasets, inspect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tuckerkg.cli.options import (
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
    LiteralsOption,
    OnErrorOption,
    PairsOption,
    PluginOption,
    RejectsOption,
    RelationNamesOption,
    SetOption,
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
