"""Whether two runs were trained on the same data."""

from __future__ import annotations

import numpy as np

from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.storage.sealed_folder import refusal


def check_same_data(first: RunFolder, other: RunFolder, splits: tuple[str, ...]) -> None:
    """Refuse ``other`` if it was trained on other labels than ``first``, or has another one of ``splits``.

    With other splits, validation of the one may have been training of the other.

    Raises:
        RunFolderError: names what differs.
    """
    for what, ours, theirs in (
        ("entities", first.entities(), other.entities()),
        ("relations", first.relations(), other.relations()),
    ):
        if ours != theirs:
            differ = [pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]]
            said = f"it has {len(theirs):,}, the other {len(ours):,}"
            if differ:
                said += f"; the first that differ are {differ[0][1]!r} and {differ[0][0]!r}"
            raise refusal(f"{other.path}: was trained on other {what} than {first.path}: {said}")
    for split in splits:
        ours_split, theirs_split = first.split(split), other.split(split)
        if not np.array_equal(ours_split, theirs_split):
            counts = f"it has {len(theirs_split):,} triples, the other {len(ours_split):,}"
            raise refusal(f"{other.path}: has another {split} split than {first.path}: {counts}")
