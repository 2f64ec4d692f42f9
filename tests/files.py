"""Small files of triples, and what was read from them, for several tests."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from tuckerkg.reading import Rows

LABEL = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0\t\r\n"), min_size=1, max_size=8
).filter(lambda label: label.strip())
ROW = st.tuples(LABEL, LABEL, LABEL)


def put(folder: Path, data: bytes | str, name: str = "train.tsv") -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def triples(rows: Rows) -> list[tuple[str, str, str]]:
    return list(zip(rows.heads.to_list(), rows.relations.to_list(), rows.tails.to_list(), strict=True))
