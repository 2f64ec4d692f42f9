"""What is said of a run, and of each of its relations."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any

import numpy as np
import torch

from tuckerkg import __version__
from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.evaluation.protocol import split_sha256
from tuckerkg.inference.run import Run
from tuckerkg.nn.contracts import HasVectors
from tuckerkg.serve.engine.graph import GraphView
from tuckerkg.serve.schemas import graph as graph_schemas
from tuckerkg.serve.schemas import service as schemas

THRESHOLD = 0.5  # probability under which nothing is offered
LICENCE = "Apache-2.0"
EXAMPLES = 10  # facts of a relation
GRID = 400  # probabilities between 0 and 1 at which verdicts are looked up
LEAST_KEPT = 5  # questions of a relation, from where on its figures say something


class RunPage:
    """Describes one run. What is on disk is read once, when the run is opened."""

    def __init__(self, graph: GraphView, title: str | None = None) -> None:
        self.graph, self.run = graph, graph.run
        self.evaluation = self._kept_evaluation()
        self.test = _numbers(self.evaluation) or None
        self.title = title or _title(self.run)
        self.about = self._about()

    def _about(self) -> schemas.About:
        run = self.run
        return schemas.About(
            run=self.graph.stamp,
            title=self.title,
            about=self._sentence(),
            counts=schemas.Counts(
                entities=len(run.entities),
                relations=len(run.relations),
                facts=len(self.graph.triples),
                **{name: len(run.split(name)) for name in SPLITS},
            ),
            model=self._model(),
            curve=[[epoch, mrr] for epoch, mrr in run.curve],
            test=self.test,
            calibration=self._calibration(),
            trust=None,
            threshold=THRESHOLD,
            index=None if run.index is None else run.index.quality.as_dict(),
            sums="exact" if run.index is None else "estimated",
            may=schemas.May(explain=True, vectors=self._has_vectors(), add=run.graph is None),
            package_version=__version__,
            licence=LICENCE,
        )

    def _sentence(self) -> str:
        graph = self.graph
        relations = [graph.relations.titles[number] for number in np.argsort(-graph.counts, kind="stable")[:3]]
        entities = [graph.entities.titles[number] for number in np.argsort(-graph.degrees, kind="stable")[:3]]
        return (
            f"{len(graph.triples):,} facts about {len(graph.run.entities):,} entities; most say "
            f"{_listed(relations)}, and most are about {_listed(entities)}."
        )

    def _model(self) -> dict[str, str | int | float]:
        run, settings = self.run, self.run.settings
        words: dict[str, str | int | float] = {"graph": _named(run.graph_name)}
        if run.graph is not None:
            words["trained on"] = _named(settings.dataset)
        for name, value in run.describe().items():
            words[name] = int(value) if value.isdigit() else value
        if settings.kind == "paths":
            counts = run.counts()
            words["parameters"] = int(counts.efp + counts.nfp)
        if run.refit_of is not None:
            words["refit of"] = f"{run.refit_of.name}, whose figures are shown; this one was trained on all facts"
        if not len(run.split("valid")) and not (run.refit_of and run.refit_of.calibration):
            words["probabilities"] = "plain sigmoids of the score: no validation triples to fit them on"
        if run.index is not None:
            words["index"] = str(run.index.quality)
        return words

    def _calibration(self) -> schemas.Calibration | None:
        if not len(self.run.split("valid")):
            return None
        return schemas.Calibration.model_validate(self.run.reliability("valid").as_dict())

    def _has_vectors(self) -> bool:
        return not self.run.members and isinstance(self.run.scorer, HasVectors)

    def _kept_evaluation(self) -> dict[str, Any]:
        """What ``tuckerkg evaluate`` has written for the weights that are served, if it has.

        For a refit, which was trained on all facts, it is that of the run before.
        """
        run = self.run
        if run.refit_of is not None and run.graph is None:
            before: dict[str, Any] = run.refit_of.evaluations.get("test", {})
            return before
        path = run.evaluation_file("test")
        if run.version != 1 or not path.is_file():
            return {}
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        sums = {name: split_sha256(run.split(name)) for name in SPLITS}
        if kept.get("step") != run.step or kept.get("protocol", {}).get("split_sha256") != sums:
            return {}
        return kept

    def relation(self, name: str) -> schemas.RelationPage:
        """One relation. Raises NoSuchName."""
        graph = self.graph
        number = graph.relations.id_of(name)
        rows = np.flatnonzero(graph.triples[:, 1] == number)
        some = rows[:: max(1, len(rows) // EXAMPLES)][:EXAMPLES]
        figures = self.evaluation.get("relations", {}).get(graph.run.relations.labels[number])
        shown = None
        if isinstance(figures, dict) and figures.get("queries", 0) >= LEAST_KEPT:
            shown = {"mrr": figures["mrr"], "hits@10": figures.get("hits@10", 0.0), "count": figures["queries"]}
        return schemas.RelationPage(
            run=graph.stamp,
            relation=graph.relation(number),
            heads_type=graph.side_type(number, 0),
            tails_type=graph.side_type(number, 2),
            examples=[graph.fact(row) for row in some.tolist()],
            figures=shown,
            trust=None,
            thresholds=self._thresholds(number),
        )

    def _thresholds(self, relation: int) -> dict[str, float] | None:
        """Probabilities from which on facts of a relation are called true, and under which false."""
        chances = torch.arange(1, GRID, dtype=torch.float64) / GRID
        judged = self.run.calibration.judge(torch.logit(chances), torch.full((GRID - 1,), relation))
        if judged is None:
            return None
        places = judged[0].numpy()
        true, false = chances[places == 2], chances[places == 0]
        found = {}
        if len(true):
            found["yes_from"] = float(true.min())
        if len(false):
            found["no_under"] = float(false.max())
        return found or None


def stamp_of(run: Run, name: str | None = None) -> graph_schemas.RunStamp:
    """Which run answers."""
    return graph_schemas.RunStamp(name=name or run.path.resolve().name, version=run.version, checkpoint=run.step)


def _title(run: Run) -> str:
    title = _named(run.graph_name).replace("_", " ")
    return title[:1].upper() + title[1:]


def _named(dataset: str) -> str:
    """A dataset's name, or that of its file: where that lies is nobody's business."""
    return PurePath(dataset).name or dataset


def _numbers(kept: dict[str, Any]) -> dict[str, float]:
    return {
        key: value
        for key, value in kept.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and key != "step"
    }


def _listed(names: list[str]) -> str:
    quoted = [f"“{name}”" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
