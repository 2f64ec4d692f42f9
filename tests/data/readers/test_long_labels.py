"""A label that nobody could ask for is refused where it is read, with file and line."""

from __future__ import annotations

import pytest

from tuckerkg.data.readers.long_labels import LONGEST_LABEL
from tuckerkg.data.readers.read import read_rows
from tuckerkg.errors import InputError


def written(place, name, label):
    file = place / name
    comma = name.endswith(".csv")
    rows = [["a", "knows", "b"], ["b", "knows", label], [label, "knows", "a"]]
    file.write_text(
        "".join((",".join(f'"{cell}"' for cell in row) if comma else "\t".join(row)) + "\n" for row in rows)
    )
    return file


@pytest.mark.parametrize("name", ["graph.tsv", "graph.csv"])
def test_a_label_is_refused_from_one_character_too_many_on(tmp_path, name):
    assert len(read_rows(written(tmp_path, name, "é" * LONGEST_LABEL)).line_numbers) == 3
    with pytest.raises(InputError) as refused:
        read_rows(written(tmp_path, name, "é" * (LONGEST_LABEL + 1)))
    said = str(refused.value)
    assert f"{name}:2: the tail has 4,097 characters, a label has 4,096 at most" in said
    assert f"{name}:3: the head has 4,097 characters" in said
    assert refused.value.total == 2


def test_an_iri_that_is_too_long_is_refused_with_its_statement(tmp_path):
    file = tmp_path / "graph.nt"
    file.write_text(f"<urn:a> <urn:p> <urn:b> .\n<urn:a> <urn:p> <urn:{'x' * LONGEST_LABEL}> .\n")
    with pytest.raises(InputError, match=r"graph\.nt:2: the tail has 4,100 characters"):
        read_rows(file)
