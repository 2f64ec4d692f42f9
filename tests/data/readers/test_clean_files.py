"""The short way of clean files gives what judging every row gives, and nothing irregular takes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from files import ROW, put, triples
from hypothesis import given, settings
from hypothesis import strategies as st

from tuckerkg.data.readers import read as reading
from tuckerkg.data.readers.delimited import clean_columns
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.readers.read import read_rows
from tuckerkg.errors import InputError


def outcome(path: Path, options: ReadOptions | None = None) -> object:
    """All that reading a file gives, as plain values: the rows, or the words of the refusal."""
    try:
        rows = read_rows(path, options)
    except InputError as error:
        return str(error)
    labels = (rows.entity_labels.to_list(), rows.relation_labels.to_list())
    places = (rows.line_numbers.tolist(), rows.line_numbers.dtype, rows.blank, rows.comments)
    return triples(rows), labels, places, rows.rejects, rows.notes, (rows.shown, rows.sha256)


def judged_outcome(path: Path, options: ReadOptions | None = None) -> object:
    """The same with every row judged, as if no file were clean."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "clean_columns", lambda *_: None)
        return outcome(path, options)


IRREGULAR = {
    "blank_line": b"a\tr\tb\n\nc\tr\td\n",
    "blank_first_line": b"\na\tr\tb\n",
    "blank_last_line": b"a\tr\tb\n\n",
    "blank_last_line_without_end": b"a\tr\tb\n\n  ",
    "line_of_spaces": b"a\tr\tb\n   \nc\tr\td\n",
    "comment": b"# one\na\tr\tb\n",
    "comment_inside": b"a\tr\tb\n# one\ttwo\n",
    "hash_begins_a_triple": b"#a\tr\tb\n#c\tr\td\n",
    "short_row": b"a\tr\tb\nc\tr\n",
    "short_first_row": b"a\tr\nc\tr\td\n",
    "long_row": b"a\tr\tb\nc\tr\td\te\n",
    "long_first_row": b"a\tr\tb\tc\nc\tr\td\n",
    "long_and_short_row_add_up": b"a\tr\tb\nc\tr\td\te\nf\tr\n",
    "only_short_rows": b"a\tr\n",
    "only_long_rows": b"a\tr\tb\tc\nc\tr\td\te\n",
    "delimiter_at_the_end": b"a\tr\tb\t\n",
    "empty_head": b"a\tr\tb\n\tr\tb\n",
    "empty_relation": b"a\tr\tb\nc\t\tb\n",
    "empty_tail": b"a\tr\tb\nc\tr\t\n",
    "empty_last_field_without_end": b"a\tr\tb\nc\tr\t",
    "all_empty": b"a\tr\tb\n\t\t\n",
    "space_label": b"a\tr\tb\nc\t \td\n",
    "wide_space_label": "a\tr\tb\n\u3000\tr\td\n".encode(),
    "separator_label": b"a\tr\tb\nc\t\x1f\td\n",
    "padded_labels": b" a\tr \t b \n",
    "nul": b"a\tr\tb\nc\0\tr\td\n",
    "bad_utf8": b"a\tr\tb\nc\xff\tr\td\n",
    "cut_utf8": b"a\tr\tb\nc\tr\td\xc3",
    "surrogate": b"a\tr\tb\nc\tr\t\xed\xa0\x80\n",
    "utf16": "a\tr\tb\nc\tr\td\n".encode("utf-16"),
    "lone_carriage_return": b"a\tr\tb\rc\tr\td\n",
    "carriage_return_at_the_end": b"a\tr\tb\nc\tr\td\r",
    "doubled_carriage_return": b"a\tr\tb\r\r\n",
    "no_last_line_end": b"a\tr\tb\nc\tr\td",
    "mark": b"\xef\xbb\xbfa\tr\tb\n",
    "two_marks": b"\xef\xbb\xbf\xef\xbb\xbfa\tr\tb\n",
    "only_a_mark": b"\xef\xbb\xbf",
    "crlf": b"a\tr\tb\r\nc\tr\td\r\n",
    "crlf_and_lf": b"a\tr\tb\r\nc\tr\td\n",
    "crlf_blank_line": b"a\tr\tb\r\n\r\n",
    "quotes": b'"a\tr\tb\n"c"\t"r"\td""\n',
    "quoted_delimiter": b'"a\tr\tb"\n',
    "header": b"head\trelation\ttail\na\tr\tb\n",
    "header_with_other_names": b"from\ttype\tto\na\tr\tb\n",
    "header_in_another_order": b"relation\thead\ttail\na\tr\tb\n",
    "only_a_header": b"head\trelation\ttail\n",
    "header_and_space_label": b"head\trelation\ttail\na\t \tb\n",
    "words_for_nothing": b"null\tNA\tNone\n\\N\tnan\t-\n",
    "begins_like_zlib": b"x^\tr\tb\nx\x01\tr\tb\n",
    "begins_like_zlib_too": "x\u0680\tr\tb\n".encode(),
    "begins_like_the_other_zlib": b"x\x01\tr\tb\n",
    "empty": b"",
    "one_line_end": b"\n",
    "line_separators_within_labels": "a\u2028b\tr\x0bs\tc\x85d\x0c\n".encode(),
}


@pytest.mark.parametrize("options", [{}, {"header": True}, {"header": False}, {"on_error": "skip"}], ids=str)
@pytest.mark.parametrize("data", IRREGULAR.values(), ids=IRREGULAR.keys())
@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_irregular_files_read_as_if_every_row_were_judged(
    tmp_path: Path, name: str, data: bytes, options: dict[str, object]
) -> None:
    path = put(tmp_path, data.replace(b"\t", b",") if name == "a.csv" else data, name)
    asked = ReadOptions(**options)  # type: ignore[arg-type]
    assert outcome(path, asked) == judged_outcome(path, asked)


@pytest.mark.parametrize("delimiter", ["space", "|", "#", "x", "→", "\\"])
def test_other_delimiters_read_as_if_every_row_were_judged(tmp_path: Path, delimiter: str) -> None:
    rows = "a\tr\tb\n#c\tr\t'd'\nx\tr\t\"\n"
    path = put(tmp_path, rows.replace("\t", " " if delimiter == "space" else delimiter))
    for on_error in ("stop", "skip"):
        options = ReadOptions(delimiter=delimiter, on_error=on_error)  # type: ignore[arg-type]
        assert outcome(path, options) == judged_outcome(path, options)


@pytest.mark.parametrize(
    "kind",
    ["hash_begins_a_triple", "padded_labels", "no_last_line_end", "mark", "crlf", "quotes", "words_for_nothing"],
)
def test_what_only_looks_irregular_needs_no_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(reading, "_judged_rows", None)
    assert read_rows(put(tmp_path, IRREGULAR[kind])).read == len(IRREGULAR[kind].splitlines())


def test_labels_that_share_a_hash_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    from tuckerkg.data.readers import delimited as rows

    path = put(tmp_path, b"c\tr\ta\na\ts\tb\nb\tr\tc\n")
    expected = outcome(path)
    monkeypatch.setattr(rows, "_hashes", lambda column: np.zeros(len(column), dtype=np.uint64))
    assert outcome(path) == expected == judged_outcome(path)


def test_labels_whose_hashes_lie_close_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    from tuckerkg.data.readers import delimited as rows

    path = put(tmp_path, "".join(f"{n:03}\tr\t{n * 7 % 100:03}\n" for n in range(100)))
    expected = outcome(path)
    numbers = {f"{n:03}": 2**63 - n for n in range(100)} | {"r": 0}
    monkeypatch.setattr(rows, "_hashes", lambda column: np.array([numbers[v] for v in column], dtype=np.uint64))
    assert outcome(path) == expected


@pytest.mark.parametrize(
    "parsed",
    [
        pytest.param([("a", "r", "b")], id="a_line_skipped"),
        pytest.param([("a", "r", "b"), ("c", "r", None)], id="a_field_missing"),
        pytest.param([("a", "r", "b"), ("c", "r", "")], id="a_field_empty"),
        pytest.param([("a", "r", "b"), ("c", "r", "d")], id="a_field_dropped"),
        pytest.param([("a", "r", "b"), ("c", "r", "d\te")], id="a_field_joined"),
    ],
)
def test_a_parser_is_not_believed(monkeypatch: pytest.MonkeyPatch, parsed: list[tuple[str | None, ...]]) -> None:
    """Whatever a release of the parser makes of a row too long, it does not pass for three labels."""
    import polars as pl

    from tuckerkg.data.readers import delimited as rows

    schema = dict.fromkeys(rows.FIELDS, pl.String)
    monkeypatch.setattr(rows, "_parsed", lambda *_: pl.DataFrame(parsed, schema=schema, orient="row"))
    assert clean_columns(b"a\tr\tb\nc\tr\td\te\n", "\t") is None


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=12),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    mark=st.booleans(),
    header=st.sampled_from([None, True, False]),
)
def test_clean_files_read_as_if_every_row_were_judged(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str, str]],
    end: str,
    last: bool,
    mark: bool,
    header: bool | None,
) -> None:
    text = end.join("\t".join(row) for row in rows) + (end if last else "")
    path = put(tmp_path_factory.mktemp("clean"), ("\ufeff" if mark else "") + text)
    options = ReadOptions(header=header)
    assert outcome(path, options) == judged_outcome(path, options)


@settings(max_examples=300, deadline=None)
@given(
    data=st.lists(
        st.sampled_from([b"a\tr\tb\n", b"c,r,d\n", b"a", b"\t", b",", b'"', b"\n", b"\r\n", b" ", b"#", b"\xc3\xa9"])
    )
)
@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_any_text_reads_as_if_every_row_were_judged(
    tmp_path_factory: pytest.TempPathFactory, name: str, on_error: str, data: list[bytes]
) -> None:
    path = put(tmp_path_factory.mktemp("any"), b"".join(data), name)
    options = ReadOptions(on_error=on_error)  # type: ignore[arg-type]
    assert outcome(path, options) == judged_outcome(path, options)
