"""Runs that train once more on all facts, for use in production: settings and epochs are those that validation chose.

What the run before has measured is kept and marked as its own, since nothing is left to measure a refit on.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tuckerkg.config.settings import Settings
from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.run import Run
from tuckerkg.storage.members import FOLDER as MEMBERS
from tuckerkg.storage.members import made_whole, member_folders
from tuckerkg.storage.run_before import RunBefore, read_run_before, write_run_before
from tuckerkg.storage.run_folder import RunFolder, check_place, is_run
from tuckerkg.types import JsonObject, LogFunction, ignore

NO_TRIPLES = np.empty((0, 3), dtype=np.int64)


def prepare_refit(run: Run, out: Path, *, start: Path | None = None, log: LogFunction = ignore) -> RunFolder:
    """Write a run folder that is ready to train on all facts of ``run``; of a blend, with its members prepared.

    The test split is ranked where ``tuckerkg evaluate`` has not kept its figures.

    Args:
        start: the refit of the run that ``run`` started from, where it started from one.

    Raises:
        TuckerkgError: there is nothing to train again, in words; or the place is taken.
    """
    check_refit(run, out)
    before = _run_before(run, log)
    with made_whole(out) as place:
        _write(run, before, place, start)
    return RunFolder.open(out)


def knows_everything(run: Run) -> bool:
    """Whether ``run`` was trained on all facts that it holds, so that there is nothing to refit it on."""
    return len(run.split("valid")) + len(run.split("test")) == 0 and run.added is None


def started_from(run: Run) -> Path | None:
    """The run folder whose weights ``run`` started from; None where it started afresh.

    Raises:
        TuckerkgError: it is not where the settings say.
    """
    named = run.settings.start.run
    if not named:
        return None
    places = [Path(named), run.path.resolve().parent / f"{named}-seed{run.settings.train.seed}"]
    for place in places:
        if is_run(place):
            return place
    raise TuckerkgError(
        f"{run.path}: started from the weights of {named}, which has to be trained on all facts first, and there is no "
        f"such run at {' or '.join(map(str, places))}"
    )


def unfinished_members(folder: RunFolder) -> list[RunFolder]:
    """The members of a blend that is being refitted, each to be trained to its end; none where it is complete."""
    before = read_run_before(folder.path)
    if before is None or not before.blend or folder.checkpoints.steps():
        return []
    return member_folders(folder.path, before.blend["weights"].shape[1])


def complete_blend(folder: RunFolder) -> bool:
    """Give the refit of a blend its weights, those of the blend before; its members are trained.

    Returns:
        Whether ``folder`` is the refit of a blend; others have weights of their own to train.
    """
    before = read_run_before(folder.path)
    if before is None or not before.blend:
        return False
    if members := unfinished_members(folder):
        spent = [member.checkpoints.weights("newest").state for member in members]
        minutes = {name: sum(float(state[name]) for state in spent) for name in ("minutes", "cpu_minutes")}
        folder.checkpoints.save(0, before.blend, {}, {**before.state, **minutes, "best_mrr": None}, best=0)
    return True


def without_validation(folder: RunFolder) -> str:
    """What training without validation triples means for the run in ``folder``, in words."""
    before = read_run_before(folder.path)
    if before is None:
        return (
            f"{folder.path}: no validation triples: the last weights are taken, nothing tells how good they are, "
            "probabilities are not fitted"
        )
    return (
        f"{folder.path}: trained on all facts, those too that {before.name} was measured on: the last weights are "
        f"taken, nothing tells how good they are; figures and probabilities are those of {before.name}"
    )


def check_refit(run: Run, out: Path) -> None:
    """Refuse, before any work is done, what cannot be trained again, or a place that is taken.

    Raises:
        TuckerkgError: says why.
    """
    check_place(out)
    if run.graph is not None:
        raise TuckerkgError(
            f"{run.path}: answers for {run.graph.name}; refit the run itself, on the graph that it was trained on"
        )
    before = run.refit_of
    if before is not None and run.added is None:
        raise TuckerkgError(f"{run.path}: is the refit of {before.name} already, nothing is left to train on")
    if knows_everything(run):
        raise TuckerkgError(f"{run.path}: nothing was held out of it, so it is trained on all facts already")
    for member in run.members:
        _check_member(member)
    if run.step == 0 and run.state.get("started_from"):
        raise TuckerkgError(
            f"{run.path}: validation chose the weights that it started from, those of {run.state['started_from']}; "
            "refit that run"
        )


def _check_member(run: Run) -> None:
    if run.settings.start.run:
        raise TuckerkgError(
            f"{run.path}: started from the weights of another run, {run.settings.start.run}; a blend is refitted only "
            "where its members started afresh"
        )
    for member in run.members:
        _check_member(member)


def _write(run: Run, before: RunBefore, place: Path, start: Path | None = None) -> None:
    everything = np.unique(np.concatenate([run.split(name) for name in SPLITS]), axis=0)
    RunFolder.create(
        place,
        _settings(run, before, start).as_dict(),
        entities=list(run.entities.labels),
        relations=list(run.relations.labels),
        splits={"train": everything, "valid": NO_TRIPLES, "test": NO_TRIPLES},
        entity_titles=dict(run.entities.titles),
        relation_titles=dict(run.relations.titles),
        report=run.folder.report(),
    )
    write_run_before(place, before)
    for number, member in enumerate(run.members):
        _write(member, _run_before(member), place / MEMBERS / str(number))


def _settings(run: Run, before: RunBefore, start: Path | None) -> Settings:
    """Those of ``run``, for as many epochs as validation chose: the same share of each schedule, over more facts."""
    changed = run.settings
    if before.epochs is not None:
        train = changed.train.model_copy(update={"epochs": before.epochs, "steps": 0})
        changed = changed.model_copy(update={"train": train})
    if start is not None:
        changed = changed.model_copy(update={"start": changed.start.model_copy(update={"run": str(start.resolve())})})
    return changed


def _run_before(run: Run, log: LogFunction | None = None) -> RunBefore:
    """What is kept of ``run``. A member of a blend, without ``log``, is not ranked for it."""
    if run.refit_of is not None:  # facts were added to a refit: what was measured is still that of the first run
        return run.refit_of
    if run.version != 1 or not run.calibrated:  # as it was trained: added facts may be held-out ones
        run = Run(run.folder, version=1, checkpoint=run.step)
    evaluations = kept_evaluations(run)
    if log is not None and "test" not in evaluations and len(run.split("test")):
        log(f"{run.path}: ranking the test split, whose figures are kept")
        evaluations["test"] = {"step": run.step, **run.evaluate("test").as_dict()}
    # A blend asks nobody for a member's probabilities but the one that finds questions.
    fitted = log is not None or run.settings.kind == "embedding"
    return RunBefore(
        name=run.path.resolve().name,
        step=run.step,
        epochs=_epochs(run),
        best_mrr=run.state.get("best_mrr"),
        triples={name: len(run.split(name)) for name in SPLITS},
        metrics=run.metrics,
        evaluations=evaluations,
        state=dict(run.state) if run.members else {},
        calibration=run.calibration.tensors() if fitted else {},
        blend={"weights": run.blend_weights} if run.members else {},
    )


def _epochs(run: Run) -> float | None:
    """How many epochs led to the weights of ``run``; None where validation did not choose them."""
    rows = [row for row in run.metrics if row["epoch"] > 0]
    if run.members or not rows or run.state.get("best_mrr") is None:
        return None
    return max(round(run.step * float(rows[-1]["epoch"]) / float(rows[-1]["step"]), 4), 1e-4)


def kept_evaluations(run: Run) -> dict[str, JsonObject]:
    """What ``tuckerkg evaluate`` has written for the weights of ``run``, by split."""
    found = {}
    for split in SPLITS:
        path = run.evaluation_file(split)
        if path.is_file():
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept.get("step") == run.step:
                found[split] = kept
    return found
