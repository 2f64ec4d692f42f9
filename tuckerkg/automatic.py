"""Training without a choice to make: what suits a graph is read off it, measured here and decided on validation.

1. ``plan`` reads the graph: how far validation's answers lie from their heads gives the number of layers; whether
   validation's pairs are joined by other edges as often as training's gives what is hidden; a timed step gives how
   many questions fit into the time.
2. Messages from the question are trained, several times for different lengths where that is quick: small graphs are
   soon learnt by heart, and validation's weights tell which length was right. Then an embedding model.
3. They are blended with weights fitted on validation; the blend is kept if it is better there than each alone.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from tuckerkg.batches.questions import QuestionBatches
from tuckerkg.config.settings import Settings, parse_settings
from tuckerkg.data.dataset import Dataset
from tuckerkg.inference.blend import blend
from tuckerkg.inference.run import Run, load
from tuckerkg.kernels.questions.graph import QuestionGraph
from tuckerkg.nn.paths import Hide, PathModel
from tuckerkg.storage.run_folder import check_place
from tuckerkg.storage.sealed_folder import write_atomic
from tuckerkg.training.timing import seconds_per_epoch
from tuckerkg.types import JsonObject, LogFunction, ignore

MOST_MINUTES = 60.0  # where --minutes is not given
LENGTHS = ((0.75, 2.0, 6.0), (0.75, 2.0), (2.0,))  # passes over all questions of the members, where time allows
QUICK = (100.0, 600.0)  # seconds for three members and for two, where --minutes is not given
FEWEST, MOST = 2_400, 1_000_000  # questions of a run
LAYERS = (3, 6)
FARTHEST = 8  # edges that are followed to see how far answers lie
CLOSE = 0.95  # share of the answers within reach that layers must cover, with one layer to spare
LOOKED_AT = 400  # validation triples that this is measured on
VALIDATIONS = 12  # of a run
LEAST_VALIDATED, MOST_VALIDATED = 50, 1_000  # validation triples
PATIENCE = 5
VALIDATING = 0.25  # share of the time, at most
PATHS, PARTNER = 0.65, 0.25  # shares of the minutes for messages from the question and for embeddings


@dataclass(frozen=True)
class Plan:
    """What is trained, in this order, why, and how long that takes here."""

    members: tuple[Settings, ...]
    reasons: tuple[str, ...]
    seconds: float

    def as_dict(self) -> JsonObject:
        """For JSON."""
        return {
            "members": [member.as_dict() for member in self.members],
            "reasons": list(self.reasons),
            "seconds": self.seconds,
        }

    @classmethod
    def from_dict(cls, values: JsonObject) -> Plan:
        """The plan that ``as_dict`` came from."""
        members = tuple(parse_settings(member) for member in values["members"])
        return cls(members, tuple(values["reasons"]), float(values["seconds"]))


TrainOne = Callable[[Settings, Path], Run]
"""Train what settings describe into a run folder, or continue the run that is there."""


def choose_and_train(
    dataset: Dataset,
    out: Path,
    train_one: TrainOne,
    *,
    minutes: float | None = None,
    seed: int = 0,
    log: LogFunction = ignore,
) -> Run:
    """Train what is best on ``dataset`` into the run folder ``out``; see the top of this module.

    What is under way lies beside it in a folder that ends in ``.parts``: the same call continues there.

    Args:
        train_one: trains a member.
        minutes: how long it may take; None: what the graph needs, an hour at most.
        seed: of everything random; further seeds follow it.
        log: called with what is decided and why.
    """
    check_place(out)
    parts = out.with_name(f"{out.name}.parts")
    stored = parts / "plan.json"
    if stored.is_file():
        plan = Plan.from_dict(json.loads(stored.read_text(encoding="utf-8")))
        log(f"{parts}: continues what was begun there")
    else:
        plan = make_plan(dataset, minutes=minutes, seed=seed)
        parts.mkdir(parents=True, exist_ok=True)
        write_atomic(stored, json.dumps(plan.as_dict()).encode())
    for reason in plan.reasons:
        log(reason)
    log(f"about {_duration(plan.seconds)} on {torch.get_num_threads()} threads; --minutes bounds it, Ctrl-C saves")
    runs = []
    for settings in plan.members:
        log(f"{_name(settings)}:")
        runs.append(train_one(settings, parts / _name(settings)))
        if len(dataset.valid):
            part = settings.train.validate_on
            said = f" of {part:,} triples" if part else ""
            log(f"{_name(settings)}: validation MRR{said} {runs[-1].state['best_mrr']:.4f}")
    chosen = _best(runs, parts / "blend", log)
    shutil.move(chosen.path, out)
    shutil.rmtree(parts)
    return load(out)


def make_plan(dataset: Dataset, *, minutes: float | None = None, seed: int = 0) -> Plan:
    """Read the graph, time a step of each model, and decide what to train."""
    graph = QuestionGraphOf(dataset)
    layers, why_layers = graph.layers()
    hide, why_hide = graph.hide()
    limit = 60.0 * (MOST_MINUTES if minutes is None else minutes)
    base: JsonObject = {
        "kind": "paths",
        "dataset": dataset.name,
        "paths": {"layers": layers, "hide": hide},
        "train": {"seed": seed, "lr": 0.005, "warmup": 0.05, "patience": PATIENCE},
    }
    paths = parse_settings(base)
    speed = graph.speed(paths)
    most = PATHS * limit / speed.step  # questions that fit
    if not len(dataset.valid):
        questions = min(_wanted(dataset, LENGTHS[-1])[0], most)
        why = "no fact can be held out of this graph: nothing tells how good the result is, and nothing else is tried"
        member = parse_settings({**base, "train": {**base["train"], "steps": _steps(paths, questions)}})
        return Plan((member,), (why_layers, why, f"{questions:,.0f} questions"), questions * speed.step)
    bounds = [most] * 2 if minutes is not None else [min(most, seconds / speed.step) for seconds in QUICK]
    *several, one = (_wanted(dataset, lengths) for lengths in LENGTHS)
    fitting = [lengths for lengths, bound in zip(several, bounds, strict=True) if sum(lengths) <= bound]
    lengths = fitting[0] if fitting else [min(one[0], most)]
    members = []
    for place, questions in enumerate(lengths):
        steps = _steps(paths, questions)
        fitting_in = int(VALIDATING * questions * speed.step / VALIDATIONS / (2 * speed.answer))
        triples = int(np.clip(fitting_in, LEAST_VALIDATED, MOST_VALIDATED))
        train = {
            "seed": seed + place,
            "steps": steps,
            "evaluate_every": steps / VALIDATIONS * paths.paths.questions / (2 * len(dataset.train)),
            "validate_on": 0 if triples >= len(dataset.valid) else triples,
        }
        members.append(parse_settings({**base, "train": {**base["train"], **train}}))
    seconds = sum(lengths) * speed.step
    partner, partner_seconds = _partner(dataset, seed, min(max(seconds / 2, 20.0), PARTNER * limit))
    asked = f"{' and '.join(f'{questions:,.0f}' for questions in lengths)} questions"
    return Plan((*members, partner), (why_layers, why_hide, asked), seconds * (1 + VALIDATING) + partner_seconds)


def _wanted(dataset: Dataset, lengths: Sequence[float]) -> list[float]:
    """Questions for so many passes over all of them; on the smallest graphs more, by one factor."""
    factor = max(1.0, FEWEST / (LENGTHS[0][0] * 2 * len(dataset.train)))
    return [min(length * factor * 2 * len(dataset.train), MOST) for length in lengths]


def _steps(settings: Settings, questions: float) -> int:
    return max(1, round(questions / settings.paths.questions))


@dataclass(frozen=True)
class Speed:
    """Seconds per question on all threads."""

    step: float
    answer: float


class QuestionGraphOf:
    """What can be read off a dataset before training."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.model = PathModel(len(dataset.entities), len(dataset.relations))
        self.graph: QuestionGraph = self.model.message_graph(dataset.train)

    def layers(self) -> tuple[int, str]:
        """How many steps messages should go, and why."""
        asked = self.dataset.valid if len(self.dataset.valid) else self.dataset.train
        asked = asked[np.random.default_rng(0).permutation(len(asked))[:LOOKED_AT]]
        far = self.graph.distances(asked[:, 0], asked[:, 2], FARTHEST)
        within = [float(np.mean((far >= 0) & (far <= steps))) for steps in range(FARTHEST + 1)]
        near = next(steps for steps, share in enumerate(within) if share >= CLOSE * within[-1])
        layers = int(np.clip(near + 1, *LAYERS))
        return (
            layers,
            f"messages go {layers} steps: {within[min(near, FARTHEST)]:.0%} of held-out answers lie within {near}",
        )

    def hide(self) -> tuple[Hide, str]:
        """Which edges to hide from a training question, so that it looks like one of validation, and why."""
        train, valid = (_pairs(part, len(self.dataset.entities)) for part in (self.dataset.train, self.dataset.valid))
        joined, counts = np.unique(train, return_counts=True)
        beside = float(np.mean(counts[np.searchsorted(joined, train)] > 1))
        held_out = float(np.mean(np.isin(valid, joined))) if len(valid) else beside
        hide: Hide = "own" if abs(held_out - beside) <= held_out else "pair"
        what = "the asked fact is hidden" if hide == "own" else "all edges between head and answer are hidden"
        return hide, f"{what}: another edge joins {beside:.0%} of training's pairs and {held_out:.0%} of validation's"

    def speed(self, settings: Settings) -> Speed:
        """Time a step and answers, compilation left out."""
        paths = settings.paths
        sizes = len(self.dataset.entities), len(self.dataset.relations)
        model = PathModel(*sizes, width=paths.width, layers=paths.layers, power=paths.power)
        batches = QuestionBatches(self.dataset.train, *sizes, 0, questions=paths.questions, answers=paths.answers)
        batch = batches.batch(0)
        heads = torch.from_numpy(batch.questions.heads)
        relation_ids = torch.from_numpy(batch.questions.relations)
        times = []
        for _ in range(2):
            begun = time.perf_counter()
            model.loss(batch.graph, batch.questions, hide=paths.hide, least_gradient=float(paths.least_gradient))
            between = time.perf_counter()
            model.scores(batch.graph, heads, relation_ids)
            times.append((between - begun, time.perf_counter() - between))
        return Speed(*(seconds / len(heads) for seconds in times[-1]))


def _partner(dataset: Dataset, seed: int, seconds: float) -> tuple[Settings, float]:
    """An embedding model that trains about so long, and how long."""
    values: JsonObject = {
        "dataset": dataset.name,
        "encoder": {"name": "none"},
        "decoder": {"name": "tucker", "dropout": 0.3, "query_dropout": 0.3},
        "loss": {"name": "softmax", "label_smoothing": 0.1},
        "batch": {"name": "whole", "queries": int(np.clip(len(dataset.train) // 40, 32, 1_024))},
        "train": {"seed": seed, "lr": 0.004},
    }
    epoch = seconds_per_epoch(dataset, parse_settings(values))
    epochs = float(np.clip(round(seconds / epoch), 5, 100))
    values["train"] |= {"epochs": epochs, "evaluate_every": max(1.0, epochs // 10), "patience": PATIENCE}
    return parse_settings(values), epochs * epoch


def _best(runs: Sequence[Run], place: Path, log: LogFunction) -> Run:
    """The run that is best on validation, or the blend of all."""
    if not len(runs[0].split("valid")):
        return runs[0]
    shutil.rmtree(place, ignore_errors=True)
    blended = blend(runs, out=place, log=ignore)
    if blended.state["weights_by"] == "member":
        best = max(runs, key=lambda run: _alone(blended, run))
        log(f"{best.path.name} alone is best on validation, MRR {_alone(blended, best):.4f}: it is kept")
        return best
    log(f"the blend is best on validation, MRR {blended.state['best_mrr']:.4f}: it is kept")
    return blended


def _alone(blended: Run, run: Run) -> float:
    """The validation MRR of a member over all of validation."""
    return next(float(m["valid_mrr"]) for m in blended.state["members"] if m["name"] == run.path.resolve().name)


def _pairs(triples: np.ndarray, num_entities: int) -> np.ndarray:
    """One number for the two entities of each triple, whichever is the head."""
    ends = np.sort(triples[:, [0, 2]], axis=1)
    return np.asarray(ends[:, 0] * num_entities + ends[:, 1])


def _name(settings: Settings) -> str:
    return f"{settings.kind}-seed{settings.train.seed}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 100 else f"{seconds / 60:.0f} minutes"
