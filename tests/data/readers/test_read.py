"""One text file at a time: every kind of bad input, by the id of the promise it keeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import tracemalloc
from pathlib import Path

import polars as pl
import pytest
from files import GOOD, ROW, first_line, put, refusal, triples
from hypothesis import given, settings
from hypothesis import strategies as st

from tuckerkg.data.dataset import Dataset
from tuckerkg.data.readers import bytes as textfile
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.readers.read import read_rows, read_titles
from tuckerkg.data.readers.rejects import write_rejects
from tuckerkg.errors import InputError


def test_b01_crlf_reads_like_lf(tmp_path: Path) -> None:
    rows = read_rows(put(tmp_path, GOOD.replace(b"\n", b"\r\n")))
    assert triples(rows) == [("a", "r", "b"), ("c", "r", "d")]
    assert any("CRLF" in note for note in rows.notes)


def test_b02_lone_carriage_return_is_refused_with_its_line(tmp_path: Path) -> None:
    path = put(tmp_path, b"a\tr\tb\r\nc\tr\td\ne\tr\tf\rg\tr\th\n")
    assert first_line(path).startswith(f"{path}:3:6: carriage return inside the line")


def test_b02_file_with_only_carriage_returns(tmp_path: Path) -> None:
    assert "convert the line ends" in refusal(put(tmp_path, GOOD.replace(b"\n", b"\r")))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="b03_empty"),
        pytest.param(b"\n\n  \n", id="b04_blank"),
        pytest.param(b"# one\n\n#two\n", id="b04_comments"),
        pytest.param(b"\xef\xbb\xbf", id="b03_only_a_mark"),
    ],
)
@pytest.mark.parametrize("name", ["train.tsv", "train.csv"])
def test_b03_b04_no_triples(tmp_path: Path, data: bytes, name: str) -> None:
    assert "0 triples" in first_line(put(tmp_path, data, name))


def test_b05_two_columns_names_line_and_count(tmp_path: Path) -> None:
    path = put(tmp_path, GOOD + b"x\ty\n")
    assert first_line(path).startswith(f"{path}:3:1: 2 columns found, 3 expected")


def test_b06_four_columns_suggests_columns(tmp_path: Path) -> None:
    path = put(tmp_path, b"1\ta\tr\tb\n")
    assert "4 columns found, 3 expected" in first_line(path)
    assert "--columns" in first_line(path)
    assert triples(read_rows(path, ReadOptions(columns=(2, 3, 4)))) == [("a", "r", "b")]


def test_b07_spaces_instead_of_tabs(tmp_path: Path) -> None:
    path = put(tmp_path, b"a r b\n")
    assert "0 tabs found but 2 spaces" in first_line(path)
    assert triples(read_rows(path, ReadOptions(delimiter="space"))) == [("a", "r", "b")]


def test_b08_csv_named_tsv_gets_a_hint(tmp_path: Path) -> None:
    path = put(tmp_path, b"a,r,b\n")
    assert "--delimiter comma" in first_line(path)
    assert triples(read_rows(path, ReadOptions(delimiter="comma"))) == [("a", "r", "b")]


@pytest.mark.parametrize(
    ("row", "column", "name"),
    [(b"\tr\tb\n", 1, "head"), (b"abc\t\tb\n", 5, "relation"), (b"abc\tr\t\n", 7, "tail")],
)
def test_b09_empty_field_names_line_and_column(tmp_path: Path, row: bytes, column: int, name: str) -> None:
    path = put(tmp_path, GOOD + row)
    assert first_line(path).startswith(f"{path}:3:{column}: the {name} is empty")


@pytest.mark.parametrize("space", [" ", "\u3000", "\u00a0  "])
def test_b10_white_space_label_is_refused(tmp_path: Path, space: str) -> None:
    assert "the relation is white space only" in first_line(put(tmp_path, f"a\t{space}\tb\n"))


def test_b12_unbalanced_quote_in_tsv_is_a_character(tmp_path: Path) -> None:
    rows = read_rows(put(tmp_path, b'a\tr\tb\n"c\tr\td\ne\tr\tf\ng\tr"\th\ni\tr\tj\n'))
    assert len(triples(rows)) == 5
    assert triples(rows)[1] == ('"c', "r", "d")


def test_b13_unclosed_quote_is_reported_where_it_opens(tmp_path: Path) -> None:
    path = put(tmp_path, 'a,r,b\nc,r,"d\nx"\ne,"r\n,f\ng,r,h\n', "train.csv")
    assert first_line(path).startswith(f'{path}:4:3: the quote " opened here is never closed')
    assert "opened here" in first_line(path, on_error="skip")


def test_b13_unclosed_quote_after_a_closed_field_in_the_same_record(tmp_path: Path) -> None:
    path = put(tmp_path, '"a\n1",r,"b ""q""\n', "train.csv")
    assert first_line(path).startswith(f"{path}:2:6: ")


def test_b13_unclosed_quote_in_a_large_file(tmp_path: Path) -> None:
    path = put(tmp_path, 'a,r,b\nc,"r,d\n' + "e,r,f\n" * 50_000, "train.csv")
    assert first_line(path).startswith(f"{path}:2:3: ")


def test_b14_newline_inside_a_quoted_field_is_accepted(tmp_path: Path) -> None:
    rows = read_rows(put(tmp_path, '"a\nb",r,"c,d"\ne,r,"f ""g"""\n', "train.csv"))
    assert triples(rows) == [("a\nb", "r", "c,d"), ("e", "r", 'f "g"')]
    assert rows.line_numbers.tolist() == [1, 3]


def test_csv_text_after_a_closing_quote_is_a_bad_row(tmp_path: Path) -> None:
    path = put(tmp_path, 'a,r,b\n"c"x,r,d\ne,r,f\n', "train.csv")
    assert first_line(path).startswith(f"{path}:2:1: not valid CSV")
    rows = read_rows(path, ReadOptions(on_error="skip"))
    assert (len(triples(rows)), len(rows.rejects), rows.read) == (2, 1, 3)


def test_csv_field_that_is_too_long_stops_even_when_skipping(tmp_path: Path) -> None:
    path = put(tmp_path, 'a,r,b\nc,r,"' + "x,y,z\n" * 40_000 + '"\nd,r,e\n', "train.csv")
    assert first_line(path, on_error="skip").startswith(f"{path}:2:1: a quoted field is too long")


def test_csv_comments_blank_lines_and_short_rows(tmp_path: Path) -> None:
    path = put(tmp_path, '# note\n\n"a",r,b\n#x,r,y\nc,r\n', "train.csv")
    rows = read_rows(path, ReadOptions(on_error="skip"))
    assert triples(rows) == [("a", "r", "b"), ("#x", "r", "y")]
    assert (rows.blank, rows.comments, rows.rejects[0].problem.line, rows.rejects[0].raw) == (1, 1, 5, "c,r")


def test_b15_byte_order_mark_is_removed_and_noted(tmp_path: Path) -> None:
    rows = read_rows(put(tmp_path, b"\xef\xbb\xbf" + GOOD))
    assert rows.heads[0] == "a"
    assert any("byte order mark" in note for note in rows.notes)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_b16_utf16_is_recognised(tmp_path: Path, encoding: str) -> None:
    assert "looks like UTF-16" in first_line(put(tmp_path, GOOD.decode().encode(encoding)))


def test_b17_invalid_utf8_names_line_and_byte_offset(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbfa\tr\tb\r\n" + "é\tr\t".encode() + b"\xff\n"
    path = put(tmp_path, data)
    assert first_line(path).startswith(f"{path}:2:5: byte 0xff at byte offset {data.index(0xFF)} ")


def test_b18_nul_byte_is_refused_with_its_line(tmp_path: Path) -> None:
    path = put(tmp_path, GOOD * 20 + b"x\tr\ty\0z\n")
    assert first_line(path).startswith(f"{path}:41:6: NUL byte")


def test_b19_words_for_nothing_are_labels(tmp_path: Path) -> None:
    words = ["NA", "nan", "null", "None", "NaN", "N/A", "true"]
    rows = read_rows(put(tmp_path, "".join(f"{word}\t{word}\t{word}\n" for word in words)))
    assert rows.heads.to_list() == rows.relations.to_list() == rows.tails.to_list() == words


def test_b20_numbers_stay_as_written(tmp_path: Path) -> None:
    words = ["007", "7", "1e5", "100000", "1.0", "1", "0x10", "-0"]
    assert read_rows(put(tmp_path, "".join(f"{word}\tr\tx\n" for word in words))).heads.to_list() == words


def test_b22_invisible_characters_are_kept_and_escaped_on_display(tmp_path: Path) -> None:
    head = "a\u200b\u202e\x1b[31m"
    assert read_rows(put(tmp_path, f"{head}\tr\tb\n")).heads[0] == head
    message = refusal(put(tmp_path, f"{head}\tr\tb\n", f"x{chr(27)}.tsv"), columns=("h\u202e", "r", "t"))
    assert "\x1b" not in message
    assert "\u202e" not in message


def test_b22_line_separators_of_unicode_do_not_end_a_line(tmp_path: Path) -> None:
    head = "a\u2028b\u0085c\x0b\x0c\x1d"
    assert triples(read_rows(put(tmp_path, f"{head}\tr\tb\n"))) == [(head, "r", "b")]
    assert triples(read_rows(put(tmp_path, f'{head},"r",b\n', "a.csv"))) == [(head, "r", "b")]


def test_b23_header_is_asked_about(tmp_path: Path) -> None:
    path = put(tmp_path, b"Head\tRelation\tTail\n" + GOOD)
    assert first_line(path).startswith(f"{path}:1:1: ")
    assert "--header" in first_line(path)
    assert len(triples(read_rows(path, ReadOptions(header=True)))) == 2
    assert len(triples(read_rows(path, ReadOptions(header=False)))) == 3


def test_b23_header_in_another_order_is_not_read_as_head_relation_tail(tmp_path: Path) -> None:
    path = put(tmp_path, b"subject\tobject\tpredicate\na\tb\tr\n")
    assert "--columns 1,3,2" in first_line(path, header=True)
    chosen = read_rows(path, ReadOptions(columns=("subject", "predicate", "object")))
    assert triples(chosen) == [("a", "r", "b")]


def test_columns_by_name(tmp_path: Path) -> None:
    path = put(tmp_path, b"id\tsubject\tobject\tkind\n1\ta\tb\tr\n")
    assert triples(read_rows(path, ReadOptions(columns=("subject", "kind", "object")))) == [("a", "r", "b")]
    message = first_line(path, columns=("subjekt", "kind", "object"))
    assert "'id', 'subject', 'object', 'kind'" in message
    assert "Did you mean 'subject'" in message
    assert "columns 1 to 4" in first_line(path, columns=(1, 2, 9))
    assert "needs a header" in first_line(path, columns=("subject", "kind", "object"), header=False)
    assert "three expected" in first_line(path, columns=(1, 1, 2))


def test_b24_last_line_without_newline_is_kept(tmp_path: Path) -> None:
    rows = read_rows(put(tmp_path, GOOD.rstrip(b"\n")))
    assert triples(rows)[-1] == ("c", "r", "d")
    assert "no line end after the last line" in rows.notes


@pytest.mark.parametrize("tail", [b"e\tr", b"e\tr\t", b"e"])
def test_b25_truncated_last_line_is_an_error(tmp_path: Path, tail: bytes) -> None:
    path = put(tmp_path, GOOD + tail)
    assert first_line(path).startswith(f"{path}:3:")


def test_b26_endless_line_is_refused_in_constant_memory(tmp_path: Path) -> None:
    path = tmp_path / "huge.tsv"
    with path.open("wb") as handle:
        handle.write(GOOD)
        handle.seek(10 << 30)  # sparse: ten gigabytes that take no room on the disk
        handle.write(b"\n")
    tracemalloc.start()
    try:
        assert first_line(path).startswith(f"{path}:3:1: the line is longer than 1,000,000 bytes")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_long_line_below_the_limit_is_read(tmp_path: Path) -> None:
    label = "x" * 4_096
    rest = "y" * 900_000
    row = put(tmp_path, f"{label}\tr\tb\t{rest}\n")
    assert read_rows(row, ReadOptions(columns=(1, 2, 3))).heads[0] == label


def test_b36_missing_folder_device(tmp_path: Path) -> None:
    assert first_line(tmp_path / "no.tsv") == f"{tmp_path / 'no.tsv'}: no such file; check the path"
    assert "is a folder" in first_line(tmp_path)
    assert "is a device" in first_line(Path("/dev/zero"))


def test_b36_pipe_does_not_hang(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.tsv"
    os.mkfifo(pipe)
    assert "is a pipe" in first_line(pipe)


def test_b36_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, GOOD)
    path.chmod(0)
    if os.access(path, os.R_OK):  # a superuser may read anything: let the system call itself say no

        def denied(*_: object) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "open", denied)
    assert "may not be read" in first_line(path)


@pytest.mark.parametrize("change", ["grow", "shrink", "rewrite"])
def test_b40_file_that_changes_while_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    path = put(tmp_path, GOOD * 100)
    os.utime(path, ns=(1, 1))
    monkeypatch.setattr(textfile, "BLOCK", 64)
    guard = textfile._LineGuard.see

    def meddle(self: textfile._LineGuard, block: bytes) -> None:
        if self.total == 0:
            actions = {
                "grow": lambda: path.open("ab").write(GOOD),
                "shrink": lambda: os.truncate(path, len(GOOD) * 50),
                "rewrite": lambda: path.open("r+b").write(b"z"),
            }
            actions[change]()
        guard(self, block)

    monkeypatch.setattr(textfile._LineGuard, "see", meddle)
    assert "changed while it was read" in first_line(path)


def test_comment_lines_and_labels_that_begin_with_a_hash(tmp_path: Path) -> None:
    rows = read_rows(put(tmp_path, b"# made by hand\n\n#a\tr\tb\nc\tr\t#d\n#x\ty\n"))
    assert triples(rows) == [("#a", "r", "b"), ("c", "r", "#d")]
    assert (rows.comments, rows.blank, rows.read) == (2, 1, 2)


def test_first_twenty_are_shown_and_all_counted(tmp_path: Path) -> None:
    message = refusal(put(tmp_path, GOOD + b"x\ty\n" * 1_000))
    assert message.count("columns found") == 20
    assert "1,000 in all" in message
    assert "--on-error=skip" in message


def test_skip_sets_bad_rows_aside_with_reasons(tmp_path: Path) -> None:
    bad = [b"x\ty", b"\tr\tb", b"p\tr\tq\0", b"s\tr\t\xff", b"t\tr\tu\rv", b"=cmd()"]
    rows = read_rows(put(tmp_path, GOOD + b"\n".join(bad) + b"\n" + GOOD), ReadOptions(on_error="skip"))
    assert rows.read == 4 + len(bad) == len(triples(rows)) + len(rows.rejects)
    assert [reject.problem.line for reject in rows.rejects] == [3, 4, 5, 6, 7, 8]
    write_rejects(tmp_path / "rejected.tsv", rows.rejects)
    lines = (tmp_path / "rejected.tsv").read_text().splitlines()
    assert len(lines) == len(bad) + 1
    cells = [line.split("\t") for line in lines[1:]]
    assert [json.loads(row[3]) for row in cells][:2] == ["x\ty", "\tr\tb"]
    assert all(row[3].startswith('"') for row in cells)
    assert not list(tmp_path.glob(".*"))


def test_rejects_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rejected rows cannot be written"):
        write_rejects(tmp_path / "no" / "rejected.tsv", [])


@pytest.mark.parametrize("name", ["g.json", "g.jsonl.gz", "g.pkl", "g.xlsx"])
def test_other_formats_are_named(tmp_path: Path, name: str) -> None:
    assert "are not read; convert it to TSV" in first_line(put(tmp_path, GOOD, name))


@pytest.mark.parametrize("delimiter", ["", "ab", '"', "\n"])
def test_impossible_delimiters(tmp_path: Path, delimiter: str) -> None:
    assert "is not a single character" in first_line(put(tmp_path, GOOD), delimiter=delimiter)


def test_titles(tmp_path: Path) -> None:
    path = put(tmp_path, b"\xef\xbb\xbfa\tAlpha\r\nb\tBeta\twith a tab\r\na\tagain\r\n\r\n", "entity2text.txt")
    assert read_titles(path) == {"a": "Alpha", "b": "Beta\twith a tab"}
    with pytest.raises(InputError, match=":2:1: a label, a tab and a title"):
        read_titles(put(tmp_path, b"a\tAlpha\nb\n", "bad.txt"))
    with pytest.raises(InputError, match="not UTF-8"):
        read_titles(put(tmp_path, b"a\t\xff\n", "bad.txt"))


def test_large_texts_are_cut_into_pieces_at_line_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tuckerkg.data.readers import delimited as rows

    path = put(tmp_path, "# judged row by row\n" + "".join(f"h{n}\tr\tt{n}\n" for n in range(200)))
    whole = triples(read_rows(path))
    assert len(whole) == 200
    for piece in (1, 7, 64, 1_000):
        monkeypatch.setattr(rows, "PIECE", piece)
        assert triples(read_rows(path)) == whole


def test_importing_the_readers_imports_neither_torch_nor_polars() -> None:
    code = """
        import sys
        from tuckerkg.data import dataset, from_files, load
        from tuckerkg.data.readers import read
        print([name for name in ("torch", "polars", "pandas") if name in sys.modules])
    """
    shown = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=8))
def test_labels_survive_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("round")
    # A mark at the very start of a file is taken for a byte order mark: that label alone cannot come first.
    path = put(folder, "x\ty\tz\n" + "".join("\t".join(row) + "\n" for row in rows))
    assert triples(read_rows(path, ReadOptions(header=False)))[1:] == rows
    import csv

    with (folder / "a.csv").open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle, quoting=csv.QUOTE_ALL).writerows([("x", "y", "z"), *rows])
    assert triples(read_rows(folder / "a.csv", ReadOptions(header=False)))[1:] == rows


@settings(max_examples=150, deadline=None)
@given(data=st.lists(st.sampled_from([b"a", b"\t", b",", b'"', b"\n", b"\r", b"\0", b"\xff", b" ", b"#", b"\xc3\xa9"])))
@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_any_bytes_give_rows_that_balance_or_a_located_error(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: list[bytes]
) -> None:
    path = put(tmp_path_factory.mktemp("any"), b"".join(data), name)
    try:
        rows = read_rows(path, ReadOptions(on_error="skip"))
    except InputError as error:
        assert str(error).startswith(str(path))
    else:
        assert rows.read == len(rows.heads) + len(rows.rejects)
        assert all(field.strip() for triple in triples(rows) for field in triple)


@pytest.mark.parametrize(
    ("name", "content", "has_rows"),
    [
        ("empty.tsv", b"", False),
        ("graph.json", b"{}", False),
        ("wide.tsv", "a\tb\tc\n".encode("utf-16"), False),
        ("short.tsv", b"a\tb\tc\na\tb\n", True),
    ],
)
def test_rows_can_be_skipped_only_where_rows_are_bad(tmp_path, name, content, has_rows):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        Dataset.from_files(tmp_path / name)
    assert ("--on-error=skip" in str(caught.value)) == has_rows


def test_what_python_takes_is_named_beside_the_flag():
    with pytest.raises(InputError, match=r"--columns NAME,NAME,NAME \(columns=\(NAME, NAME, NAME\) in Python\)"):
        Dataset.from_frame(pl.DataFrame({"a": ["x"], "b": ["y"], "c": ["z"], "d": ["w"]}))
