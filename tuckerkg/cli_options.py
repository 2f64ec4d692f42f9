"""Options that several verbs share, and what they turn into."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tuckerkg.config import Settings
    from tuckerkg.read_options import ReadOptions
    from tuckerkg.run import Run
    from tuckerkg.triples import Dataset

RunArgument = Annotated[
    Path,
    typer.Argument(
        help="A run folder that `tuckerkg train` wrote; RUN@1: before facts were added.", show_default=False
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
UnguardedOption = Annotated[
    bool,
    typer.Option("--unguarded", help="TSV: names that start with = + - @ as they are, without an apostrophe before."),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one setting, e.g. --set train.lr=0.01.")
]

ColumnsOption = Annotated[str | None, typer.Option(help="Head, relation, tail columns: names or numbers, e.g. 1,2,3.")]
DelimiterOption = Annotated[str | None, typer.Option(help="tab, comma, semicolon, space, pipe or a character.")]
HeaderOption = Annotated[bool | None, typer.Option("--header/--no-header", help="The first row names the columns.")]
OnErrorOption = Annotated[str, typer.Option(help="stop, or skip bad rows into a rejects file.")]
RejectsOption = Annotated[Path, typer.Option(help="Where skipped rows go.")]
DropLeaksOption = Annotated[
    bool, typer.Option("--drop-leaks", help="Leave out held-out triples that training gives away.")
]
PairsOption = Annotated[
    bool, typer.Option("--split-by-pairs", help="Split anew: all triples between two entities on one side.")
]
InversesOption = Annotated[
    bool, typer.Option("--join-inverses", help="A relation that is another one turned around becomes that one.")
]


def remedied(dataset: Dataset, *, join: bool, pairs: bool, drop: bool) -> Dataset:
    """The dataset after the remedies that were asked for."""
    from tuckerkg.remedies import drop_leaks, join_inverses, split_by_pairs

    for wanted, remedy in ((join, join_inverses), (pairs, split_by_pairs), (drop, drop_leaks)):
        if wanted:
            dataset = remedy(dataset)
    return dataset


def settings_of(file: str | None, dataset: str | None, named: dict[str, Any], changes: list[str] | None) -> Settings:
    """Settings of a file with options that were named and ``--set`` on top."""
    from tuckerkg.config import load_settings, parse_override

    overrides = {key: value for key, value in {"dataset": dataset, **named}.items() if value is not None}
    overrides.update(parse_override(change) for change in changes or ())
    return load_settings(file, overrides)


def observer(folder: Any = None) -> Any:
    """What a person sees while training; TensorBoard too where the run asks for it."""
    from tuckerkg.progress import Progress, tensorboard

    wanted = folder is not None and folder.settings["train"].get("tensorboard", False)
    return Progress(board=tensorboard(str(folder.path / "tensorboard")) if wanted else None)


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
    columns: str | None, delimiter: str | None, header: bool | None, on_error: str, rejects: Path | None
) -> ReadOptions:
    """What the options of a verb ask of a reader."""
    from tuckerkg.errors import TuckerkgError
    from tuckerkg.read_options import ReadOptions

    policy: Any = on_error
    if on_error not in ("stop", "skip"):
        raise TuckerkgError(f"--on-error is {on_error!r}, expected stop or skip")
    return ReadOptions(
        delimiter=delimiter, header=header, columns=columns_of(columns), on_error=policy, rejects=rejects
    )


def load_run(path: Path, plain: bool = False) -> Run:
    """The run at ``path``, or ``path@version``; what is wrong with a checkpoint is said on standard error."""
    from tuckerkg.run import load

    return load(path, calibrated=not plain, note=lambda text: print(f"tuckerkg: {text}", file=sys.stderr))
