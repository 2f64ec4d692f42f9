"""Embeddings to use elsewhere: a table with a row per entity or relation, as Parquet or as a NumPy archive."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from torch import Tensor

from tuckerkg.errors import TuckerkgError
from tuckerkg.manifest import write_atomic
from tuckerkg.names import Names
from tuckerkg.run import Run

WHAT = ("entities", "encoded", "relations")
FORMATS = (".parquet", ".npz")


def check_export(path: Path, what: str) -> None:
    """Refuses what could not be written, before anything is computed."""
    if what not in WHAT:
        raise TuckerkgError(f"--what is {what!r}, expected {', '.join(WHAT)}")
    if path.suffix.lower() not in FORMATS:
        raise TuckerkgError(f"{path}: the name must end in {' or '.join(FORMATS)}")
    if not path.resolve().parent.is_dir():
        raise TuckerkgError(f"{path}: there is no folder {path.resolve().parent}")


def write_vectors(run: Run, path: Path, what: str = "encoded") -> tuple[int, int]:
    """Writes label, title and vector of every row and gives the table's shape.

    ``what``: "entities" is the table as it was learnt, "encoded" what the encoder makes of it, "relations" the
    relations' embeddings with those of their inverses, which are labelled by a caret: ``borders^-1``.
    """
    check_export(path, what)
    if what == "relations":
        names = [(label, _title(run.relations, label)) for label in run.relations.labels]
        names += [(f"{label}^-1", f"{title} (inverse)") for label, title in names]
        table: Tensor = run.model.relations
    else:
        names = [(label, _title(run.entities, label)) for label in run.entities.labels]
        table = run.model.entities if what == "entities" else run.encoded.entities
    vectors = table.detach().cpu().numpy()
    labels, titles = ([pair[place] for pair in names] for place in (0, 1))
    if path.suffix.lower() == ".npz":
        written = io.BytesIO()
        np.savez(written, labels=np.array(labels), titles=np.array(titles), vectors=vectors)
        write_atomic(path, written.getvalue())
    else:
        write_atomic(path, _parquet(labels, titles, vectors))
    return vectors.shape


def _title(names: Names, label: str) -> str:
    return names.titles.get(label, label)


def _parquet(labels: list[str], titles: list[str], vectors: np.ndarray) -> bytes:
    import polars as pl  # noqa: PLC0415  (half a second that --help need not wait for)

    columns = {"label": labels, "title": titles}
    kind = pl.Array(pl.Float32, vectors.shape[1])
    frame = pl.DataFrame(columns).with_columns(pl.Series("vector", vectors.astype(np.float32), dtype=kind))
    written = io.BytesIO()
    frame.write_parquet(written)
    return written.getvalue()
