"""Probabilities and verdicts fitted on facts that somebody has labelled, instead of on validation."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tuckerkg.data.from_memory import table_of
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.query_files import known_triples
from tuckerkg.probability.calibration import Calibration
from tuckerkg.probability.verdicts import NO, UNSURE, YES

if TYPE_CHECKING:
    from tuckerkg.inference.run import Run

FEWEST = 10  # labelled facts of each kind


@dataclass(frozen=True)
class LabelledFit:
    """What labelled facts brought: their numbers, and how the probabilities before and after order them.

    ``accuracy`` counts yes and no, ``unsure`` is the share of neither; both on what they were fitted on.
    """

    positives: int
    negatives: int
    auc: float
    accuracy: float
    unsure: float


def calibrate_on(
    run: Run, positives: Any, negatives: Any, options: ReadOptions | None = None
) -> tuple[Calibration, LabelledFit]:
    """Fit on labelled facts: files, lists of triples of names, or frames.

    Raises:
        InputError: a name is unknown.
        TuckerkgError: there are too few, a fact has both labels, or the run has no fitted probabilities to start from.
    """
    base = run.calibration
    if not base.fitted:
        raise TuckerkgError(
            f"{run.path}: probabilities are plain sigmoids of the score here; labelled facts change fitted ones"
        )
    base = replace(base, labelled=None, shift=0.0)
    parts = []
    for name, facts in (("positives", positives), ("negatives", negatives)):
        source = facts if isinstance(facts, str | os.PathLike) else table_of(facts)
        ids = torch.from_numpy(np.unique(known_triples(run, source, options or ReadOptions()), axis=0))
        if len(ids) < FEWEST:
            raise TuckerkgError(f"{len(ids)} different facts among the {name}, at least {FEWEST} are needed")
        parts.append(ids)
    twice = set(map(tuple, parts[0].tolist())) & set(map(tuple, parts[1].tolist()))
    if twice:
        head, relation, tail = min(twice)
        names = f"{run.entities.shown(head)} {run.relations.shown(relation)} {run.entities.shown(tail)}"
        raise TuckerkgError(f"{len(twice):,} facts are positive and negative, such as {names}")
    facts = torch.cat(parts)
    is_true = torch.arange(len(facts)) < len(parts[0])
    logits = run.predictor.logits_of(facts, base)
    fitted = base.with_labels(logits, facts[:, 1], is_true, len(run.relations))
    assert fitted.verdicts is not None
    found, _ = fitted.verdicts.of(run.predictor.logits_of(facts, fitted), facts[:, 1])
    sure = found != UNSURE
    right = torch.where(is_true, found == YES, found == NO)
    return fitted, LabelledFit(
        positives=len(parts[0]),
        negatives=len(parts[1]),
        auc=area_under_curve(logits, is_true),
        accuracy=float(right[sure].double().mean()) if sure.any() else float("nan"),
        unsure=float((~sure).double().mean()),
    )


def area_under_curve(scores: Tensor, is_true: Tensor) -> float:
    """The chance that a true fact has a higher score than a false one, ties one half."""
    values, places = torch.unique(scores, return_inverse=True)
    counts = torch.bincount(places, minlength=len(values)).double()
    below = counts.cumsum(0) - counts
    ranks = below + (counts + 1.0) / 2.0  # mean rank of equals
    true = is_true.double().sum()
    false = len(scores) - true
    return float((ranks[places][is_true].sum() - true * (true + 1.0) / 2.0) / (true * false))
