"""The index itself: faiss, inverted lists of eight-bit vectors (IVF,SQ8), for the largest dot products.

    RUN/index/step-N-version-V/    sealed: the index, and what was measured when it was built

A derived file, as a mapped table is: built where it is first wanted, built again where it is damaged or stale.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuckerkg.errors import RunFolderError, TuckerkgError
from tuckerkg.storage.sealed_folder import (
    SealedFolder,
    abandon,
    begin_sealed,
    explained,
    file_entry,
    json_bytes,
    refusal,
    seal,
    write_part,
)
from tuckerkg.types import JsonObject

FOLDER, INDEX, ABOUT = "index", "candidates.faiss", "about.json"
RULES = 1  # counted up where an index is built or measured in another way
LISTS = 4.0  # times the root of the number of vectors
PER_LIST = 40  # vectors that a list's centre is fitted to
GOOD_RECALL = 0.98  # lists are added to those that a question reads until it has this recall@10 ...
PROPOSED = 300  # ... among so many proposals
ADDED = 1 << 16  # vectors at once
_log = logging.getLogger("tuckerkg")

Measure = Callable[["CandidateIndex"], JsonObject]


@dataclass(frozen=True)
class Quality:
    """What was measured when an index was built, on questions about training facts.

    Attributes:
        recall_at_10: how many of the ten best entities by an exact scan are among the index's ten best.
        questions: that this was measured on.
        probes: of the index's ``lists``, how many a question reads.
        sample: random entities that a question's sum over all is estimated from.
        sum_error: of the log of that sum: the median of what it is off by, and the 95th percentile.
    """

    recall_at_10: float
    questions: int
    probes: int
    lists: int
    sample: int
    sum_error: tuple[float, float]

    def __str__(self) -> str:
        median, most = self.sum_error
        return (
            f"candidates are proposed by an index: recall@10 {self.recall_at_10:.3f} on {self.questions} questions; "
            f"probabilities come from sums estimated from {self.sample:,} random entities, whose logs were off by "
            f"{median:.3f} (median) and {most:.3f} (95 %)"
        )

    def as_dict(self) -> JsonObject:
        """For JSON."""
        return {**asdict(self), "sums": "estimated"}


class CandidateIndex:
    """Proposes the entities whose vectors have the largest dot products with a query."""

    def __init__(self, index: Any) -> None:
        self.index = index

    @classmethod
    def of(cls, vectors: Tensor, seed: int = 0) -> CandidateIndex:
        """Over ``vectors [N, d]``."""
        faiss = import_faiss()
        count, width = vectors.shape
        lists = max(1, min(int(LISTS * count**0.5), count // PER_LIST))
        index = faiss.index_factory(width, f"IVF{lists},SQ8", faiss.METRIC_INNER_PRODUCT)
        index.cp.seed = seed + 1
        index.cp.min_points_per_centroid = 1
        chosen = np.random.default_rng(seed).choice(count, min(count, PER_LIST * lists), replace=False)
        index.train(vectors[torch.from_numpy(np.sort(chosen))].numpy())
        for part in vectors.split(ADDED):
            index.add(part.numpy())
        return cls(index)

    @property
    def lists(self) -> int:
        """How many there are."""
        return int(self.index.nlist)

    @property
    def probes(self) -> int:
        """How many lists a question reads."""
        return int(self.index.nprobe)

    def read(self, probes: int) -> None:
        """Let a question read so many lists."""
        self.index.nprobe = probes

    def propose(self, queries: Tensor, count: int) -> Tensor:
        """Entities ``[B, count]`` for ``queries [B, d]``, -1 where there are fewer; in no order that matters."""
        import_faiss().omp_set_num_threads(torch.get_num_threads())
        _, ids = self.index.search(queries.numpy(), min(count, int(self.index.ntotal)))
        return torch.from_numpy(ids)


def import_faiss() -> Any:
    """The library. Raises TuckerkgError where it is not installed."""
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise TuckerkgError("an index needs faiss: pip install 'tuckerkg[faiss]'") from error


def stored_index(
    run: Path, name: str, made_of: JsonObject, vectors: Callable[[], Tensor], measure: Measure
) -> tuple[CandidateIndex, Quality]:
    """The index that is kept in a run folder as ``name``, if it is whole and of the same vectors; else a new one.

    Args:
        made_of: what the vectors depend on.
        vectors: gives them, where an index has to be built.
        measure: chooses how many lists a question reads, and says how good the index is.
    """
    place = run / FOLDER / name
    made_of = {**made_of, "rules": RULES}
    if place.is_dir():
        try:
            return _read(SealedFolder(place), made_of)
        except RunFolderError as error:
            _log.info("%s; it is built again", error)
    _log.warning("%s: building an index of its entities, once", run)
    index = CandidateIndex.of(vectors())
    quality = measure(index)
    try:
        with explained(f"Cannot write {place.parent}"):
            place.parent.mkdir(exist_ok=True)
        _write(place, index, {"made_of": made_of, "quality": quality})
    except RunFolderError as error:
        _log.warning("%s The index is not kept.", error)
        return index, _quality(quality)
    return _read(SealedFolder(place), made_of)


def _read(folder: SealedFolder, made_of: JsonObject) -> tuple[CandidateIndex, Quality]:
    about = folder.read_json(ABOUT)
    if not isinstance(about, dict) or about.get("made_of") != made_of:
        raise refusal(f"{folder.path}: belongs to other weights.")
    path = folder.checked_file(INDEX)
    faiss = import_faiss()
    try:  # mapped: workers share it
        index = CandidateIndex(faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY))
    except RuntimeError as error:
        raise refusal(f"{path}: is not an index that this faiss reads.") from error
    quality = _quality(about["quality"])
    index.read(quality.probes)
    return index, quality


def _write(place: Path, index: CandidateIndex, about: JsonObject) -> None:
    temporary = begin_sealed(place)
    try:
        path = temporary / INDEX
        try:
            import_faiss().write_index(index.index, str(path))
        except RuntimeError as error:
            raise refusal(f"Cannot write {path}: the disk is full, or refused.") from error
        entries = {INDEX: file_entry(path), ABOUT: write_part(temporary, ABOUT, json_bytes(about))}
        seal(temporary, place, entries)
    except BaseException:
        abandon(temporary)
        raise


def _quality(stored: JsonObject) -> Quality:
    return Quality(**{**stored, "sum_error": tuple(stored["sum_error"])})
