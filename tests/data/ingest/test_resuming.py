"""An ingest that was killed continues, and gives the same bytes."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from files import put

pytest.importorskip("duckdb")

from tuckerkg.data.ingest import ingest as ingest_module
from tuckerkg.data.ingest.ingest import ingest
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.errors import TuckerkgError
from tuckerkg.storage.lock import held

# Kills itself at the n-th report of progress.
SCRIPT = """
import os, signal, sys
from tuckerkg.data.ingest import ingest as module
from tuckerkg.data.readers.options import ReadOptions
module.block_bytes = lambda memory: 4000
left = int(sys.argv[3])
def progress(done, total):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
options = ReadOptions(on_error="skip", rejects=module.Path(sys.argv[4]))
module.ingest(sys.argv[1], sys.argv[2], shards=3, threads=1, split=(0.8, 0.1, 0.1), options=options, progress=progress)
"""


def graph_file(folder: Path) -> Path:
    rows = [f"e{i % 90}\tr{i % 4}\te{i * i % 77}" if i % 50 else "bad row" for i in range(1500)]
    return put(folder, "\n".join(rows) + "\n")


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def run(file: Path, out: Path, kill_at: int) -> int:
    command = [sys.executable, "-c", SCRIPT, str(file), str(out), str(kill_at), str(out.with_suffix(".rejects"))]
    return subprocess.run(command, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}).returncode


def test_killed_anywhere_it_continues_and_the_bytes_are_the_same(tmp_path: Path) -> None:
    file = graph_file(tmp_path)
    assert run(file, tmp_path / "whole", 0) == 0
    expected = digests(tmp_path / "whole")
    for number, place in enumerate((1, 4, 8, 11, 14, 17)):
        out = tmp_path / f"killed-{number}"
        assert run(file, out, place) == -signal.SIGKILL
        assert not out.exists()
        assert run(file, out, 2 if number % 2 else 0) in (0, -signal.SIGKILL)
        if not out.exists():
            assert run(file, out, 0) == 0
        assert digests(out) == expected
        assert not out.with_name(f"{out.name}.partial").exists()
        assert out.with_suffix(".rejects").read_bytes() == (tmp_path / "whole.rejects").read_bytes()


@pytest.fixture
def interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file whose ingest into ``out`` stopped after the names were numbered."""
    file = put(tmp_path, "a\tr\tb\nb\tr\tc\n")

    def broken(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ingest_module, "place_rows", broken)
        with pytest.raises(KeyboardInterrupt):
            ingest(file, tmp_path / "out", shards=2, threads=1)
    assert (tmp_path / "out.partial" / "state.json").is_file()
    return file


def test_finished_stages_are_not_run_again(interrupted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_module, "read_file", None)
    monkeypatch.setattr(ingest_module, "number_entities", None)
    said: list[str] = []
    out = interrupted.with_name("out")
    assert ingest(interrupted, out, shards=2, threads=1, memory="300MB", log=said.append).num_entities == 3
    assert said == [f"continuing the unfinished ingest in {out}.partial: read-0000, number done"]


def test_another_file_or_option_is_noticed(interrupted: Path) -> None:
    out = interrupted.with_name("out")
    other = put(interrupted.parent, "a\tr\tb\n", "other.tsv")
    with pytest.raises(TuckerkgError, match=r"unfinished ingest of something else: shards was 2, now 4.*or --restart"):
        ingest(interrupted, out, shards=4, threads=1)
    with pytest.raises(TuckerkgError, match="on_error was stop, now skip"):
        ingest(interrupted, out, shards=2, threads=1, options=ReadOptions(on_error="skip"))
    with pytest.raises(TuckerkgError, match=r"without the file train .*train.tsv; with the file train .*other.tsv"):
        ingest(other, out, shards=2, threads=1)
    interrupted.write_text("a\tr\tb\nb\tr\td\n")
    with pytest.raises(TuckerkgError, match=r"the file train .*train.tsv has changed"):
        ingest(interrupted, out, shards=2, threads=1)
    graph = ingest(interrupted, out, shards=2, threads=1, restart=True)
    assert sorted(name for shard in range(2) for name in graph.names(shard)) == ["a", "b", "d"]


@pytest.mark.parametrize("after", ["graph", "remove"])
def test_killed_at_the_very_end_it_is_put_in_place_and_cleaned_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    file, out = put(tmp_path, "a\tr\tb\nb\tr\tc\n"), tmp_path / "out"

    def killed(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(
            *((ingest_module, "seal_files", killed) if after == "graph" else (ingest_module.Work, "remove", killed))
        )
        with pytest.raises(KeyboardInterrupt):
            ingest(file, out, shards=2, threads=1)
    assert out.exists() == (after == "remove")
    graph = ingest(file, out, shards=2, threads=1)
    graph.verify()
    assert not out.with_name("out.partial").exists()
    with pytest.raises(TuckerkgError, match="exists already"):
        ingest(file, out, shards=2, threads=1)


def test_a_damaged_record_of_stages_begins_again(interrupted: Path) -> None:
    out = interrupted.with_name("out")
    (out.with_name("out.partial") / "state.json").write_text("{")
    assert ingest(interrupted, out, shards=2, threads=1).num_entities == 3


def test_two_at_once_do_not_share_a_folder(interrupted: Path) -> None:
    out = interrupted.with_name("out")
    with held(out.with_name("out.partial")), pytest.raises(TuckerkgError, match="is in use by process"):
        ingest(interrupted, out, shards=2, threads=1)
