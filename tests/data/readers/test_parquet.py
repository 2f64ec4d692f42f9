"""Parquet: which columns, which types, rows with nothing in them, damaged files (B41 to B47)."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tuckerkg.data.load import load
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.readers.read import read_rows
from tuckerkg.errors import InputError

PLAIN = {"head": ["a", "b", "a"], "relation": ["p", "p", "q"], "tail": ["b", "c", "c"]}


def written(folder: Path, columns: dict, **options: object) -> Path:
    path = folder / "g.parquet"
    pl.DataFrame(columns).write_parquet(path, **options)
    return path


def facts(rows):
    return [rows.triple(row) for row in range(len(rows.line_numbers))]


EXPECTED = list(zip(*PLAIN.values(), strict=True))


@pytest.mark.parametrize(
    "names", [("head", "relation", "tail"), ("Subject", "Predicate", "Object"), ("h", "r", "t"), ("x", "y", "z")]
)
def test_columns_by_well_known_names_or_as_the_only_three(tmp_path, names):
    columns = dict(zip(names, PLAIN.values(), strict=True))
    if "x" not in names:
        columns = {"weight": [1.0, 2.0, 3.0], **columns}
    assert facts(read_rows(written(tmp_path, columns))) == EXPECTED


@pytest.mark.parametrize("asked", [("s", "p", "o"), (2, 3, 4), ("s", 3, "o")])
def test_columns_by_name_or_number(tmp_path, asked):
    columns = {"id": [7, 8, 9], "s": PLAIN["head"], "p": PLAIN["relation"], "o": PLAIN["tail"], "note": ["", "", ""]}
    assert facts(read_rows(written(tmp_path, columns), ReadOptions(columns=asked))) == EXPECTED


@pytest.mark.parametrize("cut", [0, 3, 200])
def test_b41_a_file_that_is_cut_off_is_named(tmp_path, cut):
    path = written(tmp_path, PLAIN)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InputError, match=r"g\.parquet: .*(cut off|empty)"):
        read_rows(path)


def test_b41_a_footer_of_garbage_is_refused(tmp_path):
    path = tmp_path / "g.parquet"
    path.write_bytes(b"PAR1" + b"\x07" * 400 + b"PAR1")
    with pytest.raises(InputError, match=r"g\.parquet: cannot be read as Parquet"):
        read_rows(path)


def test_b42_other_names_are_listed_with_the_nearest(tmp_path):
    columns = {"id": [1], "subj": ["a"], "pred": ["p"], "obj": ["b"]}
    with pytest.raises(InputError, match=r"id, subj, pred, obj; say which"):
        read_rows(written(tmp_path, columns))
    with pytest.raises(InputError, match=r"no column subject.*subj"):
        read_rows(written(tmp_path, columns), ReadOptions(columns=("subject", "pred", "obj")))


def test_b43_nulls_and_empty_labels_are_named_by_row_or_set_aside(tmp_path):
    path = written(tmp_path, {"head": ["a", None, "a"], "relation": ["p", "p", "q"], "tail": ["b", "c", " "]})
    with pytest.raises(InputError, match=r"g\.parquet:2:1: nothing in the column head") as caught:
        read_rows(path)
    assert "g.parquet:3:3" in str(caught.value)
    rows = read_rows(path, ReadOptions(on_error="skip"))
    assert facts(rows) == [("a", "p", "b")]
    assert [reject.problem.line for reject in rows.rejects] == [2, 3]
    assert rows.read == 3


def test_b44_numbers_are_refused_or_names_when_asked_for(tmp_path):
    path = written(tmp_path, {**PLAIN, "head": [1, 2, 1]})
    with pytest.raises(InputError, match=r"the column head holds Int64; .*--integers"):
        read_rows(path)
    assert facts(read_rows(path, ReadOptions(integers=True)))[0] == ("1", "p", "b")
    for values in ([1.5, 2.5, 3.5], [["a"], ["b"], ["c"]], [b"a", b"b", b"c"]):
        with pytest.raises(InputError, match="labels must be strings"):
            read_rows(written(tmp_path, {**PLAIN, "head": values}), ReadOptions(integers=True))


def test_b45_dictionaries_have_the_ids_of_plain_strings(tmp_path):
    plain = load(written(tmp_path, PLAIN), split=None)
    coded = {name: pl.Series(values, dtype=pl.Categorical) for name, values in PLAIN.items()}
    other = load(written(tmp_path, coded), split=None)
    assert other.entities == plain.entities
    assert (other.train == plain.train).all()


def test_b46_a_type_that_names_code_is_refused_as_any_other(tmp_path):
    path = written(tmp_path, {**PLAIN, "head": pl.Series([{"module": "os", "call": "system"}] * 3)})
    with pytest.raises(InputError, match="the column head holds Struct"):
        read_rows(path)


def test_b47_a_file_larger_than_the_cap_is_refused(tmp_path):
    from tuckerkg.data.readers.bytes import Limits

    path = written(tmp_path, PLAIN)
    with pytest.raises(InputError, match=r"g\.parquet"):
        read_rows(path, ReadOptions(limits=Limits(total_bytes=100)))


def test_other_columns_are_not_read_and_row_groups_do_not_matter(tmp_path):
    many = {name: values * 50 for name, values in PLAIN.items()}
    path = written(tmp_path, {**many, "blob": ["x" * 1000] * 150}, row_group_size=7)
    assert facts(read_rows(path)) == EXPECTED * 50
