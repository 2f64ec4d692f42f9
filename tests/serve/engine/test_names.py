"""Names as people type them."""

from __future__ import annotations

import pytest

from tuckerkg.data.labels import Labels
from tuckerkg.serve.engine.names import Names, NoSuchName, folded

LABELS = ["Q1", "Q2", "Q3", "lux", "lux (city)", "de", "x"]
TITLES = {
    "Q1": "São Tomé",
    "Q2": "France",
    "Q3": "French",
    "lux": "Luxembourg",
    "lux (city)": "Luxembourg",
    "de": "Germany",
}


@pytest.fixture(scope="module")
def names():
    return Names(Labels("entity", LABELS, TITLES))


def test_accents_and_case_are_left_out():
    assert folded("São TOMÉ") == "sao tome"


@pytest.mark.parametrize(
    ("text", "found"), [("sao t", {0}), ("São", {0}), ("FR", {1, 2}), ("q2", {1}), ("embourg", {3, 4}), ("none", set())]
)
def test_a_part_of_a_title_or_label_is_found(names, text, found):
    assert set(names.holding(text)[0].tolist()) == found


def test_the_name_itself_comes_before_what_begins_with_it(names):
    ids, fit = names.holding("france")
    assert (ids.tolist(), fit.tolist()) == ([1], [0])


@pytest.mark.parametrize(("slip", "meant"), [("germny", 5), ("Frnace", 1), ("sao tme", 0)])
def test_slips_find_near_names(names, slip, meant):
    assert names.near(slip)[0] == meant
    with pytest.raises(NoSuchName) as refused:
        names.id_of(slip)
    assert refused.value.near[0] == meant


def test_nothing_is_near_to_something_else(names):
    assert names.near("zzzzzz") == []
    assert names.near("") == []


def test_a_title_of_two_names_both_labels(names):
    with pytest.raises(NoSuchName, match=r"names 2: use one of the labels 'lux', 'lux \(city\)'") as refused:
        names.id_of("Luxembourg")
    assert refused.value.near == [3, 4]
    assert names.id_of("lux (city)") == 4
    assert names.id_of("sao tome") == 0
