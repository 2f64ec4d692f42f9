"""How well nodes and graphs are told apart: AIFB and MUTAG (RDF) on their fixed splits and by folds, MUTAG (molecules).

Everything is chosen on labels that are not held out, once per split; seeds then differ in their random start. What the
encoders and the counts of the same runs say alone stands beside. The molecules are also told apart by a bag of their
atoms and bonds, without any message.

    python scripts/measure_classes.py --sets aifb --encoders auto rgcn --seeds 10 --out classes.json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tuckerkg.paper.result_file import commit
from tuckerkg.tasks.choosing import described
from tuckerkg.tasks.classify import (
    LabelOptions,
    ReadTask,
    cross_validate,
    read_task_files,
    settings_for,
    train_task,
)
from tuckerkg.tasks.run import ClassRun
from tuckerkg.tasks.task import stratified_folds
from tuckerkg.training.callbacks import NullCallback

TARGETS = {"aifb": "label_affiliation", "mutag": "label_mutagenic"}
SETS = (*TARGETS, "tu-mutag")
FOLD_SEED = 0


def read(name: str, data: Path) -> ReadTask:
    """A set with its fixed split; the molecules have none."""
    if name == "tu-mutag":
        return read_task_files(str(data / name), LabelOptions())
    folder = data / name
    options = LabelOptions(target=TARGETS[name], labels=folder / "trainingSet.tsv", test_labels=folder / "testSet.tsv")
    return read_task_files(str(folder / f"{name}_stripped.nt.gz"), options)


def on_the_split(found: ReadTask, encoder: str | None, seeds: int) -> dict[str, Any]:
    """Accuracy on the fixed held-out labels, a training for each seed."""
    clock = time.perf_counter()
    settings = settings_for(found, encoder, 0, None)
    chosen, runs, spent = time.perf_counter() - clock, [], []
    for seed in range(seeds):
        own = settings.model_copy(update={"train": settings.train.model_copy(update={"seed": seed})})
        clock = time.perf_counter()
        runs.append(train_task(found, own, None, NullCallback()))
        runs[-1].evaluate()
        spent.append(time.perf_counter() - clock)
    return {**judged(runs), "chosen": described(settings), "seconds_to_choose": round(chosen, 1),
            "seconds_a_run": round(statistics.median(spent), 1)}  # fmt: skip


def by_folds(found: ReadTask, encoder: str | None) -> dict[str, Any]:
    """Accuracy on ten parts that are held out in turn; settings are chosen anew on the rest."""
    clock = time.perf_counter()
    runs = cross_validate(found, encoder, folds=10, seed=FOLD_SEED)
    spent = (time.perf_counter() - clock) / len(runs)
    chosen = [described(run.settings) for run in runs]
    return {**judged(runs), "chosen": chosen, "seconds_a_fold": round(spent, 1)}


def judged(runs: list[ClassRun]) -> dict[str, Any]:
    """Accuracies on held-out labels: of the whole committee, of its encoders alone, and of its counts alone."""
    found = summary([run.evaluate().judgement.accuracy for run in runs])
    found["encoder_alone"] = [run.evaluate("test", "encoder").judgement.accuracy for run in runs]
    found["counts_alone"] = [
        None if run.counts is None else run.evaluate("test", "counts").judgement.accuracy for run in runs
    ]
    return found


def bag_of_labels(found: ReadTask) -> dict[str, Any]:
    """Ten folds of a softmax regression on how often each kind of atom and bond stands in a molecule."""
    task = found.task
    assert task.graph_of is not None
    assert task.node_types is not None
    graphs = len(task.graphs)
    atoms = torch.zeros(graphs, int(task.node_types.max()) + 1)
    atoms.index_put_((task.graph_of, task.node_types), torch.ones(len(task.graph_of)), accumulate=True)
    bonds = torch.zeros(graphs, task.num_relations)
    of_bond = task.graph_of[task.triples[:, 0]]
    bonds.index_put_((of_bond, torch.from_numpy(task.triples[:, 1])), torch.ones(len(of_bond)), accumulate=True)
    counts = torch.cat([atoms, bonds], 1)
    fold, accuracies = stratified_folds(task.label, 10, FOLD_SEED + 1), []
    for number in range(10):
        train, test = task.labelled[fold != number], task.labelled[fold == number]
        values = (counts - counts[train].mean(0)) / counts[train].std(0).clamp_min(1e-6)
        rows = torch.cat([values, torch.ones(graphs, 1)], 1)
        weights = regression(rows[train], task.label[fold != number], len(task.classes))
        told = (rows[test] @ weights).argmax(1)
        accuracies.append(float((told == task.label[fold == number]).float().mean()))
    return summary(accuracies)


def regression(rows: torch.Tensor, label: torch.Tensor, classes: int) -> torch.Tensor:
    """Weights ``[f, C]`` of a softmax regression with a small penalty."""
    weights = torch.zeros(rows.shape[1], classes, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=200)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(rows @ weights, label) + 0.01 * weights.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return weights.detach()


def summary(accuracies: list[float]) -> dict[str, Any]:
    """Mean, spread and all of them."""
    return {
        "accuracy": float(np.mean(accuracies)), "deviation": statistics.stdev(accuracies), "all": accuracies,
    }  # fmt: skip


def main() -> None:
    """Measures what is missing in the file and writes it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--encoders", nargs="+", default=("auto",), help="auto: what is chosen; or names of encoders")
    parser.add_argument("--seeds", type=int, default=10, help="on the fixed split; 0: not measured")
    parser.add_argument("--folds", action="store_true", help="also by ten folds")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TUCKERKG_DATA", ".")))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rows = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else []
    done = {(row["set"], row["encoder"], row["how"]) for row in rows}

    def keep(row: dict[str, Any]) -> None:
        rows.append({**row, "commit": commit(), "threads": torch.get_num_threads()})
        print(json.dumps(rows[-1]), flush=True)
        given.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")

    for name in given.sets:
        found = read(name, given.data)
        if name == "tu-mutag" and (name, "bag of labels", "folds") not in done:
            keep({"set": name, "encoder": "bag of labels", "how": "folds", **bag_of_labels(found)})
        for encoder in given.encoders:
            of_name = None if encoder == "auto" else encoder
            if name != "tu-mutag" and given.seeds and (name, encoder, "split") not in done:
                keep({"set": name, "encoder": encoder, "how": "split", **on_the_split(found, of_name, given.seeds)})
            if (given.folds or name == "tu-mutag") and (name, encoder, "folds") not in done:
                keep({"set": name, "encoder": encoder, "how": "folds", **by_folds(found, of_name)})


if __name__ == "__main__":
    main()
