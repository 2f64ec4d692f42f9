"""A file read in blocks gives the rows, counts and errors that reading it at once gives."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest
from files import put
from hypothesis import given, settings
from hypothesis import strategies as st

from tuckerkg.data.readers import blocks as blocks_module
from tuckerkg.data.readers.blocks import STOPPED, cut_at_line_ends, read_blocks
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.readers.read import TripleFile, read_rows
from tuckerkg.errors import InputError

GOOD = [b"a\tr\tb", b"b\tr\tc", "ä\tr\té".encode(), b"a\tr\tb"]
ODD = [
    b"", b"   ", b"# note", b"#a\tr\tb", b"a\tr", b"a\tr\tb\tc", b"\tr\tb", b"a\t \tb", b"a\tr\t\xa0", b"a\xff\tr\tb",
    b"a\0\tr\tb", b"a\rb\tr\tc", b"a\tr\tb\r", b'"a\tr\tb', b'a\tr\t"b"', b"\xef\xbb\xbfa\tr\tb", b" a\tr\tb ", b"\r",
    b'"x\ty"\tr\tz', b'"x', b'y"\tr\tb', b'"""q"\tr\tb', b'"a"b\tr\tc', b"a,r,b", b"x\x9c\tr\tb", b"NA\tnan\tnull",
]  # fmt: skip
LINES = st.lists(st.sampled_from(GOOD + ODD), max_size=30)
OPTIONS = st.sampled_from(
    [
        {},
        {"header": True},
        {"header": False},
        {"columns": (1, 2, 3)},
        {"columns": (3, 2, 1)},
        {"columns": ("a", "r", "b")},
        {"delimiter": "comma"},
    ]
)


def whole(path: Path, options: ReadOptions) -> object:
    try:
        rows = read_rows(path, options)
    except InputError as error:
        return error.problems
    return outcome([rows]), rows.notes, rows.sha256


def in_blocks(path: Path, options: ReadOptions, size: int) -> object:
    blocks = read_blocks(TripleFile(path, str(path)), options, size)
    try:
        found = list(blocks)
    except InputError as error:
        return error.problems
    return outcome(found), blocks.notes, blocks.sha256


def outcome(parts: list) -> list:
    triples = [
        (int(line), rows.triple(row)) for rows in parts for row, line in enumerate(rows.line_numbers) if len(rows.heads)
    ]
    rejects = [(reject.problem, reject.raw) for rows in parts for reject in rows.rejects]
    counts = [sum(getattr(rows, name) for rows in parts) for name in ("read", "blank", "comments", "literals")]
    return [triples, rejects, counts]


def agree(one: object, other: object) -> bool:
    """Equal; of errors, blocks may stop early and so name the first ones only, before a quote that is never closed."""
    if isinstance(one, list) and isinstance(other, list):
        unclosed = len(one) == 1 and "never closed" in one[0].what and (other[0].line or 0) < one[0].line
        return bool(other) and (one[: len(other)] == other or unclosed)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return one[0] == other[0] and set(one[1]) == set(other[1]) and one[2] == other[2]
    return False


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.tsv.gz"])
@given(
    padded=st.booleans(),
    lines=LINES,
    options=OPTIONS,
    skip=st.booleans(),
    ended=st.booleans(),
    size=st.sampled_from([1, 20, 100]),
)
@settings(max_examples=150, deadline=None)
def test_any_text_reads_in_blocks_as_it_reads_at_once(
    tmp_path_factory: pytest.TempPathFactory, name: str, padded: bool, lines: list[bytes], options: dict, skip: bool,
    ended: bool, size: int,
) -> None:  # fmt: skip
    data = b"\n".join([*([b"g\tr\th"] * (350 if padded else 0)), *lines]) + (b"\n" if ended and lines else b"")
    if name == "a.csv":
        data = data.replace(b"\t", b",")
    if name.endswith(".gz"):
        data = gzip.compress(data)
    path = put(tmp_path_factory.mktemp("blocks"), data, name)
    chosen = ReadOptions(on_error="skip" if skip else "stop", **options)
    assert agree(whole(path, chosen), in_blocks(path, chosen, size))


def test_blocks_are_whole_lines_and_lose_nothing() -> None:
    data = b"".join(b"%d\n" % number for number in range(1000)) + b"end"
    for size in (1, 7, 100, 10_000):
        for step in (1, 5, 1000):
            pieces = [data[start : start + step] for start in range(0, len(data), step)]
            found = list(cut_at_line_ends(pieces, size))
            assert b"".join(found) == data
            assert all(block.endswith(b"\n") for block in found[:-1])
    assert len(next(cut_at_line_ends([data], 100, first=3000))) > 2900


def test_a_record_over_several_blocks_is_one_row(tmp_path: Path) -> None:
    text = "g,r,h\n" * 500 + '"a\n' + "x\n" * 400 + '",r,b\n' + "g,r,h\n" * 100
    path = put(tmp_path, text, "a.csv")
    assert agree(whole(path, ReadOptions()), in_blocks(path, ReadOptions(), 100))


def test_a_quote_that_stays_open_for_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "LONGEST_RECORD", 1000)
    path = put(tmp_path, "g,r,h\n" * 500 + '"a\n' + "x\n" * 4000 + '",r,b\n', "a.csv")
    with pytest.raises(InputError, match=r":501:1: the quote \" opened here is not closed within 1,000 bytes"):
        list(read_blocks(TripleFile(path, str(path)), ReadOptions(), 500))


def test_an_error_before_the_last_block_says_that_reading_stopped(tmp_path: Path) -> None:
    path = put(tmp_path, "g\tr\th\n" * 500 + "bad\n" + "g\tr\th\n" * 500 + "worse\n")
    with pytest.raises(InputError) as caught:
        list(read_blocks(TripleFile(path, str(path)), ReadOptions(), 100))
    assert f"{path}:501:1: 0 tabs found" in str(caught.value)
    assert str(caught.value).endswith(STOPPED)


NODES = st.sampled_from(["<http://x/a>", "<http://x/b>", "_:n", "_:m", '"text"', '"name"@en', "<< bad", "<b ad>"])
PREDICATES = st.sampled_from(["<http://x/p>", "<http://www.w3.org/2000/01/rdf-schema#label>"])


@given(
    statements=st.lists(st.tuples(NODES, PREDICATES, NODES), max_size=30),
    keep=st.booleans(),
    skip=st.booleans(),
    size=st.integers(1, 200),
)
@settings(max_examples=150, deadline=None)
def test_any_ntriples_read_in_blocks_as_at_once(
    tmp_path_factory: pytest.TempPathFactory, statements: list, keep: bool, skip: bool, size: int
) -> None:
    text = "".join(f"{' '.join(statement)} .\n" for statement in statements)
    path = put(tmp_path_factory.mktemp("blocks"), text, "a.nt")
    options = ReadOptions(keep_literals=keep, on_error="skip" if skip else "stop")
    assert agree(whole(path, options), in_blocks(path, options, size))


def test_rdf_that_has_no_lines_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "<a> <b> <c> .", "a.ttl")
    with pytest.raises(InputError, match="cannot be read in parts; convert it to N-Triples"):
        read_blocks(TripleFile(path, str(path)), ReadOptions(), 100)


@given(
    rows=st.lists(st.tuples(*[st.sampled_from(["a", "b", " ", "", None])] * 3), max_size=20),
    skip=st.booleans(),
    size=st.integers(1, 600),
)
@settings(max_examples=60, deadline=None)
def test_any_parquet_reads_in_blocks_as_at_once(
    tmp_path_factory: pytest.TempPathFactory, rows: list, skip: bool, size: int
) -> None:
    path = tmp_path_factory.mktemp("blocks") / "a.parquet"
    schema = {"head": pl.String, "relation": pl.String, "tail": pl.String}
    pl.DataFrame(rows, schema=schema, orient="row").write_parquet(path)
    options = ReadOptions(on_error="skip" if skip else "stop")
    assert agree(whole(path, options), in_blocks(path, options, size))
