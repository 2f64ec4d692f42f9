"""Probabilities of a run that several ranks have open: they take what is stored, or fit them together."""

from __future__ import annotations

from contextlib import suppress

from tuckerkg.errors import RunFolderError
from tuckerkg.inference.calibrating import calibration_of, fitted_on_validation, quick_of
from tuckerkg.inference.run import Run
from tuckerkg.probability.calibration import Calibration
from tuckerkg.ranks.group import Group


def calibration_on_ranks(run: Run, group: Group) -> Calibration:
    """As all ranks find it stored; else fitted by all, and stored by the first one."""
    if len(run.split("valid")) == 0:
        return calibration_of(run)
    stored = run.folder.calibration(run.step, run.version)
    found = Calibration() if stored is None else Calibration.from_tensors(stored, quick_of(run))
    usable = stored is not None and (found.fitted or not stored)
    if all(group.tell(usable)):
        return found
    fitted = fitted_on_validation(run)
    if group.is_first:
        with suppress(RunFolderError):  # a run may be read-only
            run.folder.store_calibration(run.step, run.version, fitted.tensors())
    return fitted
