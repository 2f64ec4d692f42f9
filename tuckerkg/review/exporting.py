"""Decided facts as frames: for files, for adding, and for probabilities fitted on labelled facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuckerkg.review.decisions import Decision

if TYPE_CHECKING:
    import polars as pl

    from tuckerkg.data.labels import Labels
    from tuckerkg.inference.run import Run


def decision_frame(run: Run, decisions: Sequence[Decision]) -> pl.DataFrame:
    """A row per decision, with readable names and labels as predictions have them."""
    import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

    texts = ("head", "relation", "tail", "head_label", "relation_label", "tail_label")
    kinds = {
        **dict.fromkeys(texts, pl.String),
        "probability": pl.Float64,
        "decision": pl.String,
        "by": pl.String,
        "at": pl.String,
        "version": pl.Int64,
        "note": pl.String,
    }
    rows = [
        (
            _shown(run.entities, each.head),
            _shown(run.relations, each.relation),
            _shown(run.entities, each.tail),
            *each.fact,
            each.probability,
            each.choice,
            each.by,
            each.at,
            each.version,
            each.note,
        )
        for each in decisions
    ]
    return pl.DataFrame(rows, schema=kinds, orient="row")


def facts_of(decisions: Sequence[Decision]) -> list[tuple[str, str, str]]:
    """Labels of head, relation and tail, as ``add`` and ``calibrate`` take them."""
    return [each.fact for each in decisions]


def _shown(names: Labels, label: str) -> str:
    """What a label is shown as; a later version of the run may have no such name any more."""
    return names.shown(names.id_of(label)) if label in names else label
