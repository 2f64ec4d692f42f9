"""Ranks on the command line: started here, or by ``torchrun``; the first one reads, prepares and reports."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tuckerkg.errors import TuckerkgError

if TYPE_CHECKING:
    from tuckerkg.config.settings import Settings
    from tuckerkg.data.shards import ShardedGraph
    from tuckerkg.inference.run import Run
    from tuckerkg.ranks.group import Group
    from tuckerkg.storage.run_folder import RunFolder
    from tuckerkg.training.callbacks import Callback


def is_left_to_ranks(ranks: int | None, timeout: float) -> bool:
    """Start ranks where several are asked for, and follow the first one on the others."""
    from tuckerkg.ranks.group import is_started_for_ranks, rank_of_process
    from tuckerkg.ranks.launch import launch

    if not is_started_for_ranks():
        if ranks is not None and ranks > 1:
            raise typer.Exit(launch(ranks, sys.argv[1:]))
        return False
    if rank_of_process():
        _follow(timeout)
        return True
    return False


def _follow(timeout: float) -> None:
    """Train the run that the first rank trains; it tells everything."""
    from tuckerkg.ranks.loop import fit_on_ranks
    from tuckerkg.training.signals import TrainingInterrupted

    try:
        fit_on_ranks(None, timeout=timeout)
    except TrainingInterrupted as error:
        raise typer.Exit(error.exit_code) from None


def graph_in_shards(settings: Settings, ranks: int | None) -> ShardedGraph | None:
    """The folder of shards that ranks are to train on without any of them reading it all."""
    from tuckerkg.data.shards import ShardedGraph, is_sharded
    from tuckerkg.ranks.group import is_started_for_ranks

    reads_shards = settings.kind == "embedding" or bool(settings.ranks.fanout)
    on_ranks = reads_shards and (ranks is not None or is_started_for_ranks())
    return ShardedGraph(Path(settings.dataset)) if on_ranks and is_sharded(Path(settings.dataset)) else None


def refuse_in_shards(*given: object) -> None:
    """Refuse options that need the whole graph in one process."""
    if any(given):
        raise TuckerkgError(
            "a folder of shards is trained on ranks as it is: leave out --minutes and options that change the graph or "
            "its names"
        )


def train_in_shards(folder: RunFolder, callback: Callback, timeout: float, *, alone: bool) -> None:
    """Train a run whose facts lie in shards and say what came of it; no process opens it as a whole.

    Args:
        alone: whether nothing else is asked for.
    """
    from tuckerkg import api

    if not alone:
        raise TuckerkgError(
            "a run whose facts lie in shards is trained only: leave out --result, --refit and --tensorboard"
        )
    trained = api.train_to_end(folder, callback, log=print, timeout=timeout)
    step = trained.checkpoints.best_step()
    rows = [row for row in trained.metrics.rows() if row["step"] == step and row["valid"]]
    found = f"best validation MRR {rows[-1]['valid']['mrr']:.4f} at step {step:,}; " if rows else ""
    print(f"{found}saved in {trained.path}\nnext: tuckerkg evaluate {trained.path}")


def in_shards(
    changes: list[str] | None, ranks: int | None, one_model: bool, graph: ShardedGraph | None = None
) -> list[str] | None:
    """On ranks, with a number of shards: a power of two, no fewer than there are ranks, where nothing else is said."""
    from tuckerkg.ranks.group import is_started_for_ranks
    from tuckerkg.ranks.partition import SHARDS

    if ranks is None and not is_started_for_ranks():
        return changes
    if not one_model:
        raise TuckerkgError(
            "--ranks trains one run of a model that you choose, for instance --encoder none --decoder tucker; "
            "without --seeds, several --seed or --refit"
        )
    given = list(changes or ())
    if any(change.startswith("ranks.shards=") for change in given):
        return given
    size = int(os.environ.get("WORLD_SIZE") or 1)
    if graph is not None:
        return [*given, f"ranks.shards={graph.num_shards}"]
    return [*given, f"ranks.shards={max(SHARDS, 1 << (size - 1).bit_length())}"]


@contextmanager
def asking(ranks: int | None, timeout: float, **refused: object) -> Iterator[Group | None]:
    """The ranks that ask a run together; None where one process asks it in one piece.

    Ranks but the first are silent, unless they alone know what is wrong.

    Args:
        ranks: to be started here; the program ends with them.
        timeout: seconds that a rank waits for the others.
        refused: options that are not for ranks, with what was given for each; none of it may be true.
    """
    from tuckerkg.ranks.group import RankLostError, is_started_for_ranks, joined
    from tuckerkg.ranks.launch import launch

    if ranks is None and not is_started_for_ranks():
        yield None
        return
    given = [f"--{name.replace('_', '-')}" for name, value in refused.items() if value]
    if given:
        raise TuckerkgError(f"{', '.join(given)}: not on ranks; leave out either that or --ranks")
    if ranks is not None and ranks > 1 and not is_started_for_ranks():
        raise typer.Exit(launch(ranks, sys.argv[1:]))
    with joined(timeout) as group:
        if not group.is_first:
            logging.getLogger("tuckerkg").setLevel(logging.ERROR)
        try:
            yield group
        except RankLostError:
            raise
        except TuckerkgError:  # every rank found the same, and leaves with the others
            group.leave()
            if group.is_first:
                raise
            sys.exit(2)  # the first one says it


def is_shown(group: Group | None) -> bool:
    """Whether this process shows and writes what was found."""
    return group is None or group.is_first


def open_on_ranks(group: Group, run: Path, checkpoint: str, plain: bool = False, base_rate: float | None = None) -> Run:
    """The run at ``run``, of which every rank holds its shards."""
    import torch

    from tuckerkg.cli.options import checkpoint_of
    from tuckerkg.inference.on_ranks.run import load_on_ranks

    loaded = load_on_ranks(run, group, calibrated=not plain, checkpoint=checkpoint_of(checkpoint))
    if threads := loaded.settings.train.threads or int(group.size > 1):
        torch.set_num_threads(threads)
    return loaded if base_rate is None else loaded.at_base_rate(base_rate)
