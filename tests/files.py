"""Small files of triples, and what was read from them, for several tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st

from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.readers.read import Rows, read_rows
from tuckerkg.errors import InputError

LABEL = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0\t\r\n"), min_size=1, max_size=8
).filter(lambda label: label.strip())
ROW = st.tuples(LABEL, LABEL, LABEL)
GOOD = b"a\tr\tb\nc\tr\td\n"


def put(folder: Path, data: bytes | str, name: str = "train.tsv") -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def triples(rows: Rows) -> list[tuple[str, str, str]]:
    return list(zip(rows.heads.to_list(), rows.relations.to_list(), rows.tails.to_list(), strict=True))


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        read_rows(path, ReadOptions(**options))  # type: ignore[arg-type]
    return str(caught.value)


def first_line(path: Path, **options: object) -> str:
    return refusal(path, **options).splitlines()[0]
