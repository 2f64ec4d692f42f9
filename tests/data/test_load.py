"""Datasets by name and by path."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tuckerkg.data import load as datasets
from tuckerkg.data.catalogue import KNOWN, Counts, Known, canonical_name
from tuckerkg.data.download import DownloadError, Remote, is_allowed
from tuckerkg.data.load import available, load
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.errors import InputError, TuckerkgError, UnknownNameError

DATA = os.environ.get("TUCKERKG_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="set TUCKERKG_DATA to the folder of the benchmarks")

FILES = {"train": "a\tr\tb\nb\tr\tc\nc\tr\ta\n", "valid": "a\tr\tc\n", "test": "c\tr\tb\n"}
TINY = Known("tiny", "for tests", Counts(entities=3, relations=1, train=3, valid=1, test=1), spellings=("tiniest",))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setattr(datasets, "cache_folder", lambda: cache)
    return cache


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN, "tiny", TINY)
    monkeypatch.delenv("TUCKERKG_DATA", raising=False)


def put(folder: Path, suffix: str = ".txt", **changes: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {**FILES, **changes}.items():
        data = text.encode()
        if suffix.startswith(".csv"):
            data = data.replace(b"\t", b",")
        (folder / f"{name}{suffix}").write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    return folder


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("FB15k-237", "fb15k-237"), ("fb15k237", "fb15k-237"), ("FB15K_237", "fb15k-237"), ("WN18RR", "wn18rr"),
        ("wn18-rr", "wn18rr"), ("wnrr", "wn18rr"), ("UMLS", "umls"), ("Kinships", "kinship"), ("kinship", "kinship"),
        ("nations", "nations"), ("Countries", "countries"), ("fb237", "fb15k-237"), ("fb237_v1", "fb237_v1"),
        ("FB237-v1-ind", "fb237_v1_ind"), ("WN18RR_v4", "wn18rr_v4"), ("WN18RR_v4_ind", "wn18rr_v4_ind"),
    ],
)  # fmt: skip
def test_common_spellings(spelling: str, name: str) -> None:
    assert canonical_name(spelling) == name


def test_no_two_datasets_share_a_spelling() -> None:
    for known in KNOWN.values():
        assert [canonical_name(spelling) for spelling in (known.name, *known.spellings)] == [known.name] * (
            1 + len(known.spellings)
        )


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'fb15k-237'"):
        load("fb15k-273")
    with pytest.raises(InputError, match="no such file or folder"):
        load("no/such/thing.tsv")


INDUCTIVE = [f"{family}_v{number}" for family in ("fb237", "wn18rr") for number in range(1, 5)]
SPLITS = ("train", "valid", "test")


@needs_data
@pytest.mark.parametrize("name", ["fb15k-237", "wn18rr", "umls", "kinship", "nations"])
def test_benchmarks_have_the_published_counts(name: str) -> None:
    dataset = load(name, download=False)
    report = dataset.report
    assert {part: report.counts[part] for part in KNOWN[name].counts} == KNOWN[name].counts
    assert (report.rejected, report.duplicates, report.counts["leaks"]) == (0, 0, 0)


@needs_data
def test_fb15k_237_has_crlf_and_self_loops() -> None:
    dataset = load("FB15k-237", download=False)
    assert (len(dataset.entities), len(dataset.relations)) == (14_541, 237)
    assert [len(dataset.split(split)) for split in ("train", "valid", "test")] == [272_115, 17_535, 20_466]
    assert all("CRLF line ends read as LF" in file.notes for file in dataset.report.files)
    assert dataset.report.counts["self_loops"] == 1_625 + 90 + 91
    assert dataset.report.counts["test_with_unseen_entity"] == 28
    assert not any(label.endswith("\r") for label in dataset.entities.labels)
    assert dataset.entity_titles["/m/06rf7"] == "Schleswig-Holstein"


@needs_data
def test_wn18rr_titles_are_cut_before_the_gloss() -> None:
    dataset = load("wn18rr", download=False)
    assert (len(dataset.entities), len(dataset.relations)) == (40_943, 11)
    assert [len(dataset.split(split)) for split in ("train", "valid", "test")] == [86_835, 3_034, 3_134]
    assert dataset.entity_titles["14854262"] == "stool"
    assert len(dataset.entity_titles) == 40_943


@needs_data
def test_the_pinned_titles_are_those_of_the_benchmarks() -> None:
    for name in ("fb15k-237", "wn18rr"):
        for file in ("entity2text.txt", "relation2text.txt"):
            data = (Path(str(DATA)) / name / file).read_bytes()
            remote = KNOWN[name].remotes[file]
            assert (hashlib.sha256(data).hexdigest(), len(data)) == (remote.sha256, remote.size)


@needs_data
@pytest.mark.parametrize("name", INDUCTIVE)
def test_an_inductive_benchmark_is_a_pair_of_graphs_with_the_same_relations(name: str) -> None:
    pair = [KNOWN[name], KNOWN[f"{name}_ind"]]
    folders = [datasets.find_folder(known) for known in pair]
    if None in folders:
        pytest.skip(f"{name} is not in the folder of the benchmarks")
    for known, folder in zip(pair, folders, strict=True):
        assert folder is not None
        for split in SPLITS:
            data, remote = (folder / f"{split}.txt").read_bytes(), known.remotes[f"{split}.txt"]
            assert (hashlib.sha256(data).hexdigest(), len(data)) == (remote.sha256, remote.size)
    trained, other = (load(known.name, download=False) for known in pair)
    assert set(other.relations.labels) <= set(trained.relations.labels)
    assert not set(other.entities.labels) & set(trained.entities.labels)


def test_a_dataset_of_a_collection_is_found_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN, "tiny", Known(TINY.name, TINY.about, TINY.counts, collection="several"))
    monkeypatch.delenv("TUCKERKG_DATA", raising=False)
    put(tmp_path / "several" / "Tiny")
    put(tmp_path / "others" / "tiny")
    assert load("tiny", tmp_path).report.files[0].name.startswith(str(tmp_path / "several" / "Tiny"))
    put(tmp_path / "tiny")
    assert load("tiny", tmp_path).report.files[0].name.startswith(str(tmp_path / "tiny"))
    monkeypatch.setitem(KNOWN, "tiny", TINY)
    (tmp_path / "tiny").rename(tmp_path / "elsewhere")
    with pytest.raises(TuckerkgError, match="was not found"):
        load("tiny", tmp_path)


@pytest.mark.parametrize("suffix", [".txt", ".tsv", ".csv", ".tsv.gz", ".csv.gz"])
def test_a_folder_with_files_of_any_suffix(tmp_path: Path, suffix: str) -> None:
    dataset = load(put(tmp_path / "mine", suffix))
    assert dataset.name == "mine"
    assert [len(dataset.split(split)) for split in ("train", "valid", "test")] == [3, 1, 1]


def test_a_folder_with_dev_for_valid_and_titles(tmp_path: Path) -> None:
    folder = put(tmp_path / "mine")
    (folder / "valid.txt").rename(folder / "dev.txt")
    (folder / "entity2text.txt").write_text("a\tAlpha, the first\n")
    (folder / "relation2text.txt").write_text("r\tis next to\n")
    dataset = load(str(folder))
    assert len(dataset.valid) == 1
    assert dataset.entity_titles == {"a": "Alpha, the first"}
    assert dataset.relation_titles == {"r": "is next to"}


def test_folders_that_are_not_clear(tmp_path: Path) -> None:
    folder = put(tmp_path / "mine")
    (folder / "train.tsv").write_text(FILES["train"])
    with pytest.raises(InputError, match=r"has train\.txt, train\.tsv, one of them was expected"):
        load(folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.md").write_text("")
    with pytest.raises(InputError, match=r"no train\.txt.*notes\.md"):
        load(tmp_path / "other")


def test_a_single_file_is_split(tmp_path: Path) -> None:
    path = tmp_path / "graph.tsv"
    path.write_text("".join(f"e{n % 9}\tr{n % 2}\te{n % 7}\n" for n in range(63)))
    dataset = load(str(path), seed=3)
    assert dataset.name == "graph"
    assert (len(dataset.valid), len(dataset.test)) == (6, 6)
    assert len(load(path, split=None).train) == 63


def test_options_reach_a_persons_own_files(tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_text("a;r;b\n\nx;y\nb;r;a\n")
    options = ReadOptions(delimiter="semicolon", on_error="skip", rejects=tmp_path / "rejected.tsv")
    dataset = load(path, options=options, split=None)
    assert (dataset.report.kept, dataset.report.rejected) == (2, 1)
    assert (tmp_path / "rejected.tsv").exists()


@pytest.mark.parametrize("inner", ["", "deep/down"])
def test_archives_are_read(tmp_path: Path, inner: str) -> None:
    folder = put(tmp_path / "packed" / inner)
    with zipfile.ZipFile(tmp_path / "mine.zip", "w") as package, tarfile.open(tmp_path / "mine.tar.gz", "w:gz") as tar:
        for path in sorted(folder.iterdir()):
            package.write(path, f"{inner}/{path.name}".lstrip("/"))
            tar.add(path, f"{inner}/{path.name}".lstrip("/"))
    for name in ("mine.zip", "mine.tar.gz"):
        dataset = load(tmp_path / name)
        assert (dataset.name, len(dataset.train)) == ("mine", 3)
        assert dataset.report.files[0].name == f"{tmp_path / name}!train.txt"


def test_errors_inside_an_archive_name_the_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "mine.zip", "w") as package:
        package.writestr("train.tsv", "a\tr\tb\nx\ty\n")
    with pytest.raises(InputError, match=r"mine\.zip!train\.tsv:2:1: 2 columns"):
        load(tmp_path / "mine.zip")
    with zipfile.ZipFile(tmp_path / "none.zip", "w") as package:
        package.writestr("notes.md", "")
    with pytest.raises(InputError, match="0 folders with a train file"):
        load(tmp_path / "none.zip")


@pytest.mark.usefixtures("tiny")
def test_the_order_of_places(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(own_cache / "tiny")
    put(tmp_path / "env" / "Tiniest")
    put(tmp_path / "given" / "tiny")
    assert load("tiny", download=False).report.files[0].name.startswith(str(own_cache))
    monkeypatch.setenv("TUCKERKG_DATA", str(tmp_path / "env"))
    assert load("TINY").report.files[0].name.startswith(str(tmp_path / "env" / "Tiniest"))
    assert load("tiny", tmp_path / "given").report.files[0].name.startswith(str(tmp_path / "given"))
    assert load("tiny", tmp_path / "given" / "tiny").report.files[0].name.startswith(str(tmp_path / "given"))


@pytest.mark.usefixtures("tiny")
def test_a_name_is_not_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "tiny", train="x\tr\ty\n", valid="y\tr\tx\n", test="x\tr\tx\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TuckerkgError, match="was not found"):
        load("tiny", download=False)
    assert len(load("./tiny").train) == 1
    assert len(load(Path("tiny")).train) == 1


@pytest.mark.usefixtures("tiny")
def test_files_that_are_not_the_published_ones_are_refused(tmp_path: Path) -> None:
    put(tmp_path / "tiny", train="a\tr\tb\nb\tr\tc\n")
    with pytest.raises(InputError, match="2 train found, tiny has 3"):
        load("tiny", tmp_path)


@pytest.mark.usefixtures("tiny")
def test_not_found_says_where_to_put_the_files(own_cache: Path) -> None:
    with pytest.raises(TuckerkgError) as caught:
        load("tiny")
    assert str(own_cache / "tiny") in str(caught.value)
    assert "there is no download for tiny" in str(caught.value)


def test_fetching_gathers_archive_and_files(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = put(tmp_path / "packed")
    with tarfile.open(tmp_path / "t.tar.gz", "w:gz") as tar:
        for path in sorted(packed.iterdir()):
            tar.add(path, path.name)
    sources = {"https://x/t.tar.gz": (tmp_path / "t.tar.gz").read_bytes(), "https://x/e": b"a\tAlpha\n"}
    remotes = {"triples.tar.gz": Remote("https://x/t.tar.gz", "", 0), "entity2text.txt": Remote("https://x/e", "", 0)}
    monkeypatch.setitem(KNOWN, "tiny", Known(TINY.name, TINY.about, TINY.counts, remotes=remotes))
    monkeypatch.delenv("TUCKERKG_DATA", raising=False)
    asked: list[str] = []

    def deliver(remotes: Mapping[str, Remote], folder: Path, *_: object) -> Iterator[Path]:
        folder.mkdir()
        for name, remote in remotes.items():
            asked.append(remote.url)
            if remote.url not in sources:
                raise DownloadError("gone")
            (folder / name).write_bytes(sources[remote.url])
            yield folder / name

    monkeypatch.setattr(datasets, "download", deliver)
    missing = sources.pop("https://x/e")
    with pytest.raises(DownloadError):
        load("tiny")
    assert list(own_cache.iterdir()) == []
    sources["https://x/e"] = missing
    asked.clear()
    dataset = load("tiny")
    assert dataset.entity_titles == {"a": "Alpha"}
    assert asked == ["https://x/t.tar.gz", "https://x/e"]
    assert sorted(path.name for path in (own_cache / "tiny").iterdir()) == [
        "entity2text.txt", "test.txt", "train.txt", "valid.txt",
    ]  # fmt: skip
    load("tiny")
    assert len(asked) == 2
    assert [path.name for path in own_cache.iterdir()] == ["tiny"]


def test_every_remote_is_pinned() -> None:
    for known in KNOWN.values():
        assert known.remotes or known.name == "countries"
        for remote in known.remotes.values():
            assert is_allowed(remote.url)
            assert len(bytes.fromhex(remote.sha256)) == 32
            assert 0 < remote.size <= 64 << 20


def test_the_list_of_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUCKERKG_DATA", raising=False)
    rows = {row.name: row for row in available()}
    inductive = [f"{name}{end}" for name in INDUCTIVE for end in ("", "_ind")]
    assert list(rows) == ["countries", "fb15k-237", "wn18rr", "umls", "kinship", "nations", *inductive]
    assert rows["countries"].found
    assert not rows["wn18rr"].found
    assert rows["wn18rr"].where == "to be fetched (5.0 MB)"
    assert rows["fb15k-237"].train == 272_115


def test_a_failed_download_says_where_the_files_may_be_put(tmp_path, monkeypatch):
    def unreachable(*_, **__):
        raise OSError("no network here")

    monkeypatch.delenv("TUCKERKG_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(datasets, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr("socket.getaddrinfo", unreachable)
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    with pytest.raises(DownloadError, match="no network here") as caught:
        datasets.load("umls")
    assert "put train.txt, valid.txt and test.txt" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path, own_cache, monkeypatch):
    monkeypatch.delenv("TUCKERKG_DATA", raising=False)
    own_cache.write_text("a file where the folder should be")
    with pytest.raises(DownloadError, match=r"cache/umls cannot be written: File exists; check its disk"):
        datasets.load("umls")
