"""A search for settings with Optuna: on validation alone, stored on disk, resumable, weak trials stopped early."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tuckerkg.api import begin, prepare
from tuckerkg.config.settings import Settings, parse_settings
from tuckerkg.config.toml import SPACES, experiment_files, is_settings, load_settings, put_all
from tuckerkg.data.dataset import Dataset
from tuckerkg.data.load import load as load_dataset
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.errors import NonFiniteError, RunFolderError, SettingsError, TuckerkgError, did_you_mean, printable
from tuckerkg.storage.run_folder import RunFolder, is_run
from tuckerkg.storage.sealed_folder import write_atomic
from tuckerkg.tasks.classify import copy_task
from tuckerkg.tasks.task import read_task
from tuckerkg.tasks.training import fit_labels
from tuckerkg.training.callbacks import Callback, Judgement, NullCallback, State
from tuckerkg.training.loop import fit
from tuckerkg.types import JsonObject

if TYPE_CHECKING:
    import optuna

STARTUP_TRIALS = 4  # trials that are never stopped early


class Range(BaseModel):
    """Numbers from ``low`` to ``high``, in steps of ``step`` if given, evenly by size or (``log``) by ratio."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    low: float
    high: float
    step: float | None = None
    log: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.low >= self.high or (self.log and (self.low <= 0 or self.step is not None)):
            raise ValueError("needs low < high; with log = true also low > 0 and no step")
        return self


Values = list[float | int | bool | str]


class Space(BaseModel):
    """``vary``: dotted setting -> list of values, or a Range. ``fixed``: dotted setting -> value during the search."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = ""
    sampler: Literal["tpe", "random"] = "tpe"
    vary: dict[str, Values | Range] = Field(min_length=1)
    fixed: JsonObject = {}


def load_space(name: str | Path) -> Space:
    """A space by path, or a shipped one by name."""
    path = Path(name)
    shipped = {file.stem: file for file in space_files()}
    if not path.is_file():
        if str(name) not in shipped:
            raise SettingsError(
                f"{printable(str(name))}: neither a file nor a shipped space.{did_you_mean(str(name), shipped)}"
            )
        path = shipped[str(name)]
    try:
        return Space.model_validate({"name": path.stem, **tomllib.loads(path.read_text(encoding="utf-8"))})
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    except ValidationError as error:
        lines = (f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise SettingsError("\n".join(f"{path}: {printable(line)}" for line in lines)) from error


def space_files() -> list[Path]:
    """The shipped spaces, in the folder ``spaces`` beside the experiments."""
    folders = {file.parent.parent for file in experiment_files()}
    return sorted(file for folder in folders for file in (folder / SPACES).glob("*.toml"))


@dataclass(frozen=True)
class Trial:
    """One try: the settings that were varied, the best validation MRR, and how it ended.

    ``state`` is complete, pruned (weaker than most at the same epoch), diverged or unfinished.
    """

    number: int
    state: str
    mrr: float
    minutes: float
    settings: JsonObject

    def as_dict(self) -> JsonObject:
        """For JSON."""
        return {
            "number": self.number,
            "state": self.state,
            "valid_mrr": round(self.mrr, 5),
            "minutes": round(self.minutes, 2),
            "settings": self.settings,
        }


@dataclass(frozen=True)
class Study:
    """A finished search: all trials, best first, and the folder it is kept in."""

    folder: Path
    trials: list[Trial]

    @property
    def best(self) -> Trial:
        """The trial with the best validation MRR."""
        return self.trials[0]

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        rows = "".join(
            f"<tr><td>{trial.number}</td><td>{trial.mrr:.4f}</td><td>{trial.state}</td><td>{escape(str(trial.settings))}</td></tr>"
            for trial in self.trials
        )
        header = "".join(f"<th>{name}</th>" for name in ("trial", "valid MRR", "state", "settings"))
        return f"<table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>"


def tune(  # noqa: PLR0913  (what may be asked for, by keyword only)
    experiment: Any,
    space: str | Path | Space | Mapping[str, Any],
    *,
    trials: int = 20,
    minutes: float | None = None,
    folder: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    data: str | Path | None = None,
    options: ReadOptions | None = None,
    on_trial: Callable[[Trial], None] = lambda trial: None,
    callback: Callable[[], Callback] = NullCallback,
) -> Study:
    """Search for settings on the validation split; the test split is not opened.

    Args:
        experiment: a settings file or shipped experiment to vary, a dataset's name or path, a ``Dataset``, or a run
            folder that `classify` wrote, whose labels that are not held out are searched on.
        space: what to vary: a TOML file, a shipped space's name, or a mapping from dotted settings to lists of values.
        trials: stop when the study has so many finished trials.
        minutes: begin no trial after so many minutes.
        folder: where the study is kept; the same folder continues it.
        overrides: dotted settings that stay fixed.
        data: a folder with datasets by name.
        options: how to read a file.
        on_trial: called with each trial that ends.
        callback: makes a callback for the training of each trial.
    """
    if isinstance(space, Mapping):
        space = Space(name="own", vary=dict(space))
    elif not isinstance(space, Space):
        space = load_space(space)
    fixed = dict(overrides or {})
    if isinstance(experiment, str | Path) and is_run(Path(experiment)):
        run = RunFolder.open(Path(experiment))
        place = Path("studies") / f"{run.path.name}-{space.name}" if folder is None else Path(folder)
        return Study(place, LabelSearch(run, space, place, fixed).run(trials, minutes, on_trial, callback))
    file: str | None = None
    if isinstance(experiment, Dataset):
        dataset, name = experiment, experiment.name
    else:
        name = str(experiment)
        file = name if is_settings(name) else None
        named = load_settings(file, {**space.fixed, **fixed}).dataset if file else name
        dataset = load_dataset(named, data=data, options=options)
    if len(dataset.valid) == 0:
        raise TuckerkgError(
            f"{dataset.name}: no validation triples, and settings are chosen on them; give a valid file, or one file "
            "to be split"
        )
    place = Path("studies") / f"{Path(name).stem}-{space.name}" if folder is None else Path(folder)
    search = Search(file, space, dataset, place, {"dataset": dataset.name, **fixed})
    return Study(place, search.run(trials, minutes, on_trial, callback))


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
        self.settings({key: _some_value(choice) for key, choice in space.vary.items()})  # refuses unknown keys early
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
            log(_described(self.study.trials[trial.number]))
        return self.trials()

    def trials(self) -> list[Trial]:
        """All trials, best first; one that was cut off is counted where it was taken up again."""
        found = [_described(trial) for trial in self.study.trials if trial.state.name not in ("FAIL", "WAITING")]
        return sorted(found, key=lambda trial: -trial.mrr)

    def _try(self, trial: optuna.Trial, callback: Callback) -> None:
        import optuna  # noqa: PLC0415

        varied = {key: _suggest(trial, key, choice) for key, choice in self.space.vary.items()}
        trial.set_user_attr("settings", varied)
        settings = self.settings(varied)
        place = self.folder / _name(settings)
        began, state = time.monotonic(), optuna.trial.TrialState.COMPLETE
        folder = RunFolder.open(place) if place.exists() else self.prepare(settings, place)
        try:
            self.train(folder, callback, _Reporter(trial, folder, callback, self.figure))
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
        self.settings({key: _some_value(choice) for key, choice in space.vary.items()})
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


class _Reporter(Callback):
    """Reports every validation to Optuna, and stops the trial when it is weaker than most at that epoch."""

    def __init__(self, trial: optuna.Trial, folder: RunFolder, callback: Callback, figure: str) -> None:
        self.trial, self.callback = trial, callback
        self.reported: set[int] = set()
        for row in folder.metrics.rows():  # of a part that was trained before
            self._report(row["epoch"], row["valid"][figure])

    def started(self, state: State, total_steps: int, steps_per_epoch: int) -> None:
        """Passed on."""
        self.callback.started(state, total_steps, steps_per_epoch)

    def stepped(self, step: int, loss: float, lr: float) -> None:
        """Passed on."""
        self.callback.stepped(step, loss, lr)

    def passed(self, epoch: float) -> None:
        """Passed on."""
        self.callback.passed(epoch)

    def log(self, text: str) -> None:
        """Passed on."""
        self.callback.log(text)

    def close(self) -> None:
        """Passed on."""
        self.callback.close()

    def validated(self, epoch: float, evaluation: Judgement, is_best: bool) -> None:
        """Passed on and reported; then it may raise TrialPruned."""
        import optuna  # noqa: PLC0415

        self.callback.validated(epoch, evaluation, is_best)
        self._report(epoch, evaluation.headline)
        if self.trial.should_prune():
            raise optuna.TrialPruned

    def _report(self, epoch: float, mrr: float) -> None:
        step = round(1_000 * epoch)
        if step not in self.reported:  # one that came after the last checkpoint is made again
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
