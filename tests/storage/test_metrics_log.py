"""The history of a run: appended, cut back, mended after a crash."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_folders import create, file_size_limit

from tuckerkg.errors import NonFiniteError, RunFolderError
from tuckerkg.storage.run_folder import RunFolder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return create(tmp_path / "run")


def test_metrics_are_appended_and_cut_back(run: RunFolder) -> None:
    rows = [{"step": step, "mrr": step / 10} for step in range(5)]
    run.metrics.append({"note": "no step"})
    for row in rows:
        run.metrics.append(row)
    run.metrics.truncate(9)
    assert run.metrics.rows() == [{"note": "no step"}, *rows]
    run.metrics.truncate(2)
    assert run.metrics.rows() == [{"note": "no step"}, *rows[:3]]
    run.metrics.append(rows[3])
    assert [row.get("step") for row in RunFolder.open(run.path).metrics.rows()] == [None, 0, 1, 2, 3]


def test_metrics_of_a_run_that_has_none_can_be_cut_back(run: RunFolder) -> None:
    run.metrics.truncate(0)
    assert run.metrics.rows() == []
    assert not (run.path / "metrics.jsonl").exists()


@pytest.mark.parametrize("mend", ["truncate", "append"])
def test_a_last_line_cut_anywhere_by_a_crash_is_dropped(run: RunFolder, mend: str) -> None:
    run.metrics.append({"step": 1, "mrr": 0.5})
    first = (run.path / "metrics.jsonl").read_bytes()
    run.metrics.append({"step": 2, "mrr": 0.25})
    both = (run.path / "metrics.jsonl").read_bytes()
    for size in range(len(first), len(both)):
        (run.path / "metrics.jsonl").write_bytes(both[:size])
        assert run.metrics.rows() == [{"step": 1, "mrr": 0.5}]
        if mend == "truncate":
            run.metrics.truncate(5)
            assert (run.path / "metrics.jsonl").read_bytes() == first
        else:
            run.metrics.append({"step": 3})
            assert run.metrics.rows() == [{"step": 1, "mrr": 0.5}, {"step": 3}]
    (run.path / "metrics.jsonl").write_bytes(b"torn")
    run.metrics.truncate(5)
    assert (run.path / "metrics.jsonl").read_bytes() == b""


def test_a_damaged_line_is_named_by_its_number(run: RunFolder) -> None:
    (run.path / "metrics.jsonl").write_bytes(b'{"step":1}\n[]\n{"step":3}\n')
    with pytest.raises(RunFolderError, match=r"metrics\.jsonl:2"):
        run.metrics.rows()


def test_metrics_that_are_not_finite_are_refused(run: RunFolder) -> None:
    with pytest.raises(NonFiniteError, match="step 7"):
        run.metrics.append({"step": 7, "loss": float("nan")})
    assert run.metrics.rows() == []


def test_f04_a_row_that_does_not_fit_is_not_written_at_all(run: RunFolder) -> None:
    run.metrics.append({"step": 1})
    with file_size_limit(15), pytest.raises(RunFolderError, match=r"Cannot write .*metrics\.jsonl"):
        run.metrics.append({"step": 2, "more": "x" * 99})
    assert (run.path / "metrics.jsonl").read_bytes() == b'{"step":1}\n'
