"""The one-call pipeline: read, train, hand back a run that can be measured and asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tuckerkg.checkpoint import RunFolder
from tuckerkg.config import Settings, build_model, load_settings
from tuckerkg.datasets import load as load_dataset
from tuckerkg.errors import TuckerkgError
from tuckerkg.known_datasets import KNOWN, canonical_name
from tuckerkg.memory import dataset_of
from tuckerkg.run import Run
from tuckerkg.training import Observer, fit
from tuckerkg.triples import Dataset
from tuckerkg.warm import start_from


def train(  # noqa: PLR0913  (what may be asked for, by keyword only)
    dataset: Any = "countries",
    *,
    out: str | Path,
    encoder: str | None = None,
    decoder: str | None = None,
    settings: str | Path | Settings | None = None,
    overrides: Mapping[str, Any] | None = None,
    data: str | Path | None = None,
    observer: Observer | None = None,
    start: str | Path | None = None,
) -> Run:
    """Trains on a dataset and writes the run folder ``out``.

    ``dataset`` is a name, a path, one already read, or a graph in memory: a pandas or Polars frame, a NetworkX graph,
    an object with edge_index and edge_type (``tuckerkg.dataset_of`` has options for these).

    ``settings`` is a TOML file, a shipped experiment's name, or Settings; ``overrides`` are dotted keys on top, such as
    ``{"train.seed": 1}``. Without ``observer`` a progress bar is drawn on a terminal. ``start`` is a run folder whose
    best weights to go on from, for instance that of the decoder alone.
    """
    read = _read(dataset, data)
    folder = prepare(read, _settings(read.name, encoder, decoder, settings, overrides), out)
    if start is not None:
        start_from(folder, RunFolder.open(Path(start)))
    return resume(folder, observer)


def _read(dataset: Any, data: str | Path | None) -> Dataset:
    if isinstance(dataset, Dataset):
        return dataset
    if isinstance(dataset, str | os.PathLike):
        return load_dataset(dataset, data=data)
    return dataset_of(dataset)


def prepare(dataset: Dataset, settings: Settings, out: str | Path) -> RunFolder:
    """Writes a new run folder: settings, vocabulary and splits; training then needs nothing else."""
    if len(dataset.train) == 0:
        raise TuckerkgError(f"{dataset.name}: no training triples")
    if len(dataset.valid) == 0:
        raise TuckerkgError(
            f"{dataset.name}: no validation triples, and the best weights are chosen on them; "
            "give a valid file, or one file to be split"
        )
    with torch.device("meta"):  # refuses widths that do not fit before anything is written
        build_model(settings, 1, 1)
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


def resume(folder: RunFolder | str | Path, observer: Observer | None = None) -> Run:
    """Trains a run folder to its end, from its newest checkpoint on, and opens it with its best weights."""
    if observer is None:
        from tuckerkg.progress import Progress  # noqa: PLC0415  (rich is only needed to draw)

        observer = Progress()
    opened = folder if isinstance(folder, RunFolder) else RunFolder.open(Path(folder))
    fit(opened, observer)
    return Run(opened)


def _settings(
    dataset: str,
    encoder: str | None,
    decoder: str | None,
    settings: str | Path | Settings | None,
    overrides: Mapping[str, Any] | None,
) -> Settings:
    if isinstance(settings, Settings):
        return settings
    chosen: dict[str, Any] = {"dataset": dataset}
    chosen.update({key: value for key, value in (("encoder", encoder), ("decoder", decoder)) if value is not None})
    return load_settings(settings, {**chosen, **dict(overrides or {})})


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
