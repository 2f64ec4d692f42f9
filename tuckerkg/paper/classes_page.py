"""The part of RESULTS.md on classes of nodes and of graphs: what was measured beside published figures."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from tuckerkg.paper.markdown import as_table
from tuckerkg.types import JsonObject

TITLES = {"aifb": "AIFB", "mutag": "MUTAG (RDF)", "tu-mutag": "MUTAG (molecules)"}
ENCODERS = {"auto": "what is chosen"}
HOW = {"split": "fixed split", "folds": "ten folds"}
PUBLISHED = {("aifb", "split"): "R-GCN 95.8", ("mutag", "split"): "R-GCN 73.2", ("tu-mutag", "folds"): "GIN 89.4"}
"""Schlichtkrull et al. (arXiv:1703.06103, table 2); Xu et al. (arXiv:1810.00826, table 1), whose epoch was chosen on
the folds that it was measured on."""


def classes_section(rows: Sequence[JsonObject]) -> str:
    """From what ``scripts/measure_classes.py`` wrote."""
    lines = []
    for row in rows:
        key = (row["set"], row["how"])
        seconds = row.get("seconds_a_run", row.get("seconds_a_fold"))
        runs = row["all"]
        alone = [_mean(row.get(f"{voters}_alone", ())) for voters in ("encoder", "counts")]
        lines.append(
            [
                TITLES[row["set"]],
                str(ENCODERS.get(row["encoder"], row["encoder"])),
                f"{HOW[row['how']]}, {len(runs)} {'seeds' if row['how'] == 'split' else 'parts'}",
                f"{100 * row['accuracy']:.1f} ± {100 * row['deviation']:.1f}",
                f"{100 * min(runs):.1f} to {100 * max(runs):.1f}",
                *alone,
                str(PUBLISHED.get(key, "–")),
                "–" if seconds is None else f"{seconds:.0f}",
            ]
        )
    header = ["", "encoder", "held out", "accuracy", "lowest, highest", "encoder alone", "counts alone"]
    header += ["published", "seconds a run"]
    return (
        "## Classes of nodes and of graphs\n\n"
        "The paper calls TGCN a general encoder. `tuckerkg classify` puts nodes and graphs into classes with it, and "
        "with the other encoders (`scripts/measure_classes.py`). Encoder, depth, starts and the counts that vote "
        "beside it are chosen on labels that are not held out. Counts are a linear classifier of what stands around a "
        "node, or of the colours of a graph, without messages; what the encoders and the counts of the same runs would "
        "say alone stands beside. Figures of papers are those of encoders alone. ± is the deviation between seeds or "
        "parts. AIFB's held-out labels are 36 people, one of whom is 2.8 points; MUTAG's are 68. GIN's figure is that "
        "of the best epoch on the held-out parts, ours are not.\n\n" + as_table(header, lines)
    )


def _mean(shares: Sequence[float | None]) -> str:
    """In percent, of those runs that have it."""
    there = [share for share in shares if share is not None]
    return f"{100 * mean(there):.1f}" if there else "–"
