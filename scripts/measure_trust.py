"""Whether probabilities and verdicts hold: what runs say of missing facts and of false facts that they did not make.

For the best missing facts of a graph whose validation and test are hidden, the mean probability that is said and the
share that is true. For the test facts and as many false ones, each a test fact with one end replaced by a random entity
seen in that place, what ``score`` says of them. These facts are written to a file and read back, as a user's would be.

    python scripts/measure_trust.py runs/countries runs/umls --out results/studies/trust.json
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tuckerkg import load
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.inference.labelled import area_under_curve
from tuckerkg.inference.query_files import score_file
from tuckerkg.inference.run import Run


def corrupted(run: Run, seed: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Test facts ``[n, 3]`` and as many false ones; facts without a false one of the right type are left out."""
    random = np.random.default_rng(seed)
    everything = np.concatenate([run.split(name) for name in ("train", "valid", "test")])
    known = {tuple(fact) for fact in everything.tolist()}
    seen = {
        (relation, end): np.unique(everything[everything[:, 1] == relation, end])
        for relation in range(len(run.relations))
        for end in (0, 2)
    }
    true, false = [], []
    for fact in run.split("test")[random.permutation(len(run.split("test")))[:most]].tolist():
        for _ in range(100):
            end = int(random.choice([0, 2]))
            other = list(fact)
            other[end] = int(random.choice(seen[fact[1], end]))
            if tuple(other) not in known:
                true.append(fact)
                false.append(other)
                break
    return np.array(true), np.array(false)


def said_of(run: Run, facts: np.ndarray) -> Any:
    """What ``score`` says of a file of ``facts [n, 3]``, where the run does not hold the test split."""
    hidden = load(run.path)
    hidden.predictor = hidden.predictor_knowing(("train", "valid"))
    labels = hidden.entities.labels, hidden.relations.labels, hidden.entities.labels
    lines = ["\t".join(names[number] for names, number in zip(labels, fact, strict=True)) for fact in facts.tolist()]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "facts.tsv"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return score_file(hidden, file, ReadOptions(delimiter="\t", header=False)).frame


def verdicts_of(frame: Any, is_true: np.ndarray) -> dict[str, float]:
    """Accuracy of yes and no, the share that is unsure, accuracy if half of these are right, area under the curve."""
    verdict = frame["verdict"].to_numpy()
    sure = verdict != "unsure"
    right = np.where(is_true, verdict == "yes", verdict == "no")
    return {
        "facts": len(frame),
        "accuracy": float(right[sure].mean()) if sure.any() else float("nan"),
        "unsure": float(1.0 - sure.mean()),
        "accuracy_with_unsure": float(np.where(sure, right, 0.5).mean()),
        "auc": area_under_curve(torch.tensor(frame["probability"].to_list()), torch.from_numpy(is_true)),
    }


def main() -> None:
    """Measures and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=20_000, help="test facts that are judged")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    rows = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else []
    for path in arguments.runs:
        clock = time.perf_counter()
        run = load(path)
        trust = run.trust()
        true, false = corrupted(run, arguments.seed, arguments.most)
        frame, is_true = said_of(run, np.concatenate([true, false])), np.arange(2 * len(true)) < len(true)
        relations = frame["relation_label"].to_numpy()
        row = {
            "dataset": Path(run.settings.dataset).stem,
            "kind": run.settings.kind,
            "model": run.describe(),
            "first": trust.as_dict()["first"],
            "chosen": trust.chosen,
            "ece": {name: place.ece for name, place in trust.places.items()},
            "bins": {name: place.as_dict()["bins"] for name, place in trust.places.items()},
            "truth": verdicts_of(frame, is_true),
            "truth_by_relation": {
                relation: verdicts_of(frame.filter(relations == relation), is_true[relations == relation])
                for relation in sorted(set(relations))
            },
            "seed": arguments.seed,
            "seconds": round(time.perf_counter() - clock, 1),
        }
        rows = [each for each in rows if each["dataset"] != row["dataset"]] + [row]
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        print(json.dumps({key: row[key] for key in ("dataset", "kind", "first", "ece", "truth", "seconds")}))


if __name__ == "__main__":
    main()
