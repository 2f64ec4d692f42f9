"""Datasets by name or path: the ones that are known, where they are looked for, and what is expected of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuckerkg.data.archives import extract, is_archive
from tuckerkg.data.catalogue import KNOWN, Counts, Known, canonical_name
from tuckerkg.data.dataset import Dataset
from tuckerkg.data.download import DownloadError, download
from tuckerkg.data.from_files import Titles
from tuckerkg.data.from_shards import read_shards
from tuckerkg.data.readers.bytes import refuse
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.readers.parquet import SUFFIX as PARQUET_SUFFIX
from tuckerkg.data.readers.rdf import SUFFIXES as RDF_SUFFIXES
from tuckerkg.data.readers.read import TripleFile, read_titles
from tuckerkg.data.shards import is_sharded
from tuckerkg.errors import InputError, Problem, TuckerkgError, UnknownNameError, did_you_mean, printable

if TYPE_CHECKING:
    from tuckerkg.types import ProgressFunction

DEFAULT = "countries"
ENVIRONMENT = "TUCKERKG_DATA"
PLAIN_SUFFIXES = (".txt", ".tsv", ".csv", *RDF_SUFFIXES)
SUFFIXES = (*PLAIN_SUFFIXES, *(f"{suffix}.gz" for suffix in PLAIN_SUFFIXES), PARQUET_SUFFIX)
SPLIT_NAMES = {"train": ("train",), "valid": ("valid", "validation", "val", "dev"), "test": ("test",)}
TITLE_NAMES = ("entity2text", "relation2text")


@dataclass(frozen=True)
class Listed:
    """One row of the list of datasets; ``where`` is a folder, or says that it would be fetched."""

    name: str
    about: str
    entities: int
    relations: int
    train: int
    valid: int
    test: int
    where: str
    found: bool


def load(  # noqa: PLR0913  (by keyword)
    name_or_path: str | os.PathLike[str] = DEFAULT,
    data: str | os.PathLike[str] | None = None,
    *,
    download: bool = True,
    options: ReadOptions | None = None,
    allow_leaks: bool = False,
    split: tuple[float, float, float] | None = (0.8, 0.1, 0.1),
    seed: int = 0,
    unseen_relations: bool = False,
    entity_titles: Titles | None = None,
    relation_titles: Titles | None = None,
    progress: ProgressFunction | None = None,
) -> Dataset:
    """A dataset by name (any common spelling), or from a folder, a file or an archive.

    A bare name means the known dataset even where a folder of that name exists: write ``./umls`` for the folder,
    or pass a Path, which is never taken for a name.
    A named dataset is looked for in ``data``, in the folder that TUCKERKG_DATA names, in the user's cache (one of a
    collection in the folder of that name there, too), and then fetched if ``download``; its counts must be the
    published ones. A single file, or a folder with only a train file, is split by ``split`` and ``seed``.
    ``entity_titles`` and ``relation_titles`` are readable names by label, or a file of them: a label, a tab and the
    name; in a folder they may lie as entity2text.txt and relation2text.txt.
    """
    name = canonical_name(name_or_path) if isinstance(name_or_path, str) else None
    if name is None:
        reading = _Reading(options, allow_leaks, split, seed, unseen_relations, entity_titles, relation_titles)
        return _load_path(Path(name_or_path), reading)
    known = KNOWN[name]
    folder = find_folder(known, data)
    if folder is None:
        if not download or not known.remotes:
            raise TuckerkgError(_where_to_put(known, data))
        try:
            folder = fetch(known, progress)
        except DownloadError as error:
            raise DownloadError(f"{error}\n{_where_to_put(known, data)}") from error
    # Reading options describe a user's own files; the known ones have a known form.
    reading = _Reading(None, False, None, seed, unseen_relations, entity_titles, relation_titles)
    dataset = _read_folder(_Folder(folder), known.name, reading, known.title_ends)
    _check_counts(known, dataset, folder)
    return dataset


def read_dataset(
    graph: Any,
    data: str | os.PathLike[str] | None = None,
    *,
    split: tuple[float, float, float] | None = (0.8, 0.1, 0.1),
    unseen_relations: bool = False,
    options: ReadOptions | None = None,
) -> Dataset:
    """Read a dataset from a name, a path or a graph in memory; one that is read already is returned.

    ``options`` are those of files.
    """
    if isinstance(graph, Dataset):
        return graph
    if isinstance(graph, str | os.PathLike):
        return load(graph, data, options=options, split=split, unseen_relations=unseen_relations)
    return Dataset.of(graph, split=split)


def available(data: str | os.PathLike[str] | None = None) -> list[Listed]:
    """The known datasets with their sizes, and where each one is found."""
    rows = []
    for known in KNOWN.values():
        folder = find_folder(known, data)
        size = sum(remote.size for remote in known.remotes.values())
        where = str(folder) if folder else f"to be fetched ({size / 1e6:.1f} MB)" if size else "not found"
        rows.append(Listed(known.name, known.about, **known.counts, where=where, found=folder is not None))
    return rows


def find_folder(known: Known, data: str | os.PathLike[str] | None = None) -> Path | None:
    """The first folder that holds ``known``: in ``data``, in TUCKERKG_DATA, in the user's cache."""
    if known.name == DEFAULT:
        return Path(__file__).parent / DEFAULT
    named = os.environ.get(ENVIRONMENT)
    for root in (Path(data) if data is not None else None, Path(named) if named else None, cache_folder()):
        found = _folder_under(root, known) if root is not None else None
        if found is not None:
            return found
    return None


def cache_folder() -> Path:
    """Where fetched datasets are kept."""
    import platformdirs  # noqa: PLC0415 - only needed once a dataset is looked for

    return Path(platformdirs.user_cache_dir("tuckerkg")) / "datasets"


def _folder_under(root: Path, known: Known) -> Path | None:
    if not root.is_dir():
        return None
    inner = sorted(root.glob(f"{known.collection}/*")) if known.collection else []
    for folder in [root / known.name, *sorted(root.iterdir()), *inner, root]:
        named = folder is root or canonical_name(folder.name) == known.name
        if named and folder.is_dir() and _candidates(folder, SPLIT_NAMES["train"]):
            return folder
    return None


def fetch(known: Known, progress: ProgressFunction | None = None) -> Path:
    """Download ``known`` into the user's cache, whole or not at all, and return its folder.

    Raises:
        DownloadError: a file could not be downloaded, or the cache could not be written.
    """
    root = cache_folder()
    target = root / known.name
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{known.name}.", dir=root) as temporary:
            gathered = _gather(known, Path(temporary), progress)
            try:
                gathered.rename(target)
            except OSError:
                # Another process may have put the same files there meanwhile; anything else is a real failure.
                if _folder_under(root, known) is None:
                    shutil.rmtree(target, ignore_errors=True)
                    gathered.rename(target)
    except OSError as error:
        raise DownloadError(f"{target} cannot be written: {error.strerror or error}; check its disk") from error
    return target


def _gather(known: Known, temporary: Path, progress: ProgressFunction | None) -> Path:
    """Download the files of ``known``, unpack archives, and put everything into one folder."""
    gathered = temporary / "whole"
    gathered.mkdir()
    for path in download(known.remotes, temporary / "fetched", progress):
        for file in extract(path, temporary / "unpacked") if is_archive(path) else [path]:
            file.replace(gathered / file.name)
    return gathered


def _where_to_put(known: Known, data: str | os.PathLike[str] | None) -> str:
    places = [str(data)] if data is not None else []
    places += [f"${ENVIRONMENT}", str(cache_folder())]
    how = "or let it be downloaded" if known.remotes else f"there is no download for {known.name}"
    return (
        f"the dataset {known.name} was not found in {', '.join(places)}; put train.txt, valid.txt and test.txt into "
        f"{cache_folder() / known.name} or into a folder {known.name} that --data or {ENVIRONMENT} leads to; {how}"
    )


def _check_counts(known: Known, dataset: Dataset, folder: Path) -> None:
    found = Counts(
        entities=len(dataset.entities),
        relations=len(dataset.relations),
        train=len(dataset.train),
        valid=len(dataset.valid),
        test=len(dataset.test),
    )
    wrong = [
        Problem(str(folder), None, None, f"{count:,} {part} found, {known.name} has {expected:,}")
        for (part, count), expected in zip(found.items(), known.counts.values(), strict=True)
        if count != expected
    ]
    if wrong:
        remedy = "These are not the published files. Replace the folder, or load it by path to use it as it is."
        raise InputError(wrong, remedy)


@dataclass(frozen=True)
class _Reading:
    """What is asked of reading; see ``Dataset.from_files``."""

    options: ReadOptions | None
    allow_leaks: bool
    split: tuple[float, float, float] | None
    seed: int
    unseen_relations: bool
    entity_titles: Titles | None = None
    relation_titles: Titles | None = None


def _load_path(path: Path, reading: _Reading) -> Dataset:
    if is_sharded(path):
        return _read_shards(path, reading)
    if path.is_dir():
        return _read_folder(_Folder(path), path.resolve().name, reading)
    if not path.exists():
        _refuse_missing(path)
    if is_archive(path):
        with _unpacked(path) as folder:
            return _read_folder(folder, path.name.partition(".")[0], reading)
    return Dataset.from_files(path, **vars(reading))


def _read_shards(path: Path, reading: _Reading) -> Dataset:
    read = read_shards(
        path,
        entity_titles=reading.entity_titles,
        relation_titles=reading.relation_titles,
        split=reading.split,
        seed=reading.seed,
    )
    return Dataset(**vars(read))


def _refuse_missing(path: Path) -> None:
    text = str(path)
    scheme, mark, rest = text.partition(":")
    if mark and scheme.lower() in ("http", "https", "ftp", "s3", "gs") and rest.startswith("/"):
        refuse(f"{scheme}://{rest.lstrip('/')}", "is an address; only files are read: download it, and give its path")
    if os.sep in text or path.suffix:
        refuse(text, "no such file or folder; check the path")
    hint = did_you_mean(text, KNOWN)
    raise UnknownNameError(f"unknown dataset '{printable(text)}'; known: {', '.join(KNOWN)}, or give a path.{hint}")


@dataclass(frozen=True)
class _Folder:
    """A folder of a dataset, and the name to show instead of its path where it is a temporary one."""

    path: Path
    shown: str | None = None

    def file(self, path: Path) -> TripleFile:
        return TripleFile(path, str(path) if self.shown is None else f"{self.shown}!{path.relative_to(self.path)}")


@contextmanager
def _unpacked(archive: Path) -> Iterator[_Folder]:
    with tempfile.TemporaryDirectory(prefix="tuckerkg-") as temporary:
        files = extract(archive, Path(temporary) / "unpacked")
        homes = sorted({path.parent for path in files if _candidates(path.parent, SPLIT_NAMES["train"])})
        if len(homes) != 1:
            refuse(str(archive), f"{len(homes)} folders with a train file found in the archive, one was expected")
        yield _Folder(homes[0], str(archive))


def _candidates(folder: Path, names: tuple[str, ...], suffixes: tuple[str, ...] = SUFFIXES) -> list[Path]:
    return [
        folder / f"{name}{suffix}" for name in names for suffix in suffixes if (folder / f"{name}{suffix}").exists()
    ]


def split_files(folder: Path) -> dict[str, TripleFile]:
    """The files of a folder by split: ``train``, and ``valid`` and ``test`` where they are there."""
    return _split_files(_Folder(folder))


def _split_files(folder: _Folder) -> dict[str, TripleFile]:
    found = {split: _one(folder, names) for split, names in SPLIT_NAMES.items()}
    if found["train"] is None:
        there = sorted(path.name for path in folder.path.iterdir())[:10]
        refuse(
            folder.shown or str(folder.path),
            f"no train{' or train'.join(SUFFIXES[:3])} found, only: {', '.join(there)}",
        )
    return {split: file for split, file in found.items() if file is not None}


def _one(folder: _Folder, names: tuple[str, ...]) -> TripleFile | None:
    found = _candidates(folder.path, names)
    if len(found) > 1:
        listed = ", ".join(path.name for path in found)
        refuse(folder.shown or str(folder.path), f"has {listed}, one of them was expected; remove or rename the others")
    return folder.file(found[0]) if found else None


def _read_folder(folder: _Folder, name: str, reading: _Reading, title_ends: str | None = None) -> Dataset:
    files = _split_files(folder)
    entity_titles, relation_titles = (
        _read_titles(folder, stem, title_ends) if given is None else given
        for stem, given in zip(TITLE_NAMES, (reading.entity_titles, reading.relation_titles), strict=True)
    )
    named = replace(reading, entity_titles=entity_titles, relation_titles=relation_titles)
    return Dataset.from_files(files["train"], files.get("valid"), files.get("test"), name=name, **vars(named))


def _read_titles(folder: _Folder, stem: str, ends: str | None) -> dict[str, str] | None:
    file = _one(folder, (stem,))
    if file is None:
        return None
    titles = read_titles(file)
    if ends is None or stem != TITLE_NAMES[0]:
        return titles
    return {label: title.partition(ends)[0].strip() or title for label, title in titles.items()}
