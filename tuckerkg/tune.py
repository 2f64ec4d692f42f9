"""A search for settings with Optuna: on validation alone, stored on disk, resumable, weak trials stopped early."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuckerkg.api import prepare
from tuckerkg.checkpoint import RunFolder
from tuckerkg.config import Settings, load_settings
from tuckerkg.errors import NonFiniteError, RunFolderError, TuckerkgError
from tuckerkg.evaluate import Evaluation
from tuckerkg.manifest import write_atomic
from tuckerkg.spaces import Range, Space
from tuckerkg.training import Observer, Silent, State, fit
from tuckerkg.triples import Dataset

if TYPE_CHECKING:
    import optuna

STARTUP_TRIALS = 4  # trials that are never stopped early


@dataclass(frozen=True)
class Trial:
    """One try: the settings that were varied, the best validation MRR, and how it ended.

    ``state`` is complete, pruned (weaker than most at the same epoch), diverged or unfinished.
    """

    number: int
    state: str
    mrr: float
    minutes: float
    settings: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "number": self.number,
            "state": self.state,
            "valid_mrr": round(self.mrr, 5),
            "minutes": round(self.minutes, 2),
            "settings": self.settings,
        }


class Search:
    """A study in ``folder``: ``study.log`` (Optuna's journal), ``study.json`` (all trials), one run folder per trial.

    Every process that opens the same folder works on the same study. A trial that was cut off is taken up again from
    its checkpoint by the next ``run``.
    """

    def __init__(
        self, experiment: str, space: Space, dataset: Dataset, folder: Path, overrides: Mapping[str, Any] | None = None
    ) -> None:
        self.experiment, self.space, self.dataset, self.folder = experiment, space, dataset, folder
        self.fixed = {**space.fixed, **dict(overrides or {})}
        self.settings({key: _some_value(choice) for key, choice in space.vary.items()})  # refuses unknown keys early
        self.study = _open_study(folder, f"{experiment} {space.name}".strip(), space.sampler)

    def settings(self, varied: Mapping[str, Any]) -> Settings:
        """The settings of a trial."""
        return load_settings(self.experiment, {**self.fixed, **varied})

    def run(
        self,
        trials: int,
        minutes: float | None = None,
        told: Callable[[Trial], None] = lambda trial: None,
        observer: Callable[[], Observer] = Silent,
    ) -> list[Trial]:
        """Runs until the study has ``trials`` finished trials or ``minutes`` are over; gives all, best first.

        ``told`` hears of every trial that ends; ``observer`` makes one for the training of each.
        """
        self._take_up()
        end = None if minutes is None else time.monotonic() + 60.0 * minutes
        while len(self._finished()) < trials and (end is None or time.monotonic() < end):
            trial = self.study.ask()
            self._try(trial, observer())
            self._write()
            told(_described(self.study.trials[trial.number]))
        return self.trials()

    def trials(self) -> list[Trial]:
        """All trials, best first; one that was cut off is counted where it was taken up again."""
        found = [_described(trial) for trial in self.study.trials if trial.state.name not in ("FAIL", "WAITING")]
        return sorted(found, key=lambda trial: -trial.mrr)

    def _try(self, trial: optuna.Trial, observer: Observer) -> None:
        import optuna  # noqa: PLC0415

        varied = {key: _suggest(trial, key, choice) for key, choice in self.space.vary.items()}
        trial.set_user_attr("settings", varied)
        settings = self.settings(varied)
        place = self.folder / _name(settings)
        began, state = time.monotonic(), optuna.trial.TrialState.COMPLETE
        folder = RunFolder.open(place) if place.exists() else prepare(self.dataset, settings, place)
        try:
            fit(folder, _Reporter(trial, folder, observer))
        except optuna.TrialPruned:
            state = optuna.trial.TrialState.PRUNED
        except NonFiniteError as error:
            trial.set_user_attr("diverged", str(error))
            state = optuna.trial.TrialState.PRUNED
        finally:
            getattr(observer, "close", lambda: None)()  # a bar that was cut short
        looks = [row["valid"]["mrr"] for row in folder.metrics()]
        trial.set_user_attr("mrr", max(looks, default=0.0))
        trial.set_user_attr("minutes", (time.monotonic() - began) / 60.0)
        complete = state == optuna.trial.TrialState.COMPLETE
        self.study.tell(trial, max(looks, default=0.0) if complete else None, state=state)
        shutil.rmtree(place)

    def _take_up(self) -> None:
        """Puts trials that no process works on any more first in the queue, with the settings they had."""
        import optuna  # noqa: PLC0415

        for trial in self.study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
            varied = trial.user_attrs.get("settings")
            if varied is not None and _is_held(self.folder / _name(self.settings(varied))):
                continue
            self.study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            if varied is not None:
                self.study.enqueue_trial(trial.params)

    def _finished(self) -> list[Any]:
        import optuna  # noqa: PLC0415

        states = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
        return self.study.get_trials(states=states)

    def _write(self) -> None:
        """The whole study as a small file for people and for results/."""
        rows = [trial.as_dict() for trial in self.trials()]
        text = {"experiment": self.experiment, "space": self.space.model_dump(), "fixed": self.fixed, "trials": rows}
        write_atomic(self.folder / "study.json", (json.dumps(text, indent=1) + "\n").encode())


class _Reporter:
    """Tells Optuna every look at validation, and stops the trial when it is weaker than most at that epoch."""

    def __init__(self, trial: optuna.Trial, folder: RunFolder, observer: Observer) -> None:
        self.trial, self.observer = trial, observer
        self.reported: set[int] = set()
        for row in folder.metrics():  # of a part that was trained before
            self._report(row["epoch"], row["valid"]["mrr"])

    def started(self, state: State, total_steps: int, steps_per_epoch: int) -> None:
        """Passed on."""
        self.observer.started(state, total_steps, steps_per_epoch)

    def stepped(self, step: int, loss: float, lr: float) -> None:
        """Passed on."""
        self.observer.stepped(step, loss, lr)

    def note(self, text: str) -> None:
        """Passed on."""
        self.observer.note(text)

    def looked(self, epoch: float, evaluation: Evaluation, is_best: bool) -> None:
        """Passed on and reported; then it may raise TrialPruned."""
        import optuna  # noqa: PLC0415

        self.observer.looked(epoch, evaluation, is_best)
        self._report(epoch, evaluation.mrr)
        if self.trial.should_prune():
            raise optuna.TrialPruned

    def _report(self, epoch: float, mrr: float) -> None:
        step = round(1_000 * epoch)
        if step not in self.reported:  # a look that came after the last checkpoint is made again
            self.reported.add(step)
            self.trial.report(mrr, step)


def _open_study(folder: Path, name: str, sampler: str) -> optuna.Study:
    try:
        import optuna  # noqa: PLC0415
        from optuna.storages.journal import JournalFileBackend  # noqa: PLC0415
    except ImportError as error:
        raise TuckerkgError("a search needs optuna: pip install 'tuckerkg[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    samplers = optuna.samplers
    return optuna.create_study(
        study_name=name,
        storage=optuna.storages.JournalStorage(JournalFileBackend(str(folder / "study.log"))),
        direction="maximize",
        load_if_exists=True,
        sampler=samplers.TPESampler() if sampler == "tpe" else samplers.RandomSampler(),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS),
    )


def _suggest(trial: optuna.Trial, key: str, choice: list[Any] | Range) -> Any:
    if not isinstance(choice, Range):
        return trial.suggest_categorical(key, choice)
    return trial.suggest_float(key, choice.low, choice.high, step=choice.step, log=choice.log)


def _some_value(choice: list[Any] | Range) -> Any:
    return choice.low if isinstance(choice, Range) else choice[0]


def _described(trial: Any) -> Trial:
    attributes = trial.user_attrs
    state = {"COMPLETE": "complete", "PRUNED": "pruned"}.get(trial.state.name, "unfinished")
    seen = max(trial.intermediate_values.values(), default=0.0)
    return Trial(
        trial.number,
        "diverged" if "diverged" in attributes else state,
        attributes.get("mrr", seen),
        attributes.get("minutes", 0.0),
        attributes.get("settings", {}),
    )


def _name(settings: Settings) -> str:
    """The same settings have the same run folder, so that a trial taken up again finds its checkpoint."""
    text = json.dumps(settings.as_dict(), sort_keys=True)
    return f"trial-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _is_held(place: Path) -> bool:
    """Whether a process is training there."""
    try:
        with RunFolder.open(place).lock():
            return False
    except RunFolderError:
        return place.exists()
