"""Limits are settings: in a file, one by one, and refused where they are none."""

from __future__ import annotations

import pytest

from tuckerkg.errors import TuckerkgError
from tuckerkg.serve.limits import Limits, limits_of


def test_a_file_and_single_ones_on_top(tmp_path):
    file = tmp_path / "limits.toml"
    file.write_text("compute_seconds = 30\nanswers = 500\n")
    found = limits_of(file, ["answers=200", "budget_per_second=0.5"])
    assert (found.compute_seconds, found.answers, found.budget_per_second) == (30.0, 200, 0.5)
    assert found.body_bytes == Limits().body_bytes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("answer=1", "there is no limit 'answer'. Did you mean 'answers'"),
        ("answers=0", "expected a whole number above 0"),
        ("answers=1.5", "expected a whole number above 0"),
        ("budget=-1", "expected a number above 0"),
        ("budget=nan.", "expected NAME=NUMBER"),
        ("budget", "expected NAME=NUMBER"),
    ],
)
def test_what_is_no_limit_is_refused(text, said):
    with pytest.raises(TuckerkgError, match=said):
        limits_of(None, [text])


def test_a_file_with_something_else_is_refused_with_its_name(tmp_path):
    file = tmp_path / "limits.toml"
    for text in ("budget = 'much'", "budget = true", "bugdet = 1", "budget = "):
        file.write_text(text)
        with pytest.raises(TuckerkgError, match=r"limits\.toml: "):
            limits_of(file, [])
