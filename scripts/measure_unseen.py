"""How well a run answers for entities that it never saw: GraIL's graphs, trained as `tuckerkg train NAME` does it.

Nothing is chosen by hand: the program reads the training graph and decides on its validation split. The graph that the
run is asked about shares no entity with it. Ranks are over all its entities, filtered by all that is known of it.

    python scripts/measure_unseen.py --graphs fb237_v1 WN18RR_v1 --seeds 0 10 20 --out results/studies/unseen.json
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import tuckerkg
from tuckerkg.paper.result_file import commit

GRAPHS = ("fb237_v1", "fb237_v2", "WN18RR_v1", "WN18RR_v2")


def measure(graph: str, seed: int, minutes: float | None, folder: Path) -> dict[str, Any]:
    """Train on a graph, and rank both held-out splits of the one with other entities."""
    clock, used = time.perf_counter(), time.process_time()
    run = tuckerkg.train(graph, minutes=minutes, seed=seed, out=folder / f"{graph}-seed{seed}")
    spent = {"minutes": (time.perf_counter() - clock) / 60, "cpu_minutes": (time.process_time() - used) / 60}
    other = run.on(f"{graph}_ind")
    found = {}
    for split in ("test", "valid+test"):
        evaluation = other.evaluate(split)
        found[split] = {**evaluation.overall.as_dict(), "hits@10_of_50": evaluation.hits_10_of_50}
    return {
        "graph": graph,
        "seed": seed,
        "commit": commit(),
        "kept": run.settings.kind,
        "parameters": sum(run.counts().as_dict()[kind] for kind in ("efp", "nfp")),
        **{name: round(value, 2) for name, value in spent.items()},
        **found,
    }


def main() -> None:
    """Measures what is missing in the file and writes it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--seeds", nargs="+", type=int, default=(0, 10, 20))
    parser.add_argument("--minutes", type=float, help="bound of each training; without it, what the program takes")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    rows = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else []
    with tempfile.TemporaryDirectory() as folder:
        for graph in arguments.graphs:
            for seed in arguments.seeds:
                if any((row["graph"], row["seed"]) == (graph, seed) for row in rows):
                    continue
                rows.append(measure(graph, seed, arguments.minutes, Path(folder)))
                print(json.dumps(rows[-1]), flush=True)
                arguments.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
