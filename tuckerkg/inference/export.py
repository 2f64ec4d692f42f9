"""Vectors to use elsewhere: a row per entity or relation, as a frame, Parquet or a NumPy archive."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from tuckerkg.data.labels import Labels
from tuckerkg.errors import TuckerkgError
from tuckerkg.storage.sealed_folder import write_atomic

if TYPE_CHECKING:
    import polars as pl

WHAT = ("entities", "encoded", "relations")
FORMATS = (".parquet", ".npz")


def check_export(path: Path, what: str) -> None:
    """Refuse what could not be written, before anything is computed."""
    if what not in WHAT:
        raise TuckerkgError(f"--what is {what!r}, expected {', '.join(WHAT)}")
    if path.suffix.lower() not in FORMATS:
        raise TuckerkgError(f"{path}: the name must end in {' or '.join(FORMATS)}")
    if not path.resolve().parent.is_dir():
        raise TuckerkgError(f"{path}: there is no folder {path.resolve().parent}")


def vector_frame(vectors: Tensor, entities: Labels, relations: Labels, what: str = "encoded") -> pl.DataFrame:
    """Label, title and vector of every row; the inverse of a relation is labelled ``borders^-1``."""
    import polars as pl  # noqa: PLC0415  (half a second that --help need not wait for)

    if what not in WHAT:
        raise TuckerkgError(f"what is {what!r}, expected {', '.join(WHAT)}")
    named = relations if what == "relations" else entities
    rows = [(label, named.titles.get(label, label)) for label in named.labels]
    if what == "relations":
        rows += [(f"{label}^-1", f"{title} (inverse)") for label, title in rows]
    table = vectors.detach().cpu().numpy().astype(np.float32)
    kind = pl.Array(pl.Float32, table.shape[1])
    frame = pl.DataFrame(rows, schema={"label": pl.String, "title": pl.String}, orient="row")
    return frame.with_columns(pl.Series("vector", table, dtype=kind))


def write_vectors(vectors: Tensor, entities: Labels, relations: Labels, path: Path, what: str = "encoded") -> Path:
    """Write ``vector_frame`` to a .parquet or .npz file."""
    check_export(path, what)
    frame = vector_frame(vectors, entities, relations, what)
    written = io.BytesIO()
    if path.suffix.lower() == ".npz":
        labels, titles = (np.array(frame[name].to_list()) for name in ("label", "title"))  # text, never pickled
        np.savez(written, labels=labels, titles=titles, vectors=frame["vector"].to_numpy())
    else:
        frame.write_parquet(written)
    write_atomic(path, written.getvalue())
    return path
