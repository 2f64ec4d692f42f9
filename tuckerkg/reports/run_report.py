"""Everything that a report of a run tells: how it was trained, what it scores where, how far it can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch

from tuckerkg.evaluation.conformal import Coverage
from tuckerkg.evaluation.metrics import Evaluation
from tuckerkg.inference.answers.predictions import Prediction
from tuckerkg.inference.predictor import Question
from tuckerkg.inference.run import Run
from tuckerkg.probability.reliability import Reliability
from tuckerkg.reports.comparison import Part, parts_of
from tuckerkg.storage.run_before import RunBefore
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
        return self.run.curve

    @property
    def facts(self) -> JsonObject:
        """What a table at the top says, by name."""
        return facts_of(self.run)


@dataclass(frozen=True)
class Unmeasured:
    """What is known of a run that nothing was held out of: a refit has the figures of the run before."""

    run: Run

    @property
    def facts(self) -> JsonObject:
        """What a table at the top says, by name."""
        return facts_of(self.run)

    @property
    def before(self) -> RunBefore | None:
        """The run that this one is a refit of."""
        return self.run.refit_of

    @property
    def kept(self) -> JsonObject:
        """What the run before scored on its test split, by part; empty where that is not known."""
        test = {} if self.before is None else self.before.evaluations.get("test", {})
        return {"all": test, **test["directions"]} if test else {}

    @property
    def columns(self) -> list[str]:
        """The metrics of ``kept``."""
        return [name for name in self.kept["all"] if name == "mrr" or name.startswith("hits@")] if self.kept else []


def facts_of(run: Run) -> JsonObject:
    """What a table says of a run: its graph, what it is, and how it was trained."""
    before = run.refit_of
    return {
        "dataset": run.graph_name,
        **({} if run.graph is None else {"trained on": run.settings.dataset}),
        "entities": f"{len(run.entities):,}",
        "relations": f"{len(run.relations):,}",
        "triples": " / ".join(f"{len(run.split(name)):,}" for name in ("train", "valid", "test")),
        **({} if before is None else {"refit of": before.name}),
        **run.describe(),
        **({} if run.members else _training(run)),
        "parameters": _parameters(run),
        "minutes": f"{float(run.state['minutes']):.1f}",
        "version": str(run.version),
    }


def _training(run: Run) -> JsonObject:
    rows = run.metrics
    return {
        **({"loss": run.settings.loss.name} if run.settings.kind == "embedding" else {}),
        "seed": str(run.settings.train.seed),
        "epochs": f"{rows[-1]['epoch']:g}" if rows else "0",
    }


def _parameters(run: Run) -> str:
    counts = run.counts()
    total = f"{counts.efp + counts.nfp:,}"
    if run.settings.kind == "paths":
        return f"{total} (none of an entity)"
    return f"{total} ({counts.enfp:,} of the encoder)"


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
        answers = _first_answers(run, head, relation, tail)
        question = f"{run.entities.shown(head)} {run.relations.shown(relation)} ?"
        found.append(Example(question, run.entities.shown(tail), int(ranks[row]), answers))
    return tuple(found)


def _first_answers(run: Run, head: int, relation: int, tail: int) -> tuple[Prediction, ...]:
    """The best answers over all entities, as they are ranked: known ones left out, the held-out one not."""
    offsets, _ = run.predictor.known.find(torch.tensor([head]), torch.tensor([relation]))
    asked = Question(head, relation, k=SHOWN + int(offsets[1]), known=True, typed=False)
    answer = run.entities.labels[tail]
    found = (fact for fact in run.predictor.answer_many([asked])[0] if not fact.known or fact.tail_label == answer)
    return tuple(islice(found, SHOWN))
