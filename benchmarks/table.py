"""The stored lines as a page to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def write(lines: list[dict[str, Any]], out: Path) -> None:
    first = lines[0]
    text = [
        "# Speed and memory",
        "",
        "Written by `make bench`, all in one run per stage, nothing by hand. Contenders take turns, and medians count; "
        "the per-edge form, bfloat16, plain PyTorch, PyG and PyKEEN run once, 1-N and 1-b one after the other.",
        f"Processor: {_machine(first)}, where a stage does not name another. A ratio is the other's "
        "seconds divided by ours: above 1 the other is slower. Memory is the peak above what was held before.",
        "",
        "![cost against size](bench.png)",
    ]
    for stage in dict.fromkeys(line["stage"] for line in lines):
        text += ["", f"## {stage}"]
        of_stage = [line for line in lines if line["stage"] == stage]
        if stage == "ranks":
            text += ["", "![memory of a rank and bytes of a step](ranks.png)"]
        if _machine(of_stage[0]) != _machine(first):
            text += ["", f"Processor: {_machine(of_stage[0])}."]
        for line in of_stage:
            text += ["", line["work"], "", "| | seconds | ratio | peak MB | |", "|---|---|---|---|---|"]
            text.append(f"| **tuckerkg** | {line['seconds']:.4g} | | {line['peak_memory_mb']:.0f} | {line['rate']} |")
            text += [
                f"| {other['name']} | {other['seconds']:.4g} | {other['ratio']:.3g} | {other['peak_memory_mb']:.0f} | "
                f"{other.get('what', '')} |"
                for other in line["against"]
            ]
            parts = line.get("parts", {})
            if parts:
                total = sum(parts.values())
                text += ["", "| part | seconds | share |", "|---|---|---|"]
                text += [f"| {name} | {s:.3f} | {s / total:.0%} |" for name, s in parts.items()]
                text.append(f"| sum | {total:.3f} | |")
            if line.get("notes"):
                text += ["", line["notes"] + "."]
    out.write_text("\n".join(text) + "\n", encoding="utf-8")


def _machine(line: dict[str, Any]) -> str:
    return f"{line['processor']}, {line['threads']} threads, torch {line['torch']}"
