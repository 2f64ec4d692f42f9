"""Whether explanations name the edges that matter: what is lost without them, against random edges beside them.

Test links that the model ranks among the first ten are explained. The three edges named first are deleted, the graph is
encoded again and the link ranked again; the same with three random training edges of its head and tail.

    python scripts/measure_explaining.py runs/fb15k-237-rgcn --out results/studies/explaining.json
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from tuckerkg import load
from tuckerkg.console import progress_bar
from tuckerkg.inference.run import Run

EDGES = 3


def links(run: Run, count: int, seed: int, most: int = 10) -> list[tuple[int, int, int]]:
    """Random test links whose tail the model ranks among the first ``most``, known answers left out."""
    test = run.split("test")
    found: list[tuple[int, int, int]] = []
    for row in np.random.default_rng(seed).permutation(len(test)):
        head, relation, tail = (int(number) for number in test[row])
        if run.explainer.standing(head, relation, tail).rank <= most:
            found.append((head, relation, tail))
        if len(found) == count:
            break
    return found


def main() -> None:
    """Measures and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--links", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    run = load(arguments.run)
    train, explainer = run.split("train"), run.explainer
    random = np.random.default_rng(arguments.seed + 1)
    chosen = links(run, arguments.links, arguments.seed)
    rows = []
    clock = time.perf_counter()
    with progress_bar("explaining") as progress:
        for place, fact in enumerate(chosen):
            named = [row for row, _ in explainer.important(*fact, EDGES)]
            ends = [fact[0], fact[2]]
            around = np.flatnonzero(np.isin(train[:, 0], ends) | np.isin(train[:, 2], ends))
            drawn = random.choice(around, min(len(named), len(around)), replace=False).tolist()
            ranks = [explainer.standing(*fact, without=without).rank for without in ([], named, drawn)]
            rows.append([1.0 / rank for rank in ranks])
            progress(place + 1, len(chosen))
    before, named_away, drawn_away = np.array(rows).T
    result = {
        "run": arguments.run.resolve().name,
        "options": run.settings.as_dict(),
        "links": len(rows),
        "edges": EDGES,
        "reciprocal_rank": float(before.mean()),
        "loss_named": float((before - named_away).mean()),
        "loss_random": float((before - drawn_away).mean()),
        "seconds_per_link": (time.perf_counter() - clock) / max(len(rows), 1),
    }
    result["times_random"] = result["loss_named"] / result["loss_random"] if result["loss_random"] > 0 else None
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({key: value for key, value in result.items() if key != "options"}, indent=2))


if __name__ == "__main__":
    main()
