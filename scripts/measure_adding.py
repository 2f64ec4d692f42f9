"""What is lost when entities are added to a run instead of being trained with it.

A share of a dataset's entities is held out with all their triples. One run is trained without them, and half of those
triples are added to it afterwards; another one is trained with that half. Both are asked for the other half: MRR,
filtered, both directions, over all entities; beside it what a relation's most frequent answers would score.

    python scripts/measure_adding.py fb15k-237 --settings fb15k-237-tgcn-tucker-short --out results/studies/adding.json
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from tuckerkg import api
from tuckerkg.config.toml import load_settings
from tuckerkg.data.dataset import Dataset
from tuckerkg.data.labels import Vocabulary
from tuckerkg.data.load import load
from tuckerkg.evaluation.frequency_baseline import FrequencyScorer
from tuckerkg.evaluation.ranking import rank
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.inference.adding.add_facts import add_facts
from tuckerkg.inference.run import Run
from tuckerkg.nn.contracts import Scorer


def held_out(data: Dataset, share: float, seed: int) -> tuple[Dataset, np.ndarray, np.ndarray]:
    """The dataset without some entities' triples, and two halves of those, in the ids of ``data``."""
    random = np.random.default_rng(seed)
    chosen = np.zeros(len(data.entities), dtype=bool)
    chosen[random.choice(len(data.entities), int(share * len(data.entities)), replace=False)] = True
    parts = {}
    taken = []
    for name in ("train", "valid", "test"):
        triples = data.split(name)
        touched = chosen[triples[:, 0]] | chosen[triples[:, 2]]
        parts[name] = triples[~touched]
        taken.append(triples[touched])
    taken_out = np.concatenate(taken)
    random.shuffle(taken_out)
    half = len(taken_out) // 2
    return replace(data, **parts), taken_out[:half], taken_out[half:]


def renumbered(data: Dataset) -> Dataset:
    """The same triples with the entities that are left, numbered anew."""
    everything = np.concatenate([data.train, data.valid, data.test])
    kept = np.unique(everything[:, [0, 2]])
    ids = np.full(len(data.entities), -1)
    ids[kept] = np.arange(len(kept))
    parts = {}
    for name in ("train", "valid", "test"):
        triples = data.split(name).copy()
        triples[:, [0, 2]] = ids[triples[:, [0, 2]]]
        parts[name] = triples
    return replace(data, entities=Vocabulary(tuple(data.entities[i] for i in kept)), **parts)


def asked(run: Run, data: Dataset, triples: np.ndarray) -> np.ndarray:
    """``triples`` in the ids of ``run``; those with an entity that it does not know are left out."""
    ids = np.array([run.entities.exact_id(label) if label in run.entities else -1 for label in data.entities.labels])
    turned = triples.copy()
    turned[:, [0, 2]] = ids[triples[:, [0, 2]]]
    return turned[(turned >= 0).all(1)]


def mrr(run: Run, triples: np.ndarray, scorer: Scorer) -> float:
    """Filtered by what the run knows and by ``triples`` themselves, random ties."""
    splits = [run.split(name) for name in ("train", "valid", "test")]
    found = rank(scorer, triples, KnownTails.from_splits([*splits, triples], len(run.relations)))
    return float((1.0 / found.random(0)).mean())


def main() -> None:
    """Trains both runs, adds, compares and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--settings", required=True)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=Path, help="keep the runs here, and go on with those that are there")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    data = load(arguments.dataset)
    without, half, rest = held_out(data, arguments.share, arguments.seed)
    settings = load_settings(arguments.settings, {"dataset": arguments.dataset, "train.seed": arguments.seed})
    folder = arguments.runs or Path(tempfile.mkdtemp())
    runs = {}
    for name, part in (
        ("without", renumbered(without)),
        ("with", renumbered(replace(without, train=np.concatenate([without.train, half])))),
    ):
        path = folder / f"{arguments.dataset}-{name}"
        runs[name] = api.resume(path if path.exists() else api.prepare(part, settings, path))
    path = folder / "added.tsv"
    path.write_text(
        "".join(f"{data.entities[h]}\t{data.relations[r]}\t{data.entities[t]}\n" for h, r, t in half.tolist()),
        encoding="utf-8",
    )
    clock = time.perf_counter()
    if runs["without"].version == 1:
        add_facts(runs["without"], path)
    seconds = time.perf_counter() - clock
    grown, retrained = Run(runs["without"].folder), runs["with"]
    if set(grown.entities.labels) != set(retrained.entities.labels):
        raise SystemExit("the two runs have different entities")
    frequency = FrequencyScorer(retrained.split("train"), len(retrained.entities), len(retrained.relations))
    questions = asked(retrained, data, rest)
    figures = {
        "added": mrr(grown, asked(grown, data, rest), grown.scorer),
        "retrained": mrr(retrained, questions, retrained.scorer),
        "frequency": mrr(retrained, questions, frequency),
    }
    result = {
        "dataset": arguments.dataset,
        "settings": settings.as_dict(),
        "seed": arguments.seed,
        "share_of_entities": arguments.share,
        "added_triples": len(half),
        "asked_triples": len(questions),
        "left_out": len(rest) - len(questions),
        "seconds_to_add": seconds,
        "mrr": figures,
        "share_of_retrained": figures["added"] / figures["retrained"],
    }
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result["mrr"] | {"share": result["share_of_retrained"], "seconds": seconds}, indent=2))


if __name__ == "__main__":
    main()
