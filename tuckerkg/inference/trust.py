"""How far a run's probabilities hold, in every place where people ask.

The places: single questions, the best missing facts of the whole graph, all relations of a head, and given triples.
Only training's facts count as known; what validation and test hold is true.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.errors import UnknownNameError
from tuckerkg.inference.answers.predictions import Predictions
from tuckerkg.inference.retrieval import QUESTIONS, embedding_member
from tuckerkg.nn.contracts import fit_questions, is_slow
from tuckerkg.probability.population import Sample, are_in, shown_facts
from tuckerkg.probability.reliability import First, Reliability, first_of_list, reliability
from tuckerkg.types import JsonObject, ProgressFunction

if TYPE_CHECKING:
    from tuckerkg.inference.predictor import Predictor
    from tuckerkg.inference.run import Run

COUNTS = (20, 100, 500, 2_000)  # of the best missing facts
HEADS = 500  # that are asked for all of their relations
TRIPLES = 4_000  # that are weighed
SLOW_SHARE = 4  # a run that is slow to ask is asked a quarter of the questions that its probabilities were fitted on


@dataclass(frozen=True)
class Trust:
    """``first``: of the best missing facts. ``places``: the reliability of each place, by name."""

    first: tuple[First, ...]
    places: dict[str, Reliability]
    chosen: str  # how the questions of the best missing facts were chosen

    @property
    def worst_ece(self) -> float:
        """The largest calibration error of any place."""
        return max(place.ece for place in self.places.values())

    def as_dict(self) -> JsonObject:
        """For JSON."""
        return asdict(self)


def measure_reliability(run: Run, split: str = "test") -> Reliability:
    """How far probabilities hold for the best answers to questions that make sense, by one held-out split."""
    if split not in SPLITS[1:]:
        raise UnknownNameError(f"{split!r} is not held out, expected valid or test")
    held_out = run.split("valid"), run.split("test")
    measured = run.held_out(split)
    share = len(measured) / sum(len(part) for part in held_out)
    predictor = run.predictor_knowing(("train",))
    questions = _questions(run)
    shown = shown_facts(run.scorer, predictor.graph, measured, Sample(questions, questions, seed=1))
    if run.calibration.fitted:
        logits = run.calibration.logits(predictor.graph, shown.facts, shown.shares)
    else:
        logits = predictor.weigh(shown.facts).scores.double()
    is_true = are_in(shown.facts, measured, predictor.graph)
    return reliability(torch.sigmoid(logits), is_true, share, shown.weights)


def measure_trust(run: Run, progress: ProgressFunction | None = None) -> Trust:
    """What is said and what is true. Raises RunFolderError where nothing is held out."""
    predictor = run.predictor_knowing(("train",))
    held_out, test = np.concatenate([run.held_out("valid"), run.split("test")]), run.split("test")
    chosen = "all"
    if is_slow(run.scorer) and len(predictor.missing_questions()) > 2 * fit_questions(run.scorer):
        missing, chosen = _retrieved(run, predictor, progress)
    else:
        missing = predictor.top_missing(max(COUNTS), progress=progress)
    places = {"questions": measure_reliability(run), "top missing": _measured(run, missing, held_out)}
    generator = torch.Generator().manual_seed(1)
    few = HEADS // 10 if is_slow(run.scorer) else HEADS
    heads = torch.randperm(len(run.entities), generator=generator)[:few].tolist()
    asked = [predictor.predict(head=run.entities.labels[head], k=10) for head in heads]
    places["all relations of a head"] = _measured(run, Predictions(fact for part in asked for fact in part), held_out)
    facts = _typed_triples(predictor, generator, TRIPLES // 4 if is_slow(run.scorer) else TRIPLES)
    weighed = predictor.weigh(facts)
    places["given triples"] = reliability(weighed.probabilities, are_in(facts, held_out, predictor.graph))
    ids = _ids(run, missing)
    first = first_of_list(
        np.array([fact.probability for fact in missing]),
        are_in(ids, held_out, predictor.graph).numpy(),
        are_in(ids, test, predictor.graph).numpy(),
        len(test) / len(held_out),
        COUNTS,
    )
    return Trust(first, places, chosen)


def _questions(run: Run) -> int:
    few = fit_questions(run.scorer)
    return few // SLOW_SHARE if is_slow(run.scorer) else few


def _retrieved(run: Run, predictor: Predictor, progress: ProgressFunction | None) -> tuple[Predictions, str]:
    """The best missing facts of a run that is slow to ask: of promising questions, else of random ones."""
    if embedding_member(run) is not None:
        found = run.retrieval(ask=2 * QUESTIONS, missing_from=("train",)).top_missing(max(COUNTS), progress=progress)
        return found, "promising"
    questions = predictor.missing_questions()
    order = torch.randperm(len(questions), generator=torch.Generator().manual_seed(0))[: 2 * QUESTIONS]
    return predictor.top_missing(max(COUNTS), questions=questions[order], progress=progress), "random"


def _measured(run: Run, facts: Predictions, held_out: np.ndarray) -> Reliability:
    chances = torch.tensor([fact.probability for fact in facts], dtype=torch.float64)
    return reliability(chances, are_in(_ids(run, facts), held_out, run.predictor.graph))


def _ids(run: Run, facts: Predictions) -> Tensor:
    rows = [
        [
            run.entities.id_of(fact.head_label),
            run.relations.id_of(fact.relation_label),
            run.entities.id_of(fact.tail_label),
        ]
        for fact in facts
    ]
    return torch.tensor(rows, dtype=torch.long).view(-1, 3)


def _typed_triples(predictor: Predictor, generator: torch.Generator, count: int) -> Tensor:
    """Random triples of entities seen in their places that are not known, ``[n, 3]``."""
    triples = torch.from_numpy(predictor.splits[0])
    heads, relation_ids, _ = triples[torch.randint(len(triples), (count,), generator=generator)].unbind(1)
    types = predictor.graph.types
    starts, ends = types.offsets[relation_ids], types.offsets[relation_ids + 1]
    draw = torch.rand(count, generator=generator)
    tails = types.entity_ids[starts + (draw * (ends - starts)).long().clamp(max=(ends - starts - 1))]
    facts = torch.stack([heads, relation_ids, tails], 1)
    return facts[~predictor.known.hold(heads, relation_ids, tails)]
