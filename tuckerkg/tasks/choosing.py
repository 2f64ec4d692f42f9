"""Which encoder, which start vectors and which counts: what judges unseen labels best, by a few trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from tuckerkg.config.settings import Settings, parse_settings
from tuckerkg.tasks.counts import CountClassifier, CountSettings
from tuckerkg.tasks.figures import Judgement, judge
from tuckerkg.tasks.probabilities import fit_probabilities
from tuckerkg.tasks.surroundings import Surroundings
from tuckerkg.tasks.task import TRAIN, Task, TaskKind, stratified_folds
from tuckerkg.tasks.training import FOLD_SEED, Trial, try_settings
from tuckerkg.types import Counted, JsonObject, LogFunction, ignore

STARTS = (1, 5, 25, 100)  # facts that a node must be in to have a start vector of its own
PLAIN = {"input_norm": False, "message_norm": False, "output_norm": False}
VARIANTS: dict[str, tuple[JsonObject, ...]] = {
    "rgcn": ({},),
    "tgcn": ({}, PLAIN, {"bases": 32}),
    "compgcn": ({},),
    "sacn": ({},),
}
AUTOMATIC = ("rgcn", "tgcn")  # the layers that paid best
LAYERS = {"nodes": (2, 3), "graphs": (2, 3, 4)}
HOPS = {"nodes": (2,), "graphs": (2, 3)}
COUNTS: tuple[Counted, ...] = ("sums", "tf-idf")
COUNT_DECAYS = (1e-3, 1e-4, 1e-5)
PATIENCE = 4  # evaluations
SUMS: JsonObject = {"normalize": "none"}  # counts what a mean forgets, such as the bonds of an atom
BASE: JsonObject = {
    "model": {"dim": 32, "relation_dim": 32},
    "train": {"epochs": 60.0, "evaluate_every": 5.0, "lr": 0.01, "schedule": "constant", "clip": 0.0},
}
OF_GRAPHS: JsonObject = {
    "classify": {"dropout": 0.5, "weight_decay": 0.0001},
    "train": {**BASE["train"], "epochs": 100.0},
}


def base_settings(kind: TaskKind, dataset: str, seed: int = 0, encoder: JsonObject | None = None) -> JsonObject:
    """Values that both kinds start from, with the encoder that was asked for."""
    values: JsonObject = {"kind": kind, "dataset": dataset, **BASE, **(OF_GRAPHS if kind == "graphs" else {})}
    values["train"] = {**values["train"], "seed": seed, "patience": PATIENCE}
    values["encoder"] = encoder or {"name": AUTOMATIC[0]}
    return values


def choose(
    task: Task, values: JsonObject, encoders: Sequence[str] = AUTOMATIC, log: LogFunction = ignore
) -> tuple[Settings, list[Trial]]:
    """Try starts with the first encoder, then variants, other encoders and depths with the best start, then counts.

    Returns:
        The settings that judged unseen labels best, and all trials. They have the epochs of the best validation.
    """
    trials: list[Trial] = []

    def attempt(changes: JsonObject, encoder: JsonObject) -> Trial:
        settings = parse_settings(_merged({**values, "encoder": encoder}, changes))
        trial = try_settings(task, settings, rival=max(trials, key=_headline, default=None))
        trials.append(trial)
        log(f"{described(settings)}: {_told(trial)}")
        return trial

    sums = SUMS if task.kind == "graphs" and task.node_types is not None else {}
    first = {"name": encoders[0], **VARIANTS.get(encoders[0], ({},))[0], **sums}
    starts = STARTS if task.node_types is None else STARTS[:1]
    best = max((attempt({"classify": {"least": least}}, first) for least in starts), key=_headline)
    least = {"classify": {"least": best.settings.classify.least}}
    others = [{"name": name, **variant, **sums} for name in encoders for variant in VARIANTS.get(name, ({},))]
    for encoder in others:
        if encoder != first:
            best = max(best, attempt(least, encoder), key=_headline)
    chosen = {"name": best.settings.encoder.name, **best.settings.encoder.options}
    for layers in LAYERS[task.kind]:
        if layers != chosen.get("layers", layers):
            best = max(best, attempt(least, {**chosen, "layers": layers}), key=_headline)
    final = best.settings.model_copy(
        update={"train": best.settings.train.model_copy(update={"epochs": float(best.epochs)})}
    )
    final = with_counts(task, final, best, log)
    log(f"chosen: {described(final)}, {best.epochs} epochs")
    return final, trials


def with_counts(task: Task, settings: Settings, encoder: Trial, log: LogFunction = ignore) -> Settings:
    """The settings with the counts that judge unseen labels best beside the encoder, or without any."""
    _, label = task.of_part(TRAIN)
    fold = stratified_folds(label, settings.classify.members, FOLD_SEED)
    best, chosen = encoder.judgement.headline, settings
    for hops in HOPS[task.kind]:
        surroundings = Surroundings(task, hops)
        for kind in COUNTS:
            for decay in COUNT_DECAYS:
                found = CountClassifier(task, fold, CountSettings(kind, hops, decay), surroundings)
                judgement, share = _beside(encoder, found.unseen, task.classes)
                if judgement.headline > best:
                    counted = {"counts": kind, "hops": hops, "counts_decay": decay}
                    best, chosen = (
                        judgement.headline,
                        settings.model_copy(update={"classify": settings.classify.model_copy(update=counted)}),
                    )
                    log(f"with {kind} {hops} away, decay {decay:g}, share {share:.0%}: {_in_words(judgement)}")
    return chosen


def _beside(encoder: Trial, counts: Tensor, classes: tuple[str, ...]) -> tuple[Judgement, float]:
    """How unseen labels are judged by encoder and counts together, and the share of these."""
    fitted = fit_probabilities(encoder.scores, encoder.label, counts)
    return judge(fitted.of(encoder.scores[None], counts), encoder.label, classes), fitted.counted


def described(settings: Settings) -> str:
    """Encoder, its options that matter here, and starts, in a few words."""
    options = settings.encoder.options
    words = [settings.encoder.name, f"{options.get('layers', 1)} layers"]
    if options.get("bases") and settings.encoder.name == "tgcn":
        words.append(f"CP core of rank {options['bases']}")
    if settings.encoder.name == "tgcn" and not options.get("message_norm", True):
        words.append("no norms")
    if settings.kind == "nodes":
        words.append(f"own vectors from {settings.classify.least} facts on")
    if settings.classify.counts != "none":
        words.append(f"counts ({settings.classify.counts}) {settings.classify.hops} away")
    return ", ".join(words)


def _told(trial: Trial) -> str:
    return f"{_in_words(trial.judgement)} after {trial.epochs} epochs"


def _in_words(found: Judgement) -> str:
    return f"unseen labels {found.accuracy:.1%} right, likelihood {found.likelihood:.3f}"


def _headline(trial: Trial) -> float:
    return trial.judgement.headline


def _merged(values: JsonObject, changes: JsonObject) -> JsonObject:
    merged: dict[str, Any] = dict(values)
    for key, change in changes.items():
        merged[key] = {**merged.get(key, {}), **change} if isinstance(change, dict) else change
    return merged
