"""Training in one call: read, train, return a run that can be evaluated and asked."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tuckerkg.automatic import choose_and_train
from tuckerkg.config.build import build_model, build_objective
from tuckerkg.config.registry import register
from tuckerkg.config.settings import Settings, settings_of_run
from tuckerkg.config.toml import load_settings
from tuckerkg.data.catalogue import KNOWN, canonical_name
from tuckerkg.data.dataset import Dataset
from tuckerkg.data.load import load as load_dataset
from tuckerkg.data.load import read_dataset
from tuckerkg.data.shards import ShardedGraph
from tuckerkg.errors import SettingsError, TuckerkgError
from tuckerkg.inference.run import Run
from tuckerkg.inference.run import load as load_run
from tuckerkg.inference.runs import Runs
from tuckerkg.nn.model import Model
from tuckerkg.ranks.group import TIMEOUT, Group, is_started_for_ranks
from tuckerkg.ranks.loop import fit_on_ranks
from tuckerkg.ranks.partition import Partition
from tuckerkg.refitting import (
    check_refit,
    complete_blend,
    knows_everything,
    prepare_refit,
    started_from,
    unfinished_members,
    without_validation,
)
from tuckerkg.review.carrying import with_decisions
from tuckerkg.storage.run_folder import RunFolder, check_place, is_run
from tuckerkg.training.callbacks import Callback
from tuckerkg.training.loop import fit
from tuckerkg.training.warm_start import warm_start
from tuckerkg.types import JsonObject, LogFunction, ignore


def train(  # noqa: PLR0913  (what may be asked for, by keyword only)
    dataset: Any = "countries",
    *,
    out: str | Path | None = None,
    encoder: Any = None,
    decoder: Any = None,
    loss: Any = None,
    epochs: float | None = None,
    lr: float | None = None,
    seed: int | None = None,
    settings: str | Path | Settings | None = None,
    overrides: Mapping[str, Any] | None = None,
    data: str | Path | None = None,
    callback: Callback | None = None,
    start: str | Path | None = None,
    minutes: float | None = None,
    log: LogFunction = ignore,
    refit: bool = False,
    decisions: str | Path | None = None,
) -> Run:
    """Train on a dataset.

    Without a model or a setting, the program chooses what suits the graph, on its validation split: messages from the
    question, embeddings, or a blend of both (``automatic.py``).

    Args:
        dataset: a dataset's name, a path, a ``Dataset``, a list or array of triples, a pandas or Polars frame, a
            NetworkX graph, or an object with edge_index and edge_type (``Dataset.from_*`` has options for these).
        out: the run folder to write. None: a temporary one, removed together with the run; ``Run.save`` keeps it.
        encoder, decoder, loss: a name, a class or an instance.
        epochs, lr, seed: the settings ``train.epochs``, ``train.lr`` and ``train.seed``.
        settings: a TOML file, a shipped experiment's name, or ``Settings``.
        overrides: dotted settings on top, such as ``{"encoder.layers": 1}``.
        data: a folder with datasets by name.
        callback: called along the way; None draws a progress bar.
        start: a run folder whose best weights to start from, for instance that of the decoder alone.
        minutes: how long it may take, where the program chooses.
        log: called with what the program decides, and why.
        refit: train once more on all facts when done, see ``refit``, into ``out`` with ``-refit`` behind, and give
            that run; where nothing was held out, it is trained on all facts already.
        decisions: a run folder about whose facts people decided: accepted ones join training, and all decisions are
            kept beside the new run, so that none is asked again.

    Raises:
        TuckerkgError: anything that a user can mend, in words.
    """
    if decisions is not None:
        carried = with_decisions(read_dataset(dataset, data), Path(decisions))
        run = train(
            carried.dataset, out=out, encoder=encoder, decoder=decoder, loss=loss, epochs=epochs, lr=lr, seed=seed,
            settings=settings, overrides=overrides, callback=callback, start=start, minutes=minutes, log=log,
            refit=refit,
        )  # fmt: skip
        carried.keep(run.path)
        return run
    read = read_dataset(dataset, data)
    chosen_by_hand = (encoder, decoder, loss, epochs, lr, settings, overrides, start)
    if all(choice is None for choice in chosen_by_hand):
        return _kept(
            lambda place: train_automatically(read, place, minutes=minutes, seed=seed or 0, callback=callback, log=log),
            out,
            callback,
            refit,
        )
    if minutes is not None:
        raise SettingsError("minutes bounds what the program chooses: leave out models and settings, or set epochs")
    named = {"encoder": encoder, "decoder": decoder, "loss": loss}
    chosen = _settings(
        read.name, settings, {**_by_name(named), "train.epochs": epochs, "train.lr": lr, "train.seed": seed}, overrides
    )
    if start is not None:
        RunFolder.open(Path(start))  # refused before anything is written
        chosen = chosen.model_copy(update={"start": chosen.start.model_copy(update={"run": str(start)})})
    return _kept(lambda place: resume(prepare(read, chosen, place), callback, data), out, callback, refit)


def _kept(make: Callable[[Path], Run], out: str | Path | None, callback: Callback | None, refit: bool) -> Run:
    """The run that ``make`` writes into ``out``, or into a temporary folder that is removed together with the run."""
    place = Path(tempfile.mkdtemp(prefix="tuckerkg-")) / "run" if out is None else Path(out)
    try:
        if refit:
            check_place(refit_place(place))  # before time is spent on training
        run = make(place)
        if refit and not knows_everything(run):
            run = refit_run(run, out=refit_place(place), callback=callback)
    except BaseException:
        if out is None:
            shutil.rmtree(place.parent, ignore_errors=True)
        raise
    if out is None:
        weakref.finalize(run, shutil.rmtree, place.parent, ignore_errors=True)
    return run


def train_automatically(
    dataset: Dataset,
    out: str | Path,
    *,
    minutes: float | None = None,
    seed: int = 0,
    callback: Callback | None = None,
    log: LogFunction = ignore,
) -> Run:
    """Train what suits ``dataset``, as ``choose_and_train`` decides; the arguments are those of ``train``."""

    def train_one(settings: Settings, place: Path) -> Run:
        return resume(RunFolder.open(place) if is_run(place) else prepare(dataset, settings, place), callback, log=log)

    return choose_and_train(dataset, Path(out), train_one, minutes=minutes, seed=seed, log=log)


def train_seeds(
    dataset: Any = "countries", *, seeds: Sequence[int] = (0, 1, 2), out: str | Path | None = None, **options: Any
) -> Runs:
    """Train once per seed; ``options`` are those of ``train``.

    Args:
        out: where the run folders go, one ``seed<k>`` each.

    Returns:
        The runs; ``summary()`` has mean and deviation of their metrics.
    """
    if "seed" in options or not seeds:
        raise SettingsError("train_seeds takes seeds=(0, 1, 2), one number or more, and no seed")
    read = read_dataset(dataset, options.pop("data", None))
    places = [None if out is None else Path(out) / f"seed{seed}" for seed in seeds]
    return Runs(train(read, seed=seed, out=place, **options) for seed, place in zip(seeds, places, strict=True))


def prepare(dataset: Dataset, settings: Settings, out: str | Path) -> RunFolder:
    """Write a new run folder: settings, vocabulary and splits; training then needs nothing else.

    Without validation triples the last weights are taken, and nothing tells how good they are.
    """
    if len(dataset.train) == 0:
        raise TuckerkgError(f"{dataset.name}: no training triples")
    with torch.device("meta"):  # refuses what does not fit together before anything is written
        model = build_model(settings, 1, 1)
        if isinstance(model, Model):
            build_objective(settings, model)
    _check_start(settings)
    return RunFolder.create(
        Path(out),
        settings.as_dict(),
        entities=dataset.entities.labels,
        relations=dataset.relations.labels,
        splits={name: dataset.split(name) for name in ("train", "valid", "test")},
        entity_titles=dataset.entity_titles,
        relation_titles=dataset.relation_titles,
        report=dataset.report.as_dict(),
    )


def prepare_in_shards(graph: ShardedGraph, settings: Settings, out: str | Path) -> RunFolder:
    """As ``prepare``, for ranks: facts stay in the shards that ``ingest`` wrote, and no process reads them all.

    Ids are those of the shards. Files are linked where the file system can, else copied.
    """
    if not graph.about["counts"]["train"]:
        raise TuckerkgError(f"{graph.path}: no training triples")
    if settings.ranks.shards != graph.num_shards:
        raise SettingsError(
            f"ranks.shards is {settings.ranks.shards}, and {graph.path} has {graph.num_shards} shards, which ranks "
            "share as they are; leave the setting out, or ingest again with other --shards"
        )
    if settings.kind != "embedding" and not settings.ranks.fanout:
        raise SettingsError(
            f"kind {settings.kind}: messages go along all facts, and no rank has those of a folder of shards; give "
            "ranks.fanout, such as [20, 10]"
        )
    Partition.of(graph.offsets.tolist(), Group())  # refuses a number that is no power of two
    with torch.device("meta"):
        model = build_model(settings, 1, 1)
        if isinstance(model, Model):
            build_objective(settings, model)
    _check_start(settings)
    return RunFolder.create_in_shards(Path(out), settings.as_dict(), graph.path)


def _check_start(settings: Settings) -> None:
    """Refuse to start from an experiment on another graph, whose vectors are of other entities."""
    if settings.start.run and settings.ranks.shards:
        raise SettingsError(
            "start.run: a table in shards (ranks.shards) starts from random weights; leave out one of them"
        )
    if not settings.start.run or is_run(Path(settings.start.run)):
        return
    of_start = load_settings(settings.start.run, {}).dataset
    ours, theirs = (canonical_name(name) or name for name in (settings.dataset, of_start))
    if ours != theirs:
        raise TuckerkgError(
            f"{settings.experiment or 'this experiment'} starts from the weights of {settings.start.run}, which is "
            f"trained on {theirs}, not on {ours}. Train that on this graph first and give its run folder (--start "
            "RUN), or start from random weights (--set start.run=)"
        )


def resume(
    folder: RunFolder | str | Path,
    callback: Callback | None = None,
    data: str | Path | None = None,
    log: LogFunction = ignore,
    timeout: float = TIMEOUT,
) -> Run:
    """Train a run folder to its end, from its newest checkpoint on, and open it with its best weights.

    A run that has not begun takes the weights that its settings start from. The probabilities are fitted on
    validation and stored in the folder. ``timeout`` is how many seconds a rank waits for the others, where several
    processes train it together.
    """
    opened = train_to_end(folder, callback, data, log, timeout)
    run = Run(opened)
    if len(run.split("valid")):
        run.calibration  # noqa: B018  (fits and stores it)
    return run


def train_to_end(
    folder: RunFolder | str | Path,
    callback: Callback | None = None,
    data: str | Path | None = None,
    log: LogFunction = ignore,
    timeout: float = TIMEOUT,
) -> RunFolder:
    """Train as ``resume`` does, without opening the run: no process then holds its tables or its facts."""
    if callback is None:
        from tuckerkg.training.progress import Progress  # noqa: PLC0415  (rich is only needed to draw)

        callback = Progress()
    opened = folder if isinstance(folder, RunFolder) else RunFolder.open(Path(folder))
    if (kind := settings_of_run(opened).kind) in ("nodes", "graphs"):
        raise TuckerkgError(
            f"{opened.path}: puts {kind} into classes; continue it by tuckerkg classify --resume {opened.path}"
        )
    for member in unfinished_members(opened):
        resume(member, callback, data, log)
    if not complete_blend(opened):
        if len(opened.split("valid")) == 0:
            callback.log(without_validation(opened))
        begin(opened, callback, data, log)
        if settings_of_run(opened).ranks.shards:
            fit_on_ranks(opened, callback, timeout)
        elif is_started_for_ranks():
            raise TuckerkgError(
                f"{opened.path}: was begun with its entity table in one piece, for one process; resume it without ranks"
            )
        else:
            fit(opened, callback)
    return opened


def refit_run(
    run: Run | str | Path, *, out: str | Path, callback: Callback | None = None, log: LogFunction = ignore
) -> Run:
    """Train once more on all facts, held-out ones and added ones too, for use in production.

    Settings are those of ``run``, for as many epochs as led to the weights that validation chose. Nothing is left to
    validate on: the last weights are taken. What was measured on ``run``, and its fitted probabilities, are kept in
    ``Run.refit_of``. Of a blend every member is trained again, the weights of the members stay.

    Args:
        run: a run or its folder.
        out: the run folder to write. ``resume`` continues it where it was interrupted.
        log: called with what is being done.

    Raises:
        TuckerkgError: nothing is held out of the run, or the place is taken, in words.
    """
    opened = load_run(run) if not isinstance(run, Run) else run
    check_refit(opened, Path(out))
    former, start = started_from(opened), None
    if former is not None:  # what it starts from must be trained on all facts too
        start = Path(out).with_name(f"{Path(out).name}-start")
        if is_run(start):
            resume(start, callback, log=log)
        else:
            refit_run(former, out=start, callback=callback, log=log)
    return resume(prepare_refit(opened, Path(out), start=start, log=log), callback, log=log)


def refit_place(path: Path) -> Path:
    """Where the refit of a run at ``path`` goes where nothing else is said."""
    return path.with_name(f"{path.name}-refit")


def begin(
    folder: RunFolder, callback: Callback | None = None, data: str | Path | None = None, log: LogFunction = ignore
) -> None:
    """Give a run that has not begun the weights that its settings start from, if they name any."""
    settings = settings_of_run(folder)
    if settings.start.run and not folder.checkpoints.steps():
        former = start_folder(settings, folder.path.parent, data, callback, log)
        afresh = warm_start(folder, former)
        log(f"starts from {former.path}; initialized afresh: {', '.join(afresh) or 'nothing'}")


def train_experiment(
    settings: Settings,
    out: Path,
    data: str | Path | None = None,
    callback: Callback | None = None,
    log: LogFunction = ignore,
) -> Run:
    """Train what ``settings`` describe into ``out``; a run that is there and was begun is continued.

    Raises:
        TuckerkgError: the folder was begun with other settings.
    """
    if out.exists():
        folder = RunFolder.open(out)
        # As settings: what did not exist when the run was begun has its default.
        if settings_of_run(folder) != settings:
            raise TuckerkgError(f"{out}: was begun with other settings than {settings.experiment} has now; remove it")
    else:
        folder = prepare(load_dataset(settings.dataset, data=data), settings, out)
    log(f"{out.name}: {'resumes' if folder.checkpoints.steps() else 'starts'} in {folder.path}")
    return resume(folder, callback, data, log)


def start_folder(
    settings: Settings,
    runs: Path,
    data: str | Path | None = None,
    callback: Callback | None = None,
    log: LogFunction = ignore,
) -> RunFolder:
    """The run that ``settings.start`` names: a run folder, or an experiment, trained with the same seed if need be."""
    path = Path(settings.start.run)
    if is_run(path):
        return RunFolder.open(path)
    seed = settings.train.seed
    wanted = load_settings(settings.start.run, {"train.seed": seed, "train.threads": settings.train.threads})
    return train_experiment(wanted, runs / f"{wanted.experiment}-seed{seed}", data, callback, log).folder


def count_parameters(dataset: str, settings: Settings, data: str | Path | None = None) -> dict[str, int]:
    """#EFP, #NFP and #ENFP of the paper for a dataset; a known one is not read. Nothing is allocated."""
    known = KNOWN.get(canonical_name(dataset) or "")
    if known is not None:
        num_entities, num_relations = known.counts["entities"], known.counts["relations"]
    else:
        read = load_dataset(dataset, data=data)
        num_entities, num_relations = len(read.entities), len(read.relations)
    with torch.device("meta"):
        return build_model(settings, num_entities, num_relations).counts().as_dict()


def _by_name(components: Mapping[str, Any]) -> JsonObject:
    """Classes and instances registered and named."""
    return {
        section: component if component is None or isinstance(component, str) else register(section, component)
        for section, component in components.items()
    }


def _settings(
    dataset: str,
    settings: str | Path | Settings | None,
    named: Mapping[str, Any],
    overrides: Mapping[str, Any] | None,
) -> Settings:
    given = {key: value for key, value in named.items() if value is not None}
    if overrides is not None and not isinstance(overrides, Mapping):
        raise SettingsError(f"overrides: expected a mapping such as {{'train.lr': 0.01}}, got {overrides!r}")
    if isinstance(settings, Settings):
        if given or overrides:
            raise SettingsError(
                f"settings are given as Settings: change them there, not by {', '.join([*given, *(overrides or {})])}"
            )
        return settings
    return load_settings(settings, {"dataset": dataset, **given, **dict(overrides or {})})
