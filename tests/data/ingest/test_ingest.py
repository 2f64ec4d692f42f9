"""Ingested folders hold what reading the files gives: triples, counts, titles and errors."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from files import put
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("duckdb")

from tuckerkg.data.dataset import Dataset
from tuckerkg.data.ingest import engine as engine_module
from tuckerkg.data.ingest import ingest as ingest_module
from tuckerkg.data.ingest.arrays import TripleWriter, id_type
from tuckerkg.data.ingest.engine import Engine, database_memory, parquet
from tuckerkg.data.ingest.ingest import ingest
from tuckerkg.data.ingest.request import parse_memory
from tuckerkg.data.load import load
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.shards import ShardedGraph, shard_of, shards_of
from tuckerkg.errors import InputError, TuckerkgError

LINES = st.lists(
    st.sampled_from(
        [
            b"a\tr\tb", b"b\tr\tc", b"c\ts\ta", "é\tr\t中".encode(), b"a\tr\tb", b"a\ts\ta", b' "q\tr\t b ',
            b"x,y\tr\tz", b"", b"# note", b"a\tr", b"a\tr\tb\tc", b"\tr\tb", b"a\t \tb", b"a\xff\tr\tb", b"a\0\tr\tb",
            b"a\rb\tr\tc", b"a\tr\tb\r", b"NA\tnan\t007",
        ]
    ),
    max_size=25,
)  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few lines, so that small files have seams."""
    monkeypatch.setattr(ingest_module, "block_bytes", lambda memory: 50)


def facts(dataset: Dataset, split: str) -> set[tuple[str, str, str]]:
    names, relations = dataset.entities.labels, dataset.relations.labels
    return {(names[h], relations[r], names[t]) for h, r, t in dataset.split(split).tolist()}


def assert_same(found: Dataset, expected: Dataset) -> None:
    assert found.entities == expected.entities
    assert found.relations == expected.relations
    for split in ("train", "valid", "test"):
        assert len(found.split(split)) == len(expected.split(split))
        assert facts(found, split) == facts(expected, split)
    assert found.report.as_dict() == expected.report.as_dict()
    assert found.entity_titles == expected.entity_titles
    assert found.relation_titles == expected.relation_titles


@given(
    train=LINES,
    valid=LINES,
    test=LINES,
    skip=st.booleans(),
    allow=st.booleans(),
    shards=st.sampled_from([1, 3, 64]),
    padded=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_any_files_are_ingested_as_they_are_read(
    tmp_path_factory: pytest.TempPathFactory, train: list, valid: list, test: list, skip: bool, allow: bool,
    shards: int, padded: bool,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("ingest")
    parts = {"train": [b"g\tr\th"] * 400 * padded + [b"g\ts\th", *train], "valid": valid, "test": test}
    files = [put(folder, b"\n".join(lines) + b"\n", f"{split}.tsv") for split, lines in parts.items() if lines]
    named = {file.stem: file for file in files}
    options = ReadOptions(on_error="skip" if skip else "stop")
    try:
        expected = Dataset.from_files(**named, options=options, name="out", split=None, allow_leaks=allow)
    except InputError as error:
        expected = error
    try:
        ingest(folder, folder / "out", options=options, shards=shards, allow_leaks=allow)
    except InputError as error:
        assert isinstance(expected, InputError)
        # The first bad block of the first bad file stops it, where reading into memory goes on.
        assert error.problems == expected.problems[: len(error.problems)]
    else:
        assert isinstance(expected, Dataset)
        assert_same(load(folder / "out", split=None), expected)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", 'x,r,"b, c"\n"b, c",r,"d\nd"\nx,r,"b, c"\n' * 40),
        ("a.tsv.gz", "x\tr\ty\ny\tr\tz\n" * 40),
        ("a.nt", "".join(f"<http://x/{i}> <http://x/p> <http://x/{i % 7}> .\n" for i in range(60))),
        (
            "titles.nt",
            '<http://x/a> <http://x/p> <http://x/b> .\n<http://x/a> <http://x/name> "Late" .\n_:n <http://x/p> _:m .\n'
            * 20
            + '<http://x/a> <http://www.w3.org/2000/01/rdf-schema#label> "Ann"@en .\n'
            + '<http://x/p> <http://www.w3.org/2000/01/rdf-schema#label> "knows" .\n_:n <http://x/p> <http://x/a> .\n',
        ),
    ],
)
def test_formats_are_ingested_as_they_are_read(tmp_path: Path, name: str, text: str) -> None:
    path = put(tmp_path, gzip.compress(text.encode()) if name.endswith(".gz") else text, name)
    graph = ingest(path, tmp_path / "out", shards=4)
    graph.verify()
    assert_same(load(tmp_path / "out"), load(path))


def test_parquet_is_ingested_as_it_is_read(tmp_path: Path) -> None:
    frame = pl.DataFrame({"head": ["a", "b", "c"] * 50, "relation": ["r"] * 150, "tail": ["b", "c", "a"] * 50})
    frame.write_parquet(tmp_path / "a.parquet")
    ingest(tmp_path / "a.parquet", tmp_path / "out", shards=2)
    assert_same(load(tmp_path / "out"), load(tmp_path / "a.parquet"))


def test_hostile_labels_survive(tmp_path: Path) -> None:
    """NUL bytes, quotes of SQL, look-alikes, direction marks and code points beyond 16 bits."""
    labels = [
        "a\0b",
        "a\0c",
        "'; DROP TABLE found; --",
        "e\u0301",
        "é",
        "\u202eb",
        "😀",
        "\uffff",
        "\U0010ffff",
        " a ",
        "?",
    ]
    frame = pl.DataFrame({"head": labels, "relation": ["it's \0 r"] * len(labels), "tail": labels[::-1]})
    frame.write_parquet(tmp_path / "a.parquet")
    ingest(tmp_path / "a.parquet", tmp_path / "out", shards=3)
    assert_same(load(tmp_path / "out", split=None), load(tmp_path / "a.parquet", split=None))


def test_progress_never_goes_back(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    files = [put(tmp_path, "a\tr\tb\n" * 1000, f"{number}.tsv") for number in range(3)]
    ingest(files, tmp_path / "out", shards=4, split=(0.8, 0.1, 0.1), progress=lambda *at: seen.append(at))
    assert len({total for _, total in seen}) == 1
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == seen[-1][1]


def test_ids_of_64_bits_where_32_are_not_enough(tmp_path: Path) -> None:
    assert id_type(2**31 - 1) == np.int32
    assert id_type(2**31) == np.int64
    triples = np.array([[2**40, 1, 3], [4, 5, 6]])
    with TripleWriter(tmp_path / "a.npy", 2, id_type(2**41)) as writer:
        writer.write(triples[:1])
        writer.write(triples[1:])
    assert np.load(tmp_path / "a.npy").tolist() == triples.tolist()


def test_one_file_is_split_on_opening_as_if_it_were_read(tmp_path: Path) -> None:
    path = put(tmp_path, "".join(f"e{i % 20}\tr{i % 3}\te{i * 7 % 20}\n" for i in range(200)))
    ingest(path, tmp_path / "out", shards=5)
    assert_same(load(tmp_path / "out"), load(path))


def test_shards_partition_the_graph(tmp_path: Path) -> None:
    rows = [(f"e{i % 40}", f"r{i % 3}", f"e{i * 7 % 31}") for i in range(300)]
    path = put(tmp_path, "".join("\t".join(row) + "\n" for row in rows))
    graph = ingest(path, tmp_path / "out", shards=8)
    names = [name for shard in range(8) for name in graph.names(shard)]
    assert sorted(names) == sorted({name for head, _, tail in rows for name in (head, tail)})
    relations = graph.relations()["name"].to_list()
    everything = []
    for shard in range(8):
        mine = list(graph.names(shard))
        assert mine == sorted(mine)
        assert {shard_of(name, 8) for name in mine} <= {shard}
        assert graph.offsets[shard + 1] - graph.offsets[shard] == len(mine)
        triples, edges = graph.triples(shard), graph.in_edges(shard)
        assert isinstance(triples, np.memmap)
        assert triples.dtype == np.int32
        assert (graph.owners(triples[:, 0]) == shard).all()
        assert (graph.owners(edges[:, 2]) == shard).all()
        assert triples.tolist() == sorted(triples.tolist())
        turned = edges[:, ::-1].tolist()
        assert turned == sorted(turned)
        everything.append((triples.tolist(), edges.tolist()))
    by_head = [tuple(row) for triples, _ in everything for row in triples]
    by_tail = [tuple(row) for _, edges in everything for row in edges]
    assert sorted(by_head) == sorted(by_tail)
    assert {(names[h], relations[r], names[t]) for h, r, t in by_head} == set(rows)
    assert len(by_head) == len(set(rows))


def test_the_shard_of_a_name_never_changes() -> None:
    assert shard_of("123456789", 1 << 32) == 0xCBF43926  # the check value of CRC-32
    names = ("", "a", "France", "é", "http://www.wikidata.org/entity/Q42")
    assert [shard_of(name, 64) for name in names] == [0, 3, 2, 62, 21]
    assert shards_of(pl.Series(names), 64).tolist() == [0, 3, 2, 62, 21]


def test_several_files_count_a_repeated_triple_once(tmp_path: Path) -> None:
    files = [
        put(tmp_path, text, name) for name, text in (("1.tsv", "a\tr\tb\nb\tr\tc\n"), ("2.tsv", "a\tr\tb\nc\tr\ta\n"))
    ]
    graph = ingest(files, tmp_path / "out", valid=put(tmp_path, "b\tr\ta\n", "v.tsv"), shards=2)
    counts = [(file.split, file.read, file.kept, file.duplicates) for file in graph.report().files]
    assert counts == [("train", 2, 2, 0), ("train", 2, 1, 1), ("valid", 1, 1, 0)]


def test_held_out_shares_by_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_module, "block_bytes", lambda memory: 5000)
    random = np.random.default_rng(0)
    rows = {(f"e{h}", f"r{r}", f"e{t}") for h, r, t in random.integers(0, [200, 5, 200], (4000, 3)).tolist()}
    rows |= {("once", "r0", "e1"), ("e1", "rare", "e2")}
    path = put(tmp_path, "".join("\t".join(row) + "\n" for row in sorted(rows)))
    found = {}
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        ingest(path, tmp_path / name, shards=4, split=(0.8, 0.1, 0.1), seed=seed)
        found[name] = load(tmp_path / name)
        sizes = [len(found[name].split(split)) for split in ("train", "valid", "test")]
        assert sum(sizes) == len(rows)
        assert 0.07 * len(rows) < sizes[1] < 0.13 * len(rows)
        assert 0.07 * len(rows) < sizes[2] < 0.13 * len(rows)
        train = facts(found[name], "train")
        assert {("once", "r0", "e1"), ("e1", "rare", "e2")} <= train
        assert {end for head, _, tail in train for end in (head, tail)} == set(found[name].entities.labels)
    assert facts(found["one"], "test") == facts(found["same"], "test") != facts(found["other"], "test")


def test_leaks_and_unseen_relations_name_the_lines(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    put(folder, "x\tr\ty\n" * 300 + "a\tr\tb\nb\tr\tc\n")
    put(folder, "\nb\tr\ta\na\tr\tb\n", "valid.tsv")
    put(folder, "b\tr\ta\nc\tr\ta\nb\tr\tc\n", "test.tsv")
    for allow in (False, True):
        expected = None
        try:
            expected = Dataset.from_files(*(folder / f"{s}.tsv" for s in ("train", "valid", "test")), allow_leaks=allow)
        except InputError as error:
            with pytest.raises(InputError) as caught:
                ingest(folder, tmp_path / "out", shards=3)
            assert str(caught.value) == str(error)
        else:
            ingest(folder, tmp_path / "out", shards=3, allow_leaks=True)  # continues
            found = load(tmp_path / "out")
            assert found.report.counts == expected.report.counts
            assert found.report.warnings == expected.report.warnings
    put(folder, "b\tnew\ta\nc\tr\ta\na\tnewer\tb\n", "test.tsv")
    put(folder, "b\tr\ta\n", "valid.tsv")
    with pytest.raises(InputError) as expected:
        load(folder)
    with pytest.raises(InputError) as caught:
        ingest(folder, tmp_path / "another", shards=3)
    assert str(caught.value) == str(expected.value)


def test_rows_set_aside_are_written_as_reading_writes_them(tmp_path: Path) -> None:
    path = put(tmp_path, "a\tr\tb\nbad\n" * 30 + "c\tr\t\n")
    ours, theirs = tmp_path / "ours.tsv", tmp_path / "theirs.tsv"
    load(path, options=ReadOptions(on_error="skip", rejects=theirs))
    ingest(path, tmp_path / "out", options=ReadOptions(on_error="skip", rejects=ours))
    assert ours.read_text() == theirs.read_text()
    only_bad = put(tmp_path, "bad\nworse\n", "bad.tsv")
    with pytest.raises(InputError, match="0 triples left for train: all 2 rows are bad"):
        ingest(only_bad, tmp_path / "none", options=ReadOptions(on_error="skip"))
    assert not (tmp_path / "none").exists()


def test_the_limits_are_handed_on(tmp_path: Path) -> None:
    engine = Engine(1_000_000_000, 1, tmp_path / "spill")
    found = engine.arrays(
        "SELECT current_setting('memory_limit') AS memory, current_setting('threads') AS threads, "
        "current_setting('temp_directory') AS place"
    )
    engine.close()
    assert found["memory"][0] == "476.8 MiB"  # 500 MB: the rest is the interpreter's and the arrays'
    assert [database_memory(size * 10**6) // 10**6 for size in (300, 500, 8000)] == [100, 250, 4000]
    assert found["threads"][0] == 1
    assert found["place"][0] == str(tmp_path / "spill")


@pytest.mark.parametrize(
    ("text", "size"), [("2GB", 2 * 10**9), ("1.5 GiB", 3 * 2**29), ("500mb", 5 * 10**8), (10**9, 10**9)]
)
def test_memory_is_written_in_units(text: str | int, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("memory 'much' is not a size; write it as 2GB", {"memory": "much"}),
        ("memory 5MB is too little", {"memory": "5MB"}),
        ("0 shards were asked for, 1 to 1,024 are possible", {"shards": 0}),
        (r"split \(0.5, 0.1\) must be three shares", {"split": (0.5, 0.1)}),
    ],
)
def test_what_makes_no_sense_is_refused_before_reading(tmp_path: Path, words: str, arguments: dict) -> None:
    path = put(tmp_path, "a\tr\tb\n")
    with pytest.raises(TuckerkgError, match=words):
        ingest(path, tmp_path / "out", **arguments)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_bad_row_leaves_nothing_behind(tmp_path: Path) -> None:
    path = put(tmp_path, "a\tr\tb\nbad\n")
    with pytest.raises(InputError, match=r"train\.tsv:2:1: 0 tabs found"):
        ingest(path, tmp_path / "out")
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    path.write_text("a\tr\tb\nb\tr\tc\n")
    assert ingest(path, tmp_path / "out").num_entities == 3


def test_paths_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    path = put(tmp_path, "a\tr\tb\n")
    (tmp_path / "there").mkdir()
    with pytest.raises(TuckerkgError, match="exists already; remove it, or choose another --out"):
        ingest(path, tmp_path / "there")
    with pytest.raises(InputError, match="no such file; check the path"):
        ingest(tmp_path / "no.tsv", tmp_path / "out")
    with pytest.raises(TuckerkgError, match="give one folder alone, or files"):
        ingest([tmp_path, path], tmp_path / "out")
    with pytest.raises(TuckerkgError, match="leave out one of them"):
        ingest(path, tmp_path / "out", valid=path, split=(0.8, 0.1, 0.1))
    with pytest.raises(TuckerkgError, match="no file was given"):
        ingest([], tmp_path / "out")


def test_quotes_and_wildcards_in_the_name_of_the_folder(tmp_path: Path) -> None:
    out = tmp_path / "it's [a] *folder*?"
    path = put(tmp_path, "a\tr\tb\nb\tr\tc\n")
    assert ingest(path, out, shards=2).num_entities == 3
    assert parquet(Path("a'b*"), "x.parquet") == "read_parquet('a''b[*]/x.parquet')"


def test_without_duckdb_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(TuckerkgError) as caught:
        ingest(put(tmp_path, "a\tr\tb\n"), tmp_path / "out")
    assert str(caught.value) == engine_module.INSTALL
    assert 'pip install "tuckerkg[ingest]"' in engine_module.INSTALL


def test_too_little_memory_says_what_helps(tmp_path: Path) -> None:
    engine = Engine(1_000_000_000, 1, tmp_path / "spill")
    engine.connection.execute("SET memory_limit = '1MB'")
    with pytest.raises(TuckerkgError, match="raise --memory, or take more --shards"):
        engine.keep("large", "SELECT range AS x, md5(range::VARCHAR) AS y FROM range(3000000) ORDER BY y")
    engine.close()


def test_damage_to_a_folder_is_noticed(tmp_path: Path) -> None:
    ingest(put(tmp_path, "a\tr\tb\nb\tr\tc\n"), tmp_path / "out", shards=1)
    file = tmp_path / "out" / "train-0000.npy"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(TuckerkgError, match="The file was cut"):
        load(tmp_path / "out")
    with pytest.raises(TuckerkgError, match="shard 1 was asked for, it has 0 to 0"):
        ShardedGraph(tmp_path / "out").triples(1)


def test_ingest_imports_no_torch(tmp_path: Path) -> None:
    path = put(tmp_path, "a\tr\tb\nb\tr\tc\n")
    script = (
        "import sys; from tuckerkg.data.ingest.ingest import ingest; ingest(*sys.argv[1:], threads=1); "
        "print('torch' in sys.modules)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script, str(path), str(tmp_path / "out")], capture_output=True, text=True, check=True
    )
    assert (shown.stdout.strip(), shown.stderr) == ("False", "")
