"""`tuckerkg tune`: a search over the settings of an experiment, a dataset or a run of classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tuckerkg.config.toml import is_settings, load_settings
from tuckerkg.data.dataset import Dataset
from tuckerkg.data.load import load as load_dataset
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.errors import TuckerkgError
from tuckerkg.storage.run_folder import RunFolder, is_run
from tuckerkg.training.callbacks import Callback, NullCallback
from tuckerkg.tuning.search import LabelSearch, Search
from tuckerkg.tuning.spaces import Space, load_space
from tuckerkg.tuning.trials import Study, Trial


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
