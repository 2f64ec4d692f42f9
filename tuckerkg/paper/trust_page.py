"""The part of RESULTS.md on probabilities: what is said of missing facts, and of plausible false ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuckerkg.paper.markdown import as_table, short
from tuckerkg.types import JsonObject

KINDS = {"paths": "from the question", "embedding": "embeddings", "blend": "blend"}


def trust_section(rows: Sequence[JsonObject]) -> str:
    """From what ``scripts/measure_trust.py`` wrote."""
    lines, truth, worst = [], [], []
    for row in rows:
        first = {each["count"]: each for each in row["first"]}
        cells = [
            f"{short(first[count]['said'])} / {short(first[count]['true'])}" if count in first else "–"
            for count in (20, 100, 500, 2_000)
        ]
        lines.append([row["dataset"], KINDS[row["kind"]], *cells, *(f"{error:.3f}" for error in row["ece"].values())])
        found = row["truth"]
        truth.append(
            [
                row["dataset"],
                f"{found['facts']:,}",
                short(found["accuracy"]),
                f"{found['unsure']:.1%}",
                short(found["accuracy_with_unsure"]),
                short(found["auc"]),
            ]
        )
        worst.append(_worst(row))
    places = list(rows[0]["ece"])
    return (
        "## Probabilities\n\n"
        "Of the best missing facts of a graph whose validation and test are hidden (`--top-missing`), the mean "
        "probability that is said / the share that is in validation or test; then the expected calibration error in "
        "every place where people ask (`scripts/measure_trust.py`). Fitted on validation.\n\n"
        + as_table(["", "", "first 20", "100", "500", "2,000", *places], lines)
        + "\n\nTest facts and as many false ones, each a test fact with one end replaced by a random entity seen in "
        "that place: how often yes and no of `score` are right, how often it is unsure, accuracy where unsure counts "
        "as half right, and the area under the curve of the probability. The run holds training and validation.\n\n"
        + as_table(["", "facts", "yes and no right", "unsure", "with unsure", "AUC"], truth)
        + "\n\n"
        + " ".join(worst)
    )


def _worst(row: JsonObject) -> str:
    """The relations with at least 20 facts with the lowest accuracy."""
    relations = {name: part for name, part in row["truth_by_relation"].items() if part["facts"] >= 20}
    order = sorted(relations, key=lambda name: relations[name]["accuracy_with_unsure"])
    if not order:
        return ""
    short_of = sum(part["accuracy_with_unsure"] < 0.8 for part in relations.values())
    named = ", ".join(
        f"`{name.rsplit('#', 1)[-1]}` {short(relations[name]['accuracy_with_unsure'])}" for name in order[:3]
    )
    return (
        f"{row['dataset']}: {short_of} of {len(relations)} relations with 20 facts or more stay below .80 with unsure "
        f"as half right; the lowest are {named}."
    )


def draw_trust(rows: Sequence[JsonObject], axes: Any) -> None:
    """Said against true of the first 20, 100, 500 and 2,000 facts of every graph."""
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=1)
    for row in rows:
        points = [(each["said"], each["true"]) for each in row["first"]]
        axes.plot(*zip(*points, strict=True), "o-", label=row["dataset"], alpha=0.8)
    axes.set_xlim(0, 1.02)
    axes.set_ylim(0, 1.02)


def trust_file(results: Path) -> Path:
    """Where the study is."""
    return results / "studies" / "trust.json"
