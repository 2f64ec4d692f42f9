"""Where an encoder over tables pays: with it, without it and from the question, by how many facts an entity has.

Three graphs of each dataset: all training facts; every tenth entity left with one to three of its facts; a random half
of all facts. TuckER alone, TGCN in front of TuckER (messages from the first step on) and messages from the question are
trained on each, with about equal CPU time. Questions of a random part of the test split are ranked, filtered by all
that the whole dataset knows, and counted by how many training facts their two entities have left.

    python scripts/measure_sparsity.py --datasets wn18rr fb15k-237 --out results/studies/sparsity.json
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import tuckerkg
from tuckerkg.data.dataset import Dataset
from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.evaluation.ranking import rank
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.inference.run import Run
from tuckerkg.nn.contracts import ReadsEdges
from tuckerkg.paper.result_file import commit
from tuckerkg.training.callbacks import NullCallback
from tuckerkg.types import JsonObject

GRAPHS = ("all", "thin", "half")
MODELS = ("off", "on", "paths")
THIN, LEFT = 0.1, (1, 2, 3)  # the share of entities that lose facts, and how many they keep
SEED = 0
BINS = (1, 2, 4, 8, 16, 32, 64)  # facts of an entity, the lowest of each bin

TGCN: JsonObject = {
    "encoder": "tgcn", "encoder.layers": 2, "encoder.activation": "none", "encoder.output_norm": False,
    "encoder.normalize": "degree", "encoder.init": "identity", "batch.remove_own_edges": True,
}  # fmt: skip
SETTINGS: dict[str, dict[str, tuple[str, JsonObject]]] = {
    "wn18rr": {
        "off": ("wn18rr-none-tucker-100", {"train.epochs": 24.0, "train.evaluate_every": 6.0}),
        "on": ("wn18rr-none-tucker-100", {
            **TGCN, "batch.queries": 1024, "phase": [{"messages": 0.5, "candidates": 4000}],
            "train.epochs": 12.0, "train.evaluate_every": 3.0,
        }),
        "paths": ("wn18rr-paths", {"train.steps": 2000, "train.evaluate_every": 0.1}),
    },
    "fb15k-237": {
        "off": ("fb15k-237-none-tucker-100", {
            "train.epochs": 30.0, "train.evaluate_every": 5.0, "phase": [{"epochs": 27.0, "candidates": 2000}, {}],
        }),
        "on": ("fb15k-237-none-tucker-100", {
            **TGCN, "batch.queries": 4096, "train.epochs": 10.0,
            "phase": [{"epochs": 9.0, "messages": 0.5, "candidates": 4000}, {"messages": 0.5}],
            "train.evaluate_every": 2.0,
        }),
        "paths": ("fb15k-237-paths", {"train.steps": 800, "train.evaluate_every": 0.015}),
    },
}  # fmt: skip


def thinned(dataset: Dataset) -> tuple[Dataset, np.ndarray]:
    """Every tenth entity keeps one to three of its facts with entities that keep all; which ones they are, ``[N]``."""
    random = np.random.default_rng([SEED, 1])
    chosen = np.zeros(len(dataset.entities), bool)
    chosen[random.permutation(len(chosen))[: round(THIN * len(chosen))]] = True
    head, tail = chosen[dataset.train[:, 0]], chosen[dataset.train[:, 2]]
    keep = ~(head | tail)
    rows = random.permutation(np.nonzero(head ^ tail)[0])
    owner = np.where(head[rows], dataset.train[rows, 0], dataset.train[rows, 2])
    most = random.choice(LEFT, size=len(chosen))
    order = np.argsort(owner, kind="stable")
    first = np.searchsorted(owner[order], owner[order], side="left")
    kept = np.arange(len(order)) - first < most[owner[order]]
    keep[rows[order[kept]]] = True
    return dataclasses.replace(dataset, train=dataset.train[keep]), chosen


def halved(dataset: Dataset) -> Dataset:
    """A random half of the training facts."""
    random = np.random.default_rng([SEED, 2])
    rows = np.sort(random.permutation(len(dataset.train))[: len(dataset.train) // 2])
    return dataclasses.replace(dataset, train=dataset.train[rows])


def asked_of(dataset: Dataset, among: np.ndarray | None, most: int) -> np.ndarray:
    """Random test triples, those with an entity ``among`` only."""
    triples = dataset.test if among is None else dataset.test[among[dataset.test[:, [0, 2]]].any(1)]
    rows = np.random.default_rng([SEED, 3]).permutation(len(triples))[:most]
    return np.asarray(triples[np.sort(rows)])


def measured(run: Run, train: np.ndarray, asked: np.ndarray, known: KnownTails, messages: bool = True) -> JsonObject:
    """MRR of all questions, and by the facts that the asked entity and the answer have left."""
    scorer = run.scorer
    if not messages and isinstance(scorer, ReadsEdges):
        scorer = scorer.without(range(len(train)))
    reciprocal = 1.0 / rank(scorer, asked, known).random(0)  # [2n]: tails of all triples, then heads
    facts = np.bincount(train[:, [0, 2]].ravel(), minlength=len(run.entities))
    places = {"asked": np.concatenate([asked[:, 0], asked[:, 2]]), "answer": np.concatenate([asked[:, 2], asked[:, 0]])}
    found: JsonObject = {"mrr": float(reciprocal.mean()), "questions": len(reciprocal)}
    for name, entities in places.items():
        found[name] = [
            {"facts": int(low), "mrr": float(reciprocal[inside].mean()), "questions": int(inside.sum())}
            for low, inside in bins(facts[entities])
            if inside.any()
        ]
    return found


def bins(facts: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """The lowest count of each bin and which are inside; 0 for entities without facts."""
    edges = (0, *BINS, np.iinfo(np.int64).max)
    return [(low, (facts >= low) & (facts < high)) for low, high in itertools.pairwise(edges)]


def main() -> None:
    """Measures what is missing in the file and writes it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=tuple(SETTINGS), choices=tuple(SETTINGS))
    parser.add_argument("--graphs", nargs="+", default=GRAPHS, choices=GRAPHS)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--asked", type=int, default=1500, help="test triples that are ranked")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rows = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else []
    done = {(row["dataset"], row["graph"], row["model"]) for row in rows}
    for name in given.datasets:
        whole = tuckerkg.load_dataset(name)
        known = KnownTails.from_splits([whole.split(split) for split in SPLITS], len(whole.relations))
        for graph in given.graphs:
            among = None
            data = halved(whole) if graph == "half" else whole
            if graph == "thin":
                data, among = thinned(whole)
            asked = asked_of(whole, among, given.asked)
            for model in given.models:
                if (name, graph, model) in done:
                    continue
                experiment, changes = SETTINGS[name][model]
                clock = time.process_time()
                with tempfile.TemporaryDirectory() as place:
                    run = tuckerkg.train(
                        data, settings=experiment, overrides=changes, seed=SEED, out=Path(place) / "run",
                        callback=NullCallback(),
                    )  # fmt: skip
                    row = {
                        "dataset": name, "graph": graph, "model": model, "seed": SEED, "experiment": experiment,
                        "cpu_minutes": round((time.process_time() - clock) / 60, 2), "train_facts": len(data.train),
                        "threads": torch.get_num_threads(), "commit": commit(),
                        **measured(run, data.train, asked, known),
                    }  # fmt: skip
                    if model == "on":
                        row["without_messages"] = measured(run, data.train, asked, known, messages=False)["mrr"]
                rows.append(row)
                print(json.dumps({key: value for key, value in row.items() if not isinstance(value, list)}), flush=True)
                given.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
