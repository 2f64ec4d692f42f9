"""Decisions about predicted facts: none is lost, none is changed, and what they are good for."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import polars as pl
import pytest

from tuckerkg import load
from tuckerkg.errors import RunFolderError, TuckerkgError
from tuckerkg.review.decisions import Decision, Decisions

ONE, TWO = ("e1", "likes", "e2"), ("e2", "likes", "e3")


def choices(decisions, choice=None):
    return [(each.fact, each.choice, each.by) for each in decisions.current(choice)]


def test_a_later_decision_takes_the_place_of_an_earlier_one_and_both_are_kept(tmp_path):
    kept = Decisions(tmp_path)
    assert kept.current() == []
    kept.add(
        [Decision.now(ONE, "accept", "ada", probability=0.7, version=1, step=3), Decision.now(TWO, "defer", "ada")]
    )
    kept.add([Decision.now(ONE, "reject", "bob", note="no source")])
    assert choices(Decisions(tmp_path)) == [(ONE, "reject", "bob"), (TWO, "defer", "ada")]
    assert choices(kept, "defer") == [(TWO, "defer", "ada")]
    assert kept.counts() == {"accept": 0, "reject": 1, "defer": 1}
    assert [each.choice for each in kept.history()] == ["accept", "defer", "reject"]
    assert kept.history()[0].probability == 0.7


def test_undoing_takes_back_ones_own_decisions_the_last_first(tmp_path):
    kept = Decisions(tmp_path)
    kept.add([Decision.now(ONE, "accept", "ada")])
    kept.add([Decision.now(ONE, "reject", "bob"), Decision.now(TWO, "accept", "bob")])
    assert [each.fact for each in kept.undo("bob")] == [TWO]
    assert choices(kept) == [(ONE, "reject", "bob")]
    assert [each.fact for each in kept.undo("bob")] == [ONE]
    assert choices(kept) == [(ONE, "accept", "ada")]
    assert kept.undo("bob", 5) == []
    assert len(kept.history()) == 5  # nothing was removed
    kept.add([Decision.now(TWO, "reject", "bob")])
    assert choices(kept)[-1] == (TWO, "reject", "bob")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"choice": "maybe"}, "'maybe' is no decision, expected accept, reject, defer"),
        ({"by": " "}, "needs the name of who makes it"),
        ({"note": "x" * 1001}, "the note has 1,001 characters"),
    ],
)
def test_what_is_no_decision_is_refused(wrong, message):
    with pytest.raises(TuckerkgError, match=message):
        Decision.now(ONE, **{"choice": "accept", "by": "ada"} | wrong)


def test_a_line_cut_by_a_crash_is_dropped_and_a_damaged_one_is_named(tmp_path):
    kept = Decisions(tmp_path)
    kept.add([Decision.now(ONE, "accept", "ada"), Decision.now(TWO, "accept", "ada")])
    whole = kept.path.read_bytes()
    kept.path.write_bytes(whole[:-7])
    assert choices(kept) == [(ONE, "accept", "ada")]
    kept.add([Decision.now(TWO, "reject", "ada")])
    assert choices(kept) == [(ONE, "accept", "ada"), (TWO, "reject", "ada")]
    for damaged in ('{"head": "e1"}', json.dumps({**json.loads(whole.splitlines()[0]), "choice": "perhaps"})):
        kept.path.write_bytes(whole + damaged.encode() + b"\n")
        with pytest.raises(RunFolderError, match=r"decisions.jsonl:3: is not a decision"):
            kept.current()


WRITER = """
import sys
from pathlib import Path
from tuckerkg.review.decisions import Decision, Decisions
kept = Decisions(Path(sys.argv[1]))
for number in range(50):
    kept.add([Decision.now((f"{sys.argv[2]}-{number}", "likes", "e2"), "accept", sys.argv[2])])
"""


def test_people_who_decide_at_once_lose_nothing(tmp_path):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name]) for name in ("ada", "bob", "cleo")]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    kept = Decisions(tmp_path).history()
    assert len(kept) == 150
    for name in ("ada", "bob", "cleo"):
        assert [each.head for each in kept if each.by == name] == [f"{name}-{number}" for number in range(50)]


@pytest.fixture
def run(toy_run, tmp_path):
    return load(shutil.copytree(toy_run.path, tmp_path / "run"))


def tuckerkg(*arguments, expected=0):
    done = subprocess.run(
        [sys.executable, "-m", "tuckerkg", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == expected, done.stderr
    return done.stdout + done.stderr


def test_facts_are_decided_exported_and_added(run, tmp_path):
    facts = run.top_missing(6, typed=False)
    file = tmp_path / "facts.tsv"
    file.write_text("".join(f"{fact.head}\t{fact.relation}\t{fact.tail}\n" for fact in facts[:3]))
    assert "3 facts accepted by ada; 3 accepted, 0 rejected, 0 deferred" in tuckerkg(
        "decide", run.path, file, "--by", "ada"
    )
    one = facts[4]
    said = tuckerkg(
        "decide",
        run.path,
        "--fact",
        one.head,
        one.relation,
        one.tail,
        "--as",
        "reject",
        "--by",
        "bob",
        "--note",
        "=1+1",
    )
    assert "1 fact rejected by bob" in said
    assert "1 fact taken back by ada; 2 accepted, 1 rejected" in tuckerkg(
        "decide", run.path, "--undo", "1", "--by", "ada"
    )
    for ending, read in ((".csv", pl.read_csv), (".parquet", pl.read_parquet)):
        out = tmp_path / f"out{ending}"
        tuckerkg("decisions", run.path, "--out", out)
        frame = read(out)
        assert frame["decision"].to_list() == ["accept", "accept", "reject"]
        assert frame["head_label"].to_list() == [facts[0].head_label, facts[1].head_label, one.head_label]
        assert frame["probability"][0] == pytest.approx(facts[0].probability, abs=1e-4)
        assert frame["note"][2] == ("'=1+1" if ending == ".csv" else "=1+1")
    listed = json.loads(tuckerkg("decisions", run.path, "--json", "--only", "accept"))
    assert [each["by"] for each in listed] == ["ada", "ada"]
    assert "2 accepted facts added, 0 known already: version 2" in tuckerkg("decisions", run.path, "--add")
    assert "all 2 facts are in the run already" in tuckerkg("decisions", run.path, "--add", expected=2)


def test_what_cannot_be_decided_is_said(run, tmp_path):
    assert "give a file of facts or one by --fact" in tuckerkg("decide", run.path, expected=2)
    assert "'perhaps' is no decision" in tuckerkg(
        "decide", run.path, "--fact", "a", "b", "c", "--as", "perhaps", expected=2
    )
    assert "there is no entity 'nobody'" in tuckerkg("decide", run.path, "--fact", "nobody", "b", "c", expected=2)
    assert "--only maybe: is no decision" in tuckerkg("decisions", run.path, "--only", "maybe", expected=2)
