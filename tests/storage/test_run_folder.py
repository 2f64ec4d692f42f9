"""Opening run folders, places that cannot be used, and the lock that keeps two from writing to one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from run_folders import ENTITIES, create, file_size_limit, names, save

from tuckerkg.errors import RunFolderError
from tuckerkg.storage import run_folder as checkpoint
from tuckerkg.storage import sealed_folder as manifest
from tuckerkg.storage.run_folder import RunFolder, check_place


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return create(tmp_path / "run")


def test_opening_what_is_not_a_run_says_what_to_give(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    save(run, 1)
    cases = {
        tmp_path / "rum": "no such folder. Did you mean 'run'",
        tmp_path / "nowhere" / "run": "no such folder",
        tmp_path / "file": "is a file",
        tmp_path / "empty": "no settings.json",
        tmp_path: "give one of them: run",
        run.path / "data": f"part of the run folder {run.path}",
        run.path / "checkpoints" / "step-00000001": f"part of the run folder {run.path}",
    }
    for path, message in cases.items():
        with pytest.raises(RunFolderError) as caught:
            RunFolder.open(path)
        assert message in str(caught.value)


@pytest.mark.parametrize("content", ["", "[", "[]", "3", "[" * 100_000])
def test_damaged_settings_are_named(run: RunFolder, content: str) -> None:
    (run.path / "settings.json").write_text(content)
    with pytest.raises(RunFolderError, match=r"settings\.json"):
        RunFolder.open(run.path)


def test_a_run_without_data_is_refused(run: RunFolder) -> None:
    (run.path / "data").rename(run.path / "elsewhere")
    with pytest.raises(RunFolderError, match="data: there is no such folder"):
        RunFolder.open(run.path)


def test_b61_a_run_of_a_newer_format_is_refused(run: RunFolder) -> None:
    (run.path / "data" / "manifest.json").write_bytes(manifest._sealed_bytes(2, {}))
    with pytest.raises(RunFolderError, match="needs a tuckerkg that reads format 2"):
        RunFolder.open(run.path)


def test_a_taken_place_is_refused_with_a_remedy(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"already holds a run.*--resume.*another --out"):
        create(run.path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(RunFolderError, match=r"not empty \(it holds thesis\.tex\).*another --out"):
        create(tmp_path / "mine")
    assert names(tmp_path / "mine") == ["thesis.tex"]


def test_an_empty_folder_and_a_half_made_run_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    create(tmp_path / "empty")
    half = create(tmp_path / "half").path
    (half / "settings.json").unlink()
    (half / "data" / "manifest.json").unlink()
    (half / "settings.json.tmp-0").write_text("")
    assert create(half).entities() == ENTITIES
    assert not (half / "settings.json.tmp-0").exists()
    save(create(tmp_path / "lost"), 1)
    (tmp_path / "lost" / "settings.json").unlink()
    with pytest.raises(RunFolderError, match=r"not empty \(it holds best\.json\)"):
        create(tmp_path / "lost")


def test_f07_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "run", tmp_path / "file" / "a" / "b"):
        with pytest.raises(RunFolderError, match=r"is a file.*another --out"):
            create(path)
    assert names(tmp_path) == ["file"]


def test_f07_a_place_without_permission_is_refused_at_once() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # pytest's own folders are closed to others
        Path(folder).chmod(0o555)
        former = os.geteuid()
        start = time.monotonic()
        try:
            if former == 0:
                os.seteuid(65534)  # permissions do not bind root
            for path in (Path(folder), Path(folder) / "deep" / "run"):
                with pytest.raises(RunFolderError, match=r"Permission denied.*Change the permissions"):
                    check_place(path)
                with pytest.raises(RunFolderError, match="Permission denied"):
                    create(path)
        finally:
            os.seteuid(former)
        assert time.monotonic() - start < 2
        assert names(Path(folder)) == []
        Path(folder).chmod(0o755)


def test_f07_a_file_size_limit_is_noticed_before_training(tmp_path: Path) -> None:
    with file_size_limit(0), pytest.raises(RunFolderError, match="ulimit -f"):
        create(tmp_path / "run")
    with file_size_limit(50), pytest.raises(RunFolderError, match="ulimit -f"):
        create(tmp_path / "run")
    create(tmp_path / "run")  # what was left does not stand in the way


def test_f07_a_usable_place_is_left_as_it_was(tmp_path: Path) -> None:
    check_place(tmp_path / "deep" / "run")
    check_place(tmp_path)
    assert names(tmp_path) == []


# ------------------------------------------------------------------------------------------ lock

HOLD = """
import sys, time, types
from pathlib import Path
package = types.ModuleType("tuckerkg")  # in place of the real one, which may import torch
package.__path__ = [sys.argv[1]]
sys.modules["tuckerkg"] = package
from tuckerkg.storage.lock import held
with held(Path(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.read()
"""


def start_holder(path: Path) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", HOLD, str(Path(manifest.__file__).parents[1]), str(path)]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_f11_the_second_is_refused_at_once_and_told_the_process(run: RunFolder) -> None:
    with start_holder(run.path) as first:
        assert line_of(first) == "held"
        start = time.monotonic()
        with pytest.raises(RunFolderError, match=f"in use by process {first.pid} on .*another --out"), run.lock():
            raise AssertionError("both hold it")
        assert time.monotonic() - start < 2
        with start_holder(run.path) as second:
            _, complaint = second.communicate()
            assert f"process {first.pid}" in complaint
            assert second.returncode == 1
        first.communicate("")  # the first goes on unharmed and leaves in order
        assert first.returncode == 0
    with run.lock():
        pass


def test_f11_the_lock_of_a_killed_process_is_recovered(run: RunFolder) -> None:
    with start_holder(run.path) as first:
        assert line_of(first) == "held"
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert json.loads((run.path / ".lock.pid").read_bytes())["pid"] == first.pid
        with start_holder(run.path) as second:
            assert line_of(second) == "held"
            with pytest.raises(RunFolderError, match=f"process {second.pid} "), run.lock():
                raise AssertionError("both hold it")
            second.communicate("")


def test_f11_the_lock_is_not_reentrant_and_is_freed_after_an_error(run: RunFolder) -> None:
    with run.lock(), pytest.raises(RunFolderError, match=f"process {os.getpid()} "), run.lock():
        raise AssertionError("held twice")
    with pytest.raises(ZeroDivisionError), run.lock():
        raise ZeroDivisionError
    with run.lock():
        (run.path / ".lock.pid").write_bytes(b"{}")
        with pytest.raises(RunFolderError, match="another process"), run.lock():
            raise AssertionError("held twice")


def test_f11_a_place_that_another_is_making_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with start_holder(tmp_path / "run") as first:
        assert line_of(first) == "held"
        with pytest.raises(RunFolderError, match=f"process {first.pid}"):
            create(tmp_path / "run")
        first.communicate("")
    create(tmp_path / "run")


def test_f11_a_run_that_another_made_in_the_meantime_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "check_place", lambda path: (patch.undo(), create(path)))
        with pytest.raises(RunFolderError, match="already holds a run"):
            RunFolder.create(tmp_path / "run", {}, entities=["z"], relations=[], splits={})
    assert RunFolder.open(tmp_path / "run").entities() == ENTITIES
