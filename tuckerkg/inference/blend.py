"""Make a run of several trained ones: a weighted sum of their log shares, with weights fitted on validation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from tuckerkg.config.settings import Settings
from tuckerkg.errors import TuckerkgError
from tuckerkg.evaluation.blend_weights import BlendWeights, fit_blend
from tuckerkg.evaluation.metrics import Evaluation
from tuckerkg.evaluation.remembered import RememberedScores
from tuckerkg.inference.run import Run, load
from tuckerkg.nn.blend_scorer import BlendScorer
from tuckerkg.nn.contracts import SlowToAsk
from tuckerkg.storage.members import FOLDER, copy_member, made_whole
from tuckerkg.storage.run_folder import RunFolder, check_place
from tuckerkg.storage.same_data import check_same_data
from tuckerkg.types import JsonObject, LogFunction, ProgressFunction, ignore

SPLITS = ("train", "valid", "test")


def blend(
    runs: Sequence[Run | str | Path],
    *,
    out: str | Path,
    log: LogFunction = ignore,
    progress: ProgressFunction | None = None,
) -> Run:
    """Blend trained runs into a new one, whose scores are a weighted sum of the members' log shares.

    Weights are fitted on validation (see ``evaluation/blend_weights.py``). The new run folder holds copies of its
    members, so that it needs nothing else, and is evaluated, asked, explained and served like any other.

    Args:
        runs: run folders or runs, two or more, trained on the same entities, relations and splits.
        out: the run folder to write.
        log: called with what is being done.
        progress: called with the questions done and their total, first of the fit, then of ranking validation.

    Returns:
        The new run. Where one member alone is best on validation, it has all the weight, and
        ``run.state["weights_by"]`` is "member".

    Raises:
        TuckerkgError: the runs do not fit together, in words that name what differs; or the place is taken.
    """
    begun = time.monotonic()
    opened = [run if isinstance(run, Run) else load(run) for run in runs]
    _check_members(opened)
    check_place(Path(out))
    opened = [_remembering(run) for run in opened]  # validation's questions are asked three times and more
    alone = []
    for run in opened:
        log(f"{run.path}: validation MRR")
        alone.append(_validation_mrr(run))
    log("fitting weights on validation")
    scorers = [run.scorer for run in opened]
    fitted = fit_blend(scorers, opened[0].split("train"), opened[0].split("valid"), progress=progress)
    log("ranking the validation split")
    valid = _evaluated(opened, fitted, progress)
    best = max(range(len(opened)), key=alone.__getitem__)
    if valid.mrr < alone[best] and fitted.by != "member":  # the fit saw a part of the questions and candidates
        fitted = _alone(fitted, best)
        valid = _evaluated(opened, fitted, progress)
    minutes, cpu_minutes = (
        sum(float(run.state.get(name, 0.0)) for run in opened) for name in ("minutes", "cpu_minutes")
    )
    made = _Made(opened, alone, fitted, valid, minutes + (time.monotonic() - begun) / 60.0, cpu_minutes)
    with made_whole(Path(out)) as place:
        made.write(place)
    blended = load(out)
    for member, run in zip(blended.members, opened, strict=True):
        member.scorer = run.scorer
    blended.calibration  # noqa: B018  (fits and stores it)
    return load(out)


@dataclass(frozen=True)
class _Made:
    """Everything that the folder of a blend says."""

    members: list[Run]
    alone: list[float]  # validation MRR of each
    fitted: BlendWeights
    valid: Evaluation
    minutes: float
    cpu_minutes: float

    def write(self, place: Path) -> None:
        first = self.members[0]
        settings = Settings(
            kind="blend",
            dataset=first.settings.dataset,
            evaluate=first.settings.evaluate,
            plugins=tuple(dict.fromkeys(name for run in self.members for name in run.settings.plugins)),
        )
        folder = RunFolder.create(
            place,
            settings.as_dict(),
            entities=first.folder.entities(),
            relations=first.folder.relations(),
            splits={name: first.folder.split(name) for name in SPLITS},
            entity_titles=first.folder.entity_titles(),
            relation_titles=first.folder.relation_titles(),
            report=first.folder.report(),
        )
        for number, run in enumerate(self.members):
            copy_member(run.folder, run.step, place / FOLDER / str(number))
        row: JsonObject = {"step": 0, "epoch": 0.0, "minutes": round(self.minutes, 4), "loss": None}
        folder.metrics.append({**row, "valid": self.valid.overall.as_dict(), "members": self._members()})
        folder.metrics.sync()
        folder.checkpoints.save(0, {"weights": self.fitted.weights}, {}, self._state(), best=0)

    def _members(self) -> list[JsonObject]:
        names = [run.path.resolve().name for run in self.members]
        return [{"name": name, "valid_mrr": mrr} for name, mrr in zip(names, self.alone, strict=True)]

    def _state(self) -> JsonObject:
        return {
            "step": 0,
            "best_step": 0,
            "best_mrr": self.valid.mrr,
            "minutes": self.minutes,
            "cpu_minutes": self.cpu_minutes,
            "members": self._members(),
            "weights_by": self.fitted.by,
            "own": int(self.fitted.own.sum()),
            "questions": self.fitted.questions,
            "held_out_mrr": self.fitted.held_out_mrr,
        }


def _check_members(runs: Sequence[Run]) -> None:
    if len(runs) < 2:
        raise TuckerkgError(f"a blend needs two runs at least, {len(runs)} given")
    places = [run.path.resolve() for run in runs]
    for place, run in enumerate(runs):
        if places.index(places[place]) != place:
            raise TuckerkgError(f"{run.path}: is named twice; a blend takes each run once")
        if run.graph is not None:
            raise TuckerkgError(
                f"{run.path}: answers for {run.graph.name}, and weights are fitted on the graph of training; blend the "
                "run itself"
            )
        if run.version != 1:
            raise TuckerkgError(
                f"{run.path}: is version {run.version}, with facts that were added after training; blend the run as it "
                f"was trained, {run.path}@1, and add the facts to the blend"
            )
        check_same_data(runs[0].folder, run.folder, SPLITS)
    if len(runs[0].split("valid")) == 0:
        raise TuckerkgError(
            f"{runs[0].path}: has no validation triples, and weights are fitted on them; blend runs that were trained "
            "with some held out"
        )


def _remembering(run: Run) -> Run:
    """The same run, whose scores are kept where they cost much."""
    other = run._copy()
    other.scorer = RememberedScores(run.scorer) if isinstance(run.scorer, SlowToAsk) else run.scorer
    return other


def _validation_mrr(run: Run) -> float:
    """As it was noted in training for these weights, else ranked now: training may have ranked a part of it only."""
    noted = [row["valid"]["mrr"] for row in run.metrics if row["step"] == run.step and row["valid"]]
    return float(noted[-1]) if noted and not run.settings.train.validate_on else run.evaluate("valid").mrr


def _evaluated(runs: Sequence[Run], fitted: BlendWeights, progress: ProgressFunction | None) -> Evaluation:
    scorer = BlendScorer([run.scorer for run in runs], fitted.weights)
    return Run(runs[0].folder, version=1, checkpoint=runs[0].step, scorer=scorer).evaluate("valid", progress)


def _alone(fitted: BlendWeights, member: int) -> BlendWeights:
    """All the weight for one member."""
    weights = torch.zeros_like(fitted.weights)
    weights[:, member] = 1.0
    return replace(fitted, weights=weights, by="member", own=torch.zeros_like(fitted.own))
