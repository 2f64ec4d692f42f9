"""A search for settings with Optuna: on validation alone, stored on disk, resumable, weak trials stopped early."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuckerkg.api import begin, prepare
from tuckerkg.config.settings import Settings, parse_settings
from tuckerkg.config.toml import load_settings, put_all
from tuckerkg.data.dataset import Dataset
from tuckerkg.errors import NonFiniteError, RunFolderError, TuckerkgError
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.storage.sealed_folder import write_atomic
from tuckerkg.tasks.classify import copy_task
from tuckerkg.tasks.task import read_task
from tuckerkg.tasks.training import fit_labels
from tuckerkg.training.callbacks import Callback, NullCallback
from tuckerkg.training.loop import fit
from tuckerkg.tuning.reporter import Reporter
from tuckerkg.tuning.spaces import Space, some_value, suggest
from tuckerkg.tuning.trials import Trial, described

if TYPE_CHECKING:
    import optuna

STARTUP_TRIALS = 4  # trials that are never stopped early


class Search:
    """A study in ``folder``: ``study.log`` (Optuna's journal), ``study.json`` (all trials), one run folder per trial.

    Every process that opens the same folder works on the same study. A trial that was cut off is taken up again from
    its checkpoint by the next ``run``.
    """

    figure = "mrr"  # of the validation

    def __init__(
        self,
        experiment: str | None,
        space: Space,
        dataset: Dataset,
        folder: Path,
        overrides: Mapping[str, Any] | None = None,
    ) -> None:
        self.experiment, self.space, self.dataset, self.folder = experiment, space, dataset, folder
        self.fixed = {**space.fixed, **dict(overrides or {})}
        self.settings({key: some_value(choice) for key, choice in space.vary.items()})  # refuses unknown keys early
        self.study = _open_study(folder, f"{experiment or dataset.name} {space.name}".strip(), space.sampler)

    def settings(self, varied: Mapping[str, Any]) -> Settings:
        """The settings of a trial."""
        return load_settings(self.experiment, {**self.fixed, **varied})

    def run(
        self,
        trials: int,
        minutes: float | None = None,
        log: Callable[[Trial], None] = lambda trial: None,
        callback: Callable[[], Callback] = NullCallback,
    ) -> list[Trial]:
        """Run until the study has ``trials`` finished trials or ``minutes`` are over; gives all, best first.

        ``log`` is called with every trial that ends; ``callback`` makes one for the training of each.
        """
        self._take_up()
        end = None if minutes is None else time.monotonic() + 60.0 * minutes
        while len(self._finished()) < trials and (end is None or time.monotonic() < end):
            trial = self.study.ask()
            self._try(trial, callback())
            self._write()
            log(described(self.study.trials[trial.number]))
        return self.trials()

    def trials(self) -> list[Trial]:
        """All trials, best first; one that was cut off is counted where it was taken up again."""
        found = [described(trial) for trial in self.study.trials if trial.state.name not in ("FAIL", "WAITING")]
        return sorted(found, key=lambda trial: -trial.mrr)

    def _try(self, trial: optuna.Trial, callback: Callback) -> None:
        import optuna  # noqa: PLC0415

        varied = {key: suggest(trial, key, choice) for key, choice in self.space.vary.items()}
        trial.set_user_attr("settings", varied)
        settings = self.settings(varied)
        place = self.folder / _name(settings)
        began, state = time.monotonic(), optuna.trial.TrialState.COMPLETE
        folder = RunFolder.open(place) if place.exists() else self.prepare(settings, place)
        try:
            self.train(folder, callback, Reporter(trial, folder, callback, self.figure))
        except optuna.TrialPruned:
            state = optuna.trial.TrialState.PRUNED
        except NonFiniteError as error:
            trial.set_user_attr("diverged", str(error))
            state = optuna.trial.TrialState.PRUNED
        found = [row["valid"][self.figure] for row in folder.metrics.rows()]
        trial.set_user_attr("mrr", max(found, default=0.0))
        trial.set_user_attr("minutes", (time.monotonic() - began) / 60.0)
        complete = state == optuna.trial.TrialState.COMPLETE
        self.study.tell(trial, max(found, default=0.0) if complete else None, state=state)
        shutil.rmtree(place)

    def prepare(self, settings: Settings, place: Path) -> RunFolder:
        """The run folder of a trial."""
        return prepare(self.dataset, settings, place)

    def train(self, folder: RunFolder, callback: Callback, reporter: Callback) -> None:
        """Train a trial to its end; ``reporter`` passes on to ``callback`` and may stop it."""
        begin(folder, callback)
        fit(folder, reporter)

    def _take_up(self) -> None:
        """Put trials that no process works on any more first in the queue, with the settings they had."""
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


class LabelSearch(Search):
    """A study of how nodes or graphs are put into classes, on the labels that a run folder of `classify` has.

    Args:
        run: gives the task, and the settings that are not varied.
    """

    figure = "likelihood"

    def __init__(self, run: RunFolder, space: Space, folder: Path, overrides: Mapping[str, Any] | None = None) -> None:
        self.of_run = run
        read_task(run)  # refuses runs of another kind
        self.experiment, self.space, self.folder = run.path.name, space, folder
        self.fixed = {**space.fixed, **dict(overrides or {})}
        self.settings({key: some_value(choice) for key, choice in space.vary.items()})
        self.study = _open_study(folder, f"{run.path.name} {space.name}", space.sampler)

    def settings(self, varied: Mapping[str, Any]) -> Settings:
        """The settings of a trial."""
        return parse_settings(put_all(self.of_run.settings, {**self.fixed, **varied}))

    def prepare(self, settings: Settings, place: Path) -> RunFolder:
        """The run folder of a trial, with the same task."""
        return copy_task(self.of_run, settings, place)

    def train(self, folder: RunFolder, callback: Callback, reporter: Callback) -> None:
        """Train a trial to its end."""
        fit_labels(folder, reporter)


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
