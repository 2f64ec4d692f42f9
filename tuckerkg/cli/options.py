"""Options that several verbs share, and what they turn into."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tuckerkg.config.settings import Settings
    from tuckerkg.data.dataset import Dataset
    from tuckerkg.data.readers.options import ReadOptions
    from tuckerkg.inference.run import Run
    from tuckerkg.training.callbacks import Callback

from tuckerkg.types import JsonObject


def _load_plugins(sources: list[str] | None) -> list[str] | None:
    """Import the modules while the command line is read, so that every later name is known."""
    if sources:
        from tuckerkg.config.registry import load_plugin

        for source in sources:
            load_plugin(source)
    return sources


READING = "Reading files"

RunArgument = Annotated[
    Path,
    typer.Argument(
        help="A run folder that `tuckerkg train` wrote; RUN@1: before facts were added.", show_default=False
    ),
]
PluginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="MODULE",
        callback=_load_plugins,
        is_eager=True,
        help="Import your own encoders, decoders or losses: a module or a .py file. May be repeated.",
    ),
]
CheckpointOption = Annotated[
    str, typer.Option(metavar="STEP", help="Which weights to use: best, newest or the number of a step.")
]
GraphOption = Annotated[
    str | None,
    typer.Option(
        "--graph",
        metavar="NAME_OR_PATH",
        help="Answer for this graph, which the run was not trained on: other entities, the same relations.",
    ),
]
IndexOption = Annotated[
    bool | None,
    typer.Option(
        "--index/--no-index",
        help="Let an index propose answers instead of scoring every entity (faiss). By default from ten million on.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Folder with datasets by name; else TUCKERKG_DATA, the cache, then download."),
]
PlainOption = Annotated[
    bool, typer.Option("--plain-sigmoid", help="Probability as the score's sigmoid, not fitted on validation.")
]
BaseRateOption = Annotated[
    float | None,
    typer.Option(
        help="The share of all facts that you think is missing, such as 0.3; else as many as were held out.",
        show_default=False,
    ),
]
AskingRanksOption = Annotated[
    int | None,
    typer.Option(
        "--ranks",
        help="Ask with so many processes here, each with a part of the entity table; see the page on ranks.",
        min=1,
        show_default=False,
    ),
]
TimeoutOption = Annotated[float, typer.Option(help="On ranks: seconds to wait for one that does not answer.", min=1.0)]
UnguardedOption = Annotated[
    bool,
    typer.Option("--unguarded", help="TSV: names that start with = + - @ as they are, without an apostrophe before."),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one setting, e.g. --set train.lr=0.01.")
]
SettingsOption = Annotated[
    str | None, typer.Option("--settings", "-s", help="A TOML file, or the name of a shipped experiment.")
]

ColumnsOption = Annotated[
    str | None,
    typer.Option(help="Head, relation, tail columns: names or numbers, e.g. 1,2,3.", rich_help_panel=READING),
]
DelimiterOption = Annotated[
    str | None, typer.Option(help="tab, comma, semicolon, space, pipe or a character.", rich_help_panel=READING)
]
HeaderOption = Annotated[
    bool | None, typer.Option("--header/--no-header", help="The first row names the columns.", rich_help_panel=READING)
]
OnErrorOption = Annotated[
    str, typer.Option(help="stop, or skip bad rows into a rejects file.", rich_help_panel=READING)
]
RejectsOption = Annotated[Path, typer.Option(help="Where skipped rows go.", rich_help_panel=READING)]
LiteralsOption = Annotated[
    bool, typer.Option("--keep-literals", help="RDF: literals are entities too.", rich_help_panel=READING)
]
IntegersOption = Annotated[
    bool, typer.Option("--integers", help="Parquet: whole numbers are names.", rich_help_panel=READING)
]
AllowLeaksOption = Annotated[
    bool, typer.Option("--allow-leaks", help="Accept triples that occur in two splits.", rich_help_panel=READING)
]
EntityNamesOption = Annotated[
    Path | None,
    typer.Option(help="Readable names of entities: a label, a tab and the name a line.", rich_help_panel=READING),
]
RelationNamesOption = Annotated[
    Path | None, typer.Option(help="Readable names of relations, in the same form.", rich_help_panel=READING)
]
DropLeaksOption = Annotated[
    bool,
    typer.Option("--drop-leaks", help="Leave out held-out triples that training gives away.", rich_help_panel=READING),
]
PairsOption = Annotated[
    bool,
    typer.Option(
        "--split-by-pairs",
        help="Split again, with all triples between two entities on one side.",
        rich_help_panel=READING,
    ),
]
InversesOption = Annotated[
    bool,
    typer.Option(
        "--join-inverses",
        help="Keep facts once that stand under two relations inverse to each other.",
        rich_help_panel=READING,
    ),
]
DuplicatesOption = Annotated[
    bool,
    typer.Option(
        "--join-duplicates",
        help="Keep facts once that stand under two relations that are the same.",
        rich_help_panel=READING,
    ),
]

UserOption = Annotated[
    str | None,
    typer.Option(help="Who signs in to the store; the password is read from TUCKERKG_STORE_PASSWORD."),
]
StoreGraphOption = Annotated[
    str | None, typer.Option(help="SPARQL: the IRI of a named graph. Neo4j: the name of a database.")
]
KeyOption = Annotated[str, typer.Option(help="Neo4j: the property that names a node.")]
NodeLabelOption = Annotated[
    str | None, typer.Option(help="Neo4j: nodes with this label alone; an index on the key is then used.")
]


def log(text: str) -> None:
    """Print a line for the user on standard error."""
    print(text, file=sys.stderr, flush=True)


def remedied(dataset: Dataset, *, inverses: bool, duplicates: bool, pairs: bool, drop: bool) -> Dataset:
    """Apply the remedies that were asked for."""
    from tuckerkg.data.leaks.held_out import drop_leaks, split_by_pairs
    from tuckerkg.data.leaks.joining import join_duplicates, join_inverses

    for wanted, remedy in (
        (inverses, join_inverses),
        (duplicates, join_duplicates),
        (pairs, split_by_pairs),
        (drop, drop_leaks),
    ):
        if wanted:
            dataset = remedy(dataset)
    return dataset


def settings_of(file: str | None, dataset: str | None, named: JsonObject, changes: list[str] | None) -> Settings:
    """Settings of a file with named options and ``--set`` on top."""
    from tuckerkg.config.toml import load_settings, parse_override

    overrides = {key: value for key, value in {"dataset": dataset, **named}.items() if value is not None}
    overrides.update(parse_override(change) for change in changes or ())
    return load_settings(file, overrides)


def training_progress(tensorboard_folder: Path | None = None) -> Callback:
    """What a user sees while training; TensorBoard too where a folder is given."""
    from tuckerkg.training.progress import Progress, tensorboard

    return Progress(board=None if tensorboard_folder is None else tensorboard(str(tensorboard_folder)))


def columns_of(text: str | None) -> Any:
    """``--columns`` as names or numbers of head, relation and tail."""
    from tuckerkg.errors import TuckerkgError

    if text is None:
        return None
    chosen = tuple(int(part) if part.strip().isdigit() else part.strip() for part in text.split(","))
    if len(chosen) != 3:
        raise TuckerkgError(f"--columns names {len(chosen)} columns, expected head,relation,tail")
    return chosen


def read_options(
    columns: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    on_error: str = "stop",
    rejects: Path | None = None,
    keep_literals: bool = False,
    integers: bool = False,
) -> ReadOptions:
    """What the options of a verb ask of a reader."""
    from tuckerkg.data.readers.options import ReadOptions
    from tuckerkg.errors import TuckerkgError

    policy: Any = on_error
    if on_error not in ("stop", "skip"):
        raise TuckerkgError(f"--on-error is {on_error!r}, expected stop or skip")
    return ReadOptions(
        delimiter=delimiter,
        header=header,
        columns=columns_of(columns),
        on_error=policy,
        rejects=rejects,
        keep_literals=keep_literals,
        integers=integers,
    )


def graph_options(graph: str | None, *given: Any) -> ReadOptions:
    """How to read the files of ``--graph``: what ``read_options`` takes; refuses it where there is no graph."""
    from tuckerkg.data.readers.options import ReadOptions
    from tuckerkg.errors import TuckerkgError

    options = read_options(*given)
    if graph is None and replace(options, rejects=None) != ReadOptions():
        raise TuckerkgError(
            "--columns, --delimiter, --header, --integers, --keep-literals and --on-error are for the files of "
            "--graph: give that too"
        )
    return options


def load_graph(
    name: str,
    data: Path | None,
    options: ReadOptions,
    allow_leaks: bool,
    entity_names: Path | None,
    relation_names: Path | None,
) -> Dataset:
    """Read a graph by name or path; a bar is drawn where it is downloaded."""
    from tuckerkg.console import progress_bar
    from tuckerkg.data.load import load

    with progress_bar("downloading") as progress:
        return load(
            name,
            data,
            options=options,
            allow_leaks=allow_leaks,
            entity_titles=entity_names,
            relation_titles=relation_names,
            progress=progress,
        )


def load_run(
    path: Path,
    plain: bool = False,
    checkpoint: str = "best",
    graph: str | None = None,
    base_rate: float | None = None,
    options: ReadOptions | None = None,
    mapped: bool | None = None,
) -> Run:
    """Open the run at ``path``, or ``path@version``; to answer for ``graph``, where one is given.

    ``options`` say how to read that, ``mapped`` is that of ``tuckerkg.load``.
    """
    from tuckerkg.inference.run import load

    run = load(path, calibrated=not plain, checkpoint=checkpoint_of(checkpoint), mapped=mapped)
    run = run if graph is None else run.on(graph, options)
    return run if base_rate is None else run.at_base_rate(base_rate)


def checkpoint_of(text: str) -> Any:
    """What ``--checkpoint`` means."""
    from tuckerkg.errors import TuckerkgError

    if text not in ("best", "newest") and not text.isdigit():
        raise TuckerkgError(f"--checkpoint is {text!r}, expected best, newest or the number of a step")
    return int(text) if text.isdigit() else text


def with_index(run: Run, wanted: bool | None) -> Run:
    """The run with an index where that is wanted, or nothing is said and its entities are very many; says so."""
    from tuckerkg.errors import TuckerkgError
    from tuckerkg.inference.index.of_run import is_large

    if wanted is False or (wanted is None and not is_large(run)):
        return run
    try:
        found = run.indexed()
    except TuckerkgError:
        if wanted:
            raise
        return run
    if found.index is not None:
        log(str(found.index.quality))
    return found
