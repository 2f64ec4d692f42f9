"""Speed and memory of every stage beside the alternatives: ``make bench``, or ``python -m benchmarks --stage read``.

Prints tables, stores ``results/bench/bench.json`` (with --stage: only the lines of that stage are replaced), the same
as a page to read, bench.md, and cost against size, bench.png. Nothing else should run meanwhile. Needs TUCKERKG_DATA
and the extra "peers".
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Line, machine

STAGES = (
    "train-step", "loss", "r-gcn-layer", "convolution", "evaluate", "read", "ingest", "growth", "1-n", "predict",
    "epoch", "question-step", "question-answer", "ranks",
)  # fmt: skip
RESULTS = Path(__file__).resolve().parent.parent / "results"


def lines_of(stage: str, given: argparse.Namespace) -> Iterator[Line]:
    from benchmarks import (
        convolution,
        epoch,
        evaluation,
        growth,
        ingest,
        losses,
        one_to_many,
        prediction,
        questions,
        ranks,
        reading,
        rgcn_layer,
        train_step,
    )

    peers, share = not given.no_peers, given.per_edge_share
    sizes = {name: getattr(given, name) for name in ("entities", "facts", "dim", "steps") if getattr(given, name)}
    if given.ranks:
        sizes["ranks"] = tuple(given.ranks)

    stages: dict[str, Callable[[], Iterator[Line]]] = {
        "train-step": lambda: train_step.run(share),
        "loss": losses.run,
        "r-gcn-layer": lambda: rgcn_layer.run(peers),
        "convolution": convolution.run,
        "evaluate": lambda: evaluation.run(peers),
        "read": lambda: reading.run(peers),
        "ingest": lambda: ingest.run(given.triples, given.memory),
        "growth": growth.run,
        "1-n": one_to_many.run,
        "predict": prediction.run,
        "epoch": epoch.run,
        "question-step": lambda: questions.run("question-step", peers),
        "question-answer": lambda: questions.run("question-answer", peers),
        "ranks": lambda: ranks.run(ranks.Sizes(**sizes), given.place),
    }
    return stages[stage]()


BUSY = "other work ran on the machine meanwhile: memory and bytes count, seconds do not"


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stage", choices=STAGES, action="append", help="only this stage; may be given again")
    parser.add_argument("--no-peers", action="store_true", help="leave out PyG and PyKEEN")
    parser.add_argument(
        "--per-edge-share", type=float, default=1.0, metavar="S", help="share of the edges in the per-edge form"
    )
    parser.add_argument("--triples", type=int, default=10_000_000, metavar="N", help="size of the file to ingest")
    parser.add_argument("--memory", default="1GB", metavar="SIZE", help="limit of memory for ingest")
    for name in ("entities", "facts", "dim", "steps"):
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"{name} of stage ranks")
    parser.add_argument("--ranks", type=int, nargs="+", metavar="N", help="numbers of ranks of stage ranks")
    parser.add_argument(
        "--busy", action="store_true", help="other work runs beside: say so, only memory and bytes count"
    )
    parser.add_argument("--place", type=Path, metavar="FOLDER", help="where stage ranks writes its graph and runs")
    parser.add_argument("--out", type=Path, default=RESULTS / "bench" / "bench.json")
    given = parser.parse_args()
    if "TUCKERKG_DATA" not in os.environ:
        sys.exit("TUCKERKG_DATA is not set: it names the folder with the benchmark datasets")
    console, started = Console(), time.monotonic()
    console.print(machine())
    chosen = given.stage or list(STAGES)
    if len(chosen) > 1:  # each in a process of its own, so that none meets another's memory
        for stage in chosen:
            again = [argument for argument in sys.argv[1:] if argument not in ("--stage", *STAGES)]
            subprocess.run([sys.executable, "-m", "benchmarks", "--stage", stage, *again], check=True)
        console.print(f"{(time.monotonic() - started) / 60:.1f} minutes in all")
        return
    for stage in chosen:
        console.print(f"[bold]{stage}[/bold] ...")
        lines: list[dict[str, object]] = []
        for line in lines_of(stage, given):
            show(line, console)
            lines.append(line.as_dict())
            if given.busy:
                lines[-1]["notes"] = f"{line.notes}; {BUSY}"
        store(given.out, lines, stage)
    console.print(f"{given.out}, its page and its plot written, {(time.monotonic() - started) / 60:.1f} minutes")


def show(line: Line, console: Console) -> None:
    table = Table(title=line.work, title_justify="left", show_edge=False)
    for column in ("", "seconds", "others / ours", "peak MB", ""):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row("tuckerkg", f"{line.seconds:.4f}", "", f"{line.peak_memory_mb:.0f}", line.rate)
    for other in line.against:
        row = (other["name"], f"{other['seconds']:.4f}", f"{other['ratio']:.2f}", f"{other['peak_memory_mb']:.0f}")
        table.add_row(*row, other.get("what", ""))
    for name, seconds in line.parts.items():
        table.add_row(f"  {name}", f"{seconds:.4f}", "", "", "", style="dim")
    console.print(table)
    if line.notes:
        console.print(f"  {line.notes}", style="dim")


def store(out: Path, lines: list[dict[str, object]], stage: str) -> None:
    kept = json.loads(out.read_text(encoding="utf-8")) if out.is_file() else []
    merged = [line for line in kept if line["stage"] != stage] + lines
    merged.sort(key=lambda line: STAGES.index(str(line["stage"])))
    out.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")
    from benchmarks import plot, table

    plot.draw(merged, out.with_suffix(".png"))
    if stage == "ranks":
        plot.draw_ranks(merged, out.with_name("ranks.png"))
    table.write(merged, out.with_suffix(".md"))


if __name__ == "__main__":
    main()
