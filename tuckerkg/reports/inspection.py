"""Inspection of a graph before training: its relations, leaks between splits, and a baseline."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from html import escape

import numpy as np

from tuckerkg.config.settings import Settings
from tuckerkg.data.dataset import Dataset
from tuckerkg.data.leaks.held_out import leaked_shares, same_relations
from tuckerkg.data.leaks.relations import RelationFacts, relation_facts, relation_warnings
from tuckerkg.evaluation.frequency_baseline import frequency_mrr
from tuckerkg.training.timing import seconds_per_epoch
from tuckerkg.types import JsonObject


@dataclass(frozen=True)
class Pair:
    """Two relations of which the first's edges are mostly those of the second, reversed or as they are."""

    first: str
    second: str
    share: float


@dataclass(frozen=True)
class Inspection:
    """What to know before training."""

    name: str
    counts: dict[str, int]
    relations: tuple[RelationFacts, ...]  # most triples first
    inverse: tuple[Pair, ...]
    duplicate: tuple[Pair, ...]
    degrees: dict[str, float]  # quantiles over entities of their number of training triples, by share
    leaks: dict[str, float]  # share of test triples that training gives away
    baseline_mrr: float | None  # of the relation's most frequent answers, on test
    seconds_per_epoch: float | None  # of training with the settings that were asked for
    minutes: float | None
    warnings: tuple[str, ...]
    files: tuple[str, ...] = ()  # what was read of each, and left out

    def _repr_html_(self) -> str:
        """Warnings and relations, for notebooks."""
        warnings = "".join(f"<li>{escape(text)}</li>" for text in self.warnings)
        rows = "".join(
            f"<tr><td>{escape(each.name)}</td><td>{each.triples:,}</td><td>{each.heads:,}</td><td>{each.tails:,}</td>"
            f"<td>{each.kind}</td></tr>"
            for each in self.relations
        )
        header = "".join(f"<th>{name}</th>" for name in ("relation", "triples", "heads", "tails", "kind"))
        table = f"<table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>"
        return f"<p><b>{escape(self.name)}</b></p><ul>{warnings}</ul>{table}"

    def as_dict(self) -> JsonObject:
        """For JSON."""
        return asdict(self)


def inspect_dataset(dataset: Dataset, settings: Settings | None = None) -> Inspection:
    """Look at ``dataset``; with ``settings`` it also times a few steps and says how long training will take here."""
    train, num_entities = dataset.train, len(dataset.entities)
    degree = np.bincount(train[:, [0, 2]].reshape(-1), minlength=num_entities)
    relations = tuple(sorted(relation_facts(dataset), key=lambda found: -found.triples))
    inverse, duplicate = (tuple(_pair(dataset, *found) for found in pairs) for pairs in same_relations(dataset))
    seconds = None if settings is None else seconds_per_epoch(dataset, settings)
    return Inspection(
        name=dataset.name,
        counts=dict(dataset.report.counts),
        relations=relations,
        inverse=inverse,
        duplicate=duplicate,
        degrees={str(share): float(np.quantile(degree, share)) for share in (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)},
        leaks=leaked_shares(dataset),
        baseline_mrr=frequency_mrr(dataset),
        seconds_per_epoch=seconds,
        minutes=None if seconds is None or settings is None else seconds * settings.train.epochs / 60.0,
        warnings=(*dataset.report.warnings, *relation_warnings(relations)),
        files=tuple(dataset.report.file_lines()),
    )


def _pair(dataset: Dataset, first: int, second: int, share: float) -> Pair:
    return Pair(dataset.relations[first], dataset.relations[second], share)
