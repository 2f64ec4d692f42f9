"""Everything that a report of a run tells: how it was trained, what it scores where, how far it can be trusted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tuckerkg.evaluation.calibration import Reliability
from tuckerkg.evaluation.conformal import Coverage
from tuckerkg.evaluation.metrics import Evaluation
from tuckerkg.inference.predictions import Prediction
from tuckerkg.inference.run import Run
from tuckerkg.reports.comparison import Part, parts_of
from tuckerkg.types import JsonObject, LogFunction, ignore

EXAMPLES = 8
SHOWN = 3  # answers of an example


@dataclass(frozen=True)
class Example:
    """A test question with the model's first answers, and where the held-out answer stands."""

    question: str
    answer: str
    rank: int
    answers: tuple[Prediction, ...]


@dataclass(frozen=True)
class RunReport:
    """What is known of one run; the test split is ranked for it."""

    run: Run
    test: Evaluation
    relations: tuple[Part, ...]
    degrees: tuple[Part, ...]
    calibrated: Reliability
    plain: Reliability
    coverage: Coverage
    examples: tuple[Example, ...]

    @property
    def name(self) -> str:
        """The run folder's name."""
        return self.run.path.resolve().name

    @property
    def curve(self) -> list[tuple[float, float]]:
        """Epochs and validation MRR."""
        return [(row["epoch"], row["valid"]["mrr"]) for row in self.run.metrics]

    @property
    def facts(self) -> JsonObject:
        """What a table at the top says, by name."""
        run, settings = self.run, self.run.settings
        counts = run.counts()
        return {
            "dataset": run.graph_name,
            **({} if run.graph is None else {"trained on": settings.dataset}),
            "entities": f"{len(run.entities):,}",
            "relations": f"{len(run.relations):,}",
            "triples": " / ".join(f"{len(run.split(name)):,}" for name in ("train", "valid", "test")),
            **(self._trained if not run.members else {"blend of": " and ".join(run.member_names)}),
            "parameters": f"{counts.efp + counts.nfp:,} ({counts.enfp:,} of the encoder)",
            "minutes": f"{float(run.state['minutes']):.1f}",
            "version": str(run.version),
        }

    @property
    def _trained(self) -> JsonObject:
        """What a run that was trained says of its model and training."""
        settings = self.run.settings
        (encoder, decoder), (dim, relation_dim) = settings.parts, settings.widths
        return {
            "encoder": encoder,
            "decoder": decoder,
            "width": f"{dim} (relations {relation_dim})",
            "loss": "softmax" if settings.kind == "paths" else settings.loss.name,
            "seed": str(settings.train.seed),
            "epochs": f"{self.curve[-1][0]:g}" if self.curve else "0",
        }


def report_of(run: Run, log: LogFunction = ignore) -> RunReport:
    """Rank the test split and gather the rest; ``log`` is called with what is being done."""
    log("ranking the test split")
    test = run.evaluate("test")
    relations, degrees = parts_of(run, test)
    log("measuring probabilities")
    return RunReport(
        run=run,
        test=test,
        relations=relations,
        degrees=degrees,
        calibrated=run.reliability(),
        plain=run.uncalibrated().reliability(),
        coverage=run.answer_set_coverage(),
        examples=_examples(run, test),
    )


def _examples(run: Run, test: Evaluation) -> tuple[Example, ...]:
    """Random tail questions of the test split, the same for every report of a run."""
    triples = test.ranks.triples
    ranks = test.ranks.random(test.protocol["tie_seed"])[: len(triples)]
    chosen = np.random.default_rng(0).permutation(len(triples))[:EXAMPLES]
    found = []
    for row in chosen:
        head, relation, tail = (int(number) for number in triples[row])
        answers = run.predict(run.entities.labels[head], run.relations.labels[relation], k=SHOWN)
        question = f"{run.entities.shown(head)} {run.relations.shown(relation)} ?"
        found.append(Example(question, run.entities.shown(tail), int(ranks[row]), tuple(answers)))
    return tuple(found)
