"""Compressed files: whole, cut off, damaged, and those that swell (B37-B39, S4)."""

from __future__ import annotations

import gzip
from pathlib import Path

from files import GOOD, first_line, put, triples

from tuckerkg.data.readers.bytes import Limits
from tuckerkg.data.readers.read import read_rows


def test_b37_gz_with_wrong_magic(tmp_path: Path) -> None:
    assert "gzip begins with 1f 8b" in first_line(put(tmp_path, GOOD, "train.tsv.gz"))
    assert "add .gz" in first_line(put(tmp_path, gzip.compress(GOOD), "train.tsv"))
    assert "0 triples" in first_line(put(tmp_path, b"", "train.tsv.gz"))


def test_gzip_is_read_also_in_several_members_and_with_padding(tmp_path: Path) -> None:
    data = gzip.compress(GOOD) + gzip.compress(b"e\tr\tf\n") + b"\0" * 600
    assert len(triples(read_rows(put(tmp_path, data, "train.tsv.gz")))) == 3
    assert triples(read_rows(put(tmp_path, gzip.compress(b"a,r,b\n"), "train.csv.gz"))) == [("a", "r", "b")]


def test_b38_truncated_gzip_keeps_nothing(tmp_path: Path) -> None:
    data = gzip.compress(b"".join(b"%d\tr\t%d\n" % (n * n, n) for n in range(5_000)))
    for end in range(3, len(data), len(data) // 25):
        message = first_line(put(tmp_path, data[:end], "train.tsv.gz"), on_error="skip")
        assert "cut off" in message or "damaged" in message


def test_damaged_gzip_is_noticed(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(GOOD * 100))
    data[-6] ^= 1  # in the checksum
    assert "damaged gzip" in first_line(put(tmp_path, bytes(data), "train.tsv.gz"))


def test_b39_s4_gzip_bomb_is_stopped_at_the_ratio(tmp_path: Path) -> None:
    path = put(tmp_path, gzip.compress(b"a\tr\tb\n" * 8_000_000, 9), "train.tsv.gz")
    assert "gzip bomb" in first_line(path)


def test_s4_a_hundred_megabytes_of_zeros(tmp_path: Path) -> None:
    path = put(tmp_path, gzip.compress(bytes(100 << 20), 1), "train.tsv.gz")
    assert path.stat().st_size < 1 << 20
    assert "longer than 1,000,000 bytes" in first_line(path)


def test_b39_s4_total_cap(tmp_path: Path) -> None:
    data = b"".join(b"%d\tr\t%d\n" % (n, n) for n in range(10_000))
    limits = Limits(total_bytes=50_000)
    assert "50,000 bytes allowed" in first_line(put(tmp_path, gzip.compress(data), "a.tsv.gz"), limits=limits)
    assert "50,000 bytes allowed" in first_line(put(tmp_path, data, "a.tsv"), limits=limits)
