"""A graph in shards of integers, as ``tuckerkg ingest`` writes it, mapped into memory shard by shard.

    DIR/graph.json          counts, offsets, options, and what was read of each file
    DIR/relations.parquet   names of the relations, in the order of their ids
    DIR/names-0000.parquet  names of the entities of shard 0, in the order of their ids
    DIR/train-0000.npy      training triples [n, 3] whose head is in shard 0, sorted by head, relation, tail
    DIR/edges-0000.npy      training triples [n, 3] whose tail is in shard 0, sorted by tail, relation, head
    DIR/valid.npy, DIR/test.npy
    DIR/manifest.json       size and SHA-256 of every file

An entity's shard is the CRC-32 of its name in UTF-8, modulo the number of shards. Ids are dense: shard after shard,
and by code point within a shard, so they depend on the set of names and the number of shards alone. ``offsets[s]`` is
the first id of shard s.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from tuckerkg.data.read_report import FileReport, ReadReport
from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.errors import TuckerkgError
from tuckerkg.storage.sealed_folder import MANIFEST, SealedFolder, refusal

if TYPE_CHECKING:
    import polars as pl

FORMAT = 1
GRAPH, RELATIONS = "graph.json", "relations.parquet"

Ids = npt.NDArray[np.integer[Any]]


def shard_of(name: str, num_shards: int) -> int:
    """The shard of an entity; the same in every version of the program."""
    return crc32(name.encode("utf-8")) % num_shards


def shards_of(names: pl.Series, num_shards: int) -> npt.NDArray[np.int64]:
    """The shard of each of many entities."""
    import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

    return np.fromiter(map(crc32, names.cast(pl.Binary).to_list()), dtype=np.int64, count=len(names)) % num_shards


def file_names(shard: int) -> dict[str, str]:
    """What the files of a shard are called."""
    return {
        "names": f"names-{shard:04}.parquet",
        "train": f"train-{shard:04}.npy",
        "edges": f"edges-{shard:04}.npy",
    }


def is_sharded(path: Path) -> bool:
    """Whether a path is a folder that ``ingest`` wrote."""
    return (path / GRAPH).is_file() and (path / MANIFEST).is_file()


class ShardedGraph:
    """The reading side of a folder of shards. Triples are mapped: only what is used is read.

    Opening verifies the manifest and ``graph.json``; a mapped file has its size verified, ``verify`` reads everything.

    Raises:
        RunFolderError: here and in every method, when something is missing, changed or from a newer version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._folder = SealedFolder(self.path)
        about = self._folder.read_json(GRAPH)
        if about.get("format", 0) > FORMAT:
            raise refusal(f"{self.path}: was written in format {about['format']}; upgrade: pip install -U tuckerkg")
        self.about: dict[str, Any] = about
        self.num_entities, self.num_relations = int(about["entities"]), int(about["relations"])
        self.num_shards = int(about["shards"])
        self.offsets: npt.NDArray[np.int64] = np.array(about["offsets"], dtype=np.int64)  # [S + 1]
        if len(self.offsets) != self.num_shards + 1 or self.offsets[-1] != self.num_entities:
            raise refusal(f"{self.path}: {GRAPH} does not fit itself. Ingest the files again.")

    def owners(self, entity_ids: Ids) -> npt.NDArray[np.int64]:
        """The shard of each entity."""
        return np.searchsorted(self.offsets, entity_ids, side="right") - 1

    def triples(self, shard: int) -> Ids:
        """The training triples ``[n, 3]`` whose head is in the shard, mapped."""
        return self._mapped(file_names(self._checked(shard))["train"])

    def in_edges(self, shard: int) -> Ids:
        """The training triples ``[n, 3]`` whose tail is in the shard, sorted by tail, mapped."""
        return self._mapped(file_names(self._checked(shard))["edges"])

    def held_out(self, split: str) -> Ids:
        """The triples ``[n, 3]`` of ``valid`` or ``test``, mapped."""
        return self._mapped(f"{split}.npy")

    def names(self, shard: int) -> pl.Series:
        """The names of the shard's entities, in the order of their ids."""
        return self._labels(file_names(self._checked(shard))["names"])["name"]

    def titles(self, shard: int) -> pl.Series:
        """The readable names of the shard's entities, null for those without one."""
        return self._labels(file_names(self._checked(shard))["names"])["title"]

    def split(self, name: str) -> npt.NDArray[np.int64]:
        """The triples ``[n, 3]`` of a split, all in memory; of one that was not made, none."""
        if name not in SPLITS:
            raise refusal(f"{self.path}: has no split {name!r}; it has {', '.join(SPLITS)}.")
        if self.about["counts"][name] is None:
            return np.empty((0, 3), dtype=np.int64)
        if name != "train":
            return np.array(self.held_out(name), dtype=np.int64)
        return np.concatenate([self.triples(shard).astype(np.int64) for shard in range(self.num_shards)])

    def all_names(self) -> list[str]:
        """The names of all entities, in the order of their ids."""
        return [name for shard in range(self.num_shards) for name in self.names(shard).to_list()]

    def entity_titles(self) -> dict[str, str]:
        """Readable names of entities, by name."""
        found: dict[str, str] = {}
        for shard in range(self.num_shards):
            found |= _titles_of(self._labels(file_names(shard)["names"]))
        return found

    def relation_titles(self) -> dict[str, str]:
        """Readable names of relations, by name."""
        return _titles_of(self.relations())

    @property
    def digest(self) -> str:
        """A number for the content of all files, by their manifest."""
        return self._folder.digest

    def relations(self) -> pl.DataFrame:
        """Name and readable name of each relation, in the order of their ids."""
        return self._labels(RELATIONS)

    def verify(self) -> None:
        """Verify every file, and that there is none more and none less."""
        self._folder.verify()

    def _checked(self, shard: int) -> int:
        if not 0 <= shard < self.num_shards:
            raise TuckerkgError(f"{self.path}: shard {shard} was asked for, it has 0 to {self.num_shards - 1}")
        return shard

    def _mapped(self, name: str) -> Ids:
        path = self._folder.sized_file(name)
        try:
            found: Ids = np.load(path, mmap_mode="r")
        except ValueError as error:
            raise refusal(f"{path}: is not an array ({error}). Copy it again from its origin.") from None
        if found.ndim != 2 or found.shape[1] != 3 or found.dtype.kind != "i":
            raise refusal(f"{path}: holds {found.dtype} {list(found.shape)}, triples of integers were expected.")
        return found

    def _labels(self, name: str) -> pl.DataFrame:
        import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

        return pl.read_parquet(self._folder.sized_file(name), glob=False)

    def report(self) -> ReadReport:
        """What was read of each file, and left out."""
        files = tuple(FileReport(**{**file, "notes": tuple(file["notes"])}) for file in self.about["files"])
        return ReadReport(files, {"leaks": int(self.about["leaks"])}, tuple(self.about["warnings"]))

    def summary(self) -> str:
        """The counts in one line."""
        sizes = " / ".join(f"{self.about['counts'][split] or 0:,}" for split in SPLITS)
        return (
            f"{self.path}: {self.num_entities:,} entities, {self.num_relations:,} relations, {sizes} triples to train, "
            f"validate, test, in {self.num_shards:,} shards"
        )

    def __repr__(self) -> str:
        return f"ShardedGraph({self.summary()})"


def _titles_of(labels: pl.DataFrame) -> dict[str, str]:
    named = labels.drop_nulls("title")
    return dict(zip(named["name"].to_list(), named["title"].to_list(), strict=True))
