"""A run's probabilities: stored beside it, fitted on its validation, or those of the run before."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.errors import RunFolderError
from tuckerkg.inference.retrieval import embedding_member, promise_of
from tuckerkg.nn.contracts import is_slow
from tuckerkg.probability.calibration import Calibration, QuickProbabilities, fit_calibration

if TYPE_CHECKING:
    from tuckerkg.inference.run import Run

_log = logging.getLogger("tuckerkg")


def calibration_of(run: Run) -> Calibration:
    """As stored in the run folder, else fitted on validation and stored."""
    if len(run.split("valid")) == 0:
        return _of_run_before(run)
    own_model = run.given_scorer is None  # what is stored belongs to it
    stored = run.folder.calibration(run.step, run.version) if own_model else None
    if stored is not None:
        found = Calibration.from_tensors(stored, quick_of(run))
        if found.fitted or not stored:  # else it is of an earlier version of the program
            return found
    fitted = fitted_on_validation(run)
    if own_model and run.keeps:
        with suppress(RunFolderError):  # a run may be read-only
            run.folder.store_calibration(run.step, run.version, fitted.tensors())
    return fitted


def fitted_on_validation(run: Run) -> Calibration:
    """What validation says, whatever is stored."""
    train, _, test = (run.split(name) for name in SPLITS)
    return fit_calibration(run.scorer, train, run.held_out("valid"), len(test), promise_of(run), quick_of(run))


def quick_of(run: Run) -> QuickProbabilities | None:
    """Those of a member with embeddings, where the run is slow to ask."""
    found = embedding_member(run) if is_slow(run.scorer) else None
    if found is None or not found.calibration.fitted:
        return None
    return QuickProbabilities(found.scorer, found.calibration)


def _of_run_before(run: Run) -> Calibration:
    """The probabilities of a run that has no validation triples to fit them on."""
    before = Calibration()
    if run.refit_of is not None:
        before = Calibration.from_tensors(run.refit_of.calibration, quick_of(run))
    if not before.fitted:
        _log.warning(
            "%s: no validation triples to fit probabilities on: a probability is the plain sigmoid of the score, "
            "good for an order, not for a chance",
            run.path,
        )
    return before
