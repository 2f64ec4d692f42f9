"""Run folders: what is saved is loaded, what is damaged is noticed, and the last good checkpoint is found."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from run_folders import (
    ENTITIES,
    FILES,
    RELATIONS,
    SETTINGS,
    SPLITS,
    assert_is,
    create,
    file_size_limit,
    names,
    save,
    tensors,
)

from tuckerkg.errors import RunFolderError
from tuckerkg.storage import sealed_folder as manifest
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.storage.sealed_folder import SealedFolder
from tuckerkg.version import VERSION


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return create(tmp_path / "run")


@pytest.fixture
def two(run: RunFolder) -> RunFolder:
    save(run, 1)
    save(run, 2)
    return run


# ------------------------------------------------------------------------------------------ data


def test_a_run_comes_back_as_it_was_made(run: RunFolder) -> None:
    for found in (run, RunFolder.open(run.path)):
        assert found.settings == SETTINGS
        assert found.entities() == ENTITIES
        assert found.relations() == RELATIONS
        assert found.entity_titles() == {"a": "Ann"}
        assert found.relation_titles() == {}
        assert found.report() == {"lines": 3}
        assert found.made_by() == VERSION
        for name, triples in SPLITS.items():
            split = found.split(name)
            assert split.dtype == np.int64
            assert split.shape == triples.shape
            assert (split == triples).all()
        assert found.checkpoints.newest() is None
        assert found.checkpoints.steps() == []
        assert found.metrics.rows() == []
    assert names(run.path / "data") == [
        "entities.json", "manifest.json", "program.json", "relations.json", "report.json", "test.safetensors",
        "titles.json", "train.safetensors", "valid.safetensors",
    ]  # fmt: skip


def test_a_split_that_is_not_there_is_named(run: RunFolder) -> None:
    with pytest.raises(RunFolderError, match="no split 'dev'; it has test, train, valid"):
        run.split("dev")


def test_triples_of_another_shape_are_not_stored(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\[2, 2\]"):
        RunFolder.create(
            tmp_path / "x", {}, entities=[], relations=[], splits={"train": np.zeros((2, 2), dtype=np.int64)}
        )
    assert not (tmp_path / "x").exists()


def test_b57_the_other_splits_open_while_test_is_absent_damaged_or_unreadable(run: RunFolder) -> None:
    file = run.path / "data" / "test.safetensors"

    def use() -> None:
        found = RunFolder.open(run.path)
        assert found.entities() == ENTITIES
        assert found.relations() == RELATIONS
        assert len(found.split("train")) == 2
        assert len(found.split("valid")) == 1
        with pytest.raises(RunFolderError, match=r"test\.safetensors"):
            found.split("test")

    file.write_bytes(b"damaged")
    use()
    file.unlink()
    use()
    file.symlink_to("/proc/self/mem")
    use()
    file.unlink()
    file.mkdir()
    use()


def test_b58_changed_labels_are_refused(run: RunFolder) -> None:
    file = run.path / "data" / "entities.json"
    file.write_bytes(file.read_bytes().replace(b'"a"', b'"z"'))
    with pytest.raises(RunFolderError, match=r"entities\.json.*SHA-256"):
        run.entities()


@pytest.mark.parametrize("content", [b"{}", b"[1]", b"[", b"null", b'"abc"', b"[" * 100_000])
def test_sealed_files_of_another_kind_are_refused(run: RunFolder, content: bytes) -> None:
    files = ["entities.json", "titles.json", "train.safetensors"]
    manifest.write_sealed(run.path / "data", dict.fromkeys(files, content))
    found = RunFolder.open(run.path)
    with pytest.raises(RunFolderError, match=r"entities\.json"):
        found.entities()
    with pytest.raises(RunFolderError, match=r"titles\.json"):
        found.entity_titles()
    with pytest.raises(RunFolderError, match=r"train\.safetensors"):
        found.split("train")


def test_sealed_triples_of_another_shape_or_dtype_are_refused(run: RunFolder) -> None:
    from safetensors.numpy import save as numpy_bytes

    for wrong in (np.zeros((2, 2), dtype=np.int64), np.zeros((2, 3), dtype=np.float32), np.zeros(3, dtype=np.int64)):
        manifest.write_sealed(run.path / "data", {"train.safetensors": numpy_bytes({"triples": wrong})})
        with pytest.raises(RunFolderError, match=r"int64 \[n, 3\]"):
            RunFolder.open(run.path).split("train")
    manifest.write_sealed(run.path / "data", {"train.safetensors": numpy_bytes({"other": np.zeros(3)})})
    with pytest.raises(RunFolderError, match="triples"):
        RunFolder.open(run.path).split("train")


# ------------------------------------------------------------------------------------------ weights


def test_b62_a_pickle_in_a_checkpoint_is_refused(two: RunFolder, tmp_path: Path) -> None:
    torch.save(tensors(3), tmp_path / "pickled")
    state = manifest.json_bytes({"step": 3, "state": {}})
    pickled = (tmp_path / "pickled").read_bytes()
    manifest.write_sealed(
        two.path / "checkpoints" / "step-00000003",
        {"weights.safetensors": pickled, "optimizer.safetensors": pickled, "state.json": state},
    )
    with pytest.raises(RunFolderError, match="not a safetensors file"):
        two.checkpoints.at(3)
    assert_is(two.checkpoints.newest(), 2)


# ------------------------------------------------------------------------------------------ saving and loading


def test_what_is_saved_is_loaded(run: RunFolder) -> None:
    path = save(run, 1200)
    assert path == run.path / "checkpoints" / "step-00001200"
    assert names(path) == FILES
    found = RunFolder.open(run.path).checkpoints.newest()
    assert_is(found, 1200)
    assert found is not None
    assert found.weights["half"].dtype == torch.bfloat16
    assert found.path == path
    found.weights["table"].add_(1)  # a tensor that can be trained on


def test_tied_strided_and_trained_tensors_are_saved(run: RunFolder) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    weights = {"base": base, "tied": base, "part": base[1], "turned": base.T, "p": torch.nn.Parameter(torch.ones(2))}
    run.checkpoints.save(1, weights, {}, {}, best=1)
    found = run.checkpoints.newest()
    assert found is not None
    for name, tensor in weights.items():
        assert torch.equal(found.weights[name], tensor.detach())
    assert found.optimizer == {}


def test_the_newest_two_and_the_best_one_stay(run: RunFolder) -> None:
    for step in range(1, 6):
        save(run, step, best=min(step, 2))
    assert run.checkpoints.steps() == [2, 4, 5]
    assert_is(run.checkpoints.weights(), 2)
    assert_is(run.checkpoints.newest(), 5)
    assert_is(run.checkpoints.at(4), 4)
    with pytest.raises(RunFolderError, match="no checkpoint of step 3; it has 2, 4, 5"):
        run.checkpoints.at(3)


def test_steps_of_an_abandoned_continuation_are_removed(run: RunFolder) -> None:
    for step in (10, 20, 30):
        save(run, step)
    save(run, 25)
    assert run.checkpoints.steps() == [20, 25]


def test_the_same_step_can_be_saved_again(run: RunFolder) -> None:
    save(run, 1)
    run.checkpoints.save(1, tensors(9), {}, {"epoch": 9}, best=1)
    found = run.checkpoints.newest()
    assert found is not None
    assert found.state == {"epoch": 9}
    assert names(run.path / "checkpoints") == ["step-00000001"]


def test_f01_a_crash_between_the_two_renames_of_a_replacement_loses_nothing(run: RunFolder) -> None:
    path = save(run, 1)
    path.rename(path.with_name("step-00000001.old"))
    assert run.checkpoints.steps() == [1]
    assert_is(run.checkpoints.newest(), 1)
    save(run, 1)
    assert names(run.path / "checkpoints") == ["step-00000001"]


def test_a_leftover_of_a_replacement_is_removed_by_the_next_save(run: RunFolder) -> None:
    path = save(run, 1)
    path.rename(path.with_name("step-00000001.old"))
    (path.with_name("step-00000002.old")).mkdir()
    save(run, 2)
    assert names(run.path / "checkpoints") == ["step-00000001.old", "step-00000002"]
    save(run, 3)
    assert names(run.path / "checkpoints") == ["step-00000002", "step-00000003"]


def test_a_renamed_checkpoint_is_refused(two: RunFolder) -> None:
    (two.path / "checkpoints" / "step-00000002").rename(two.path / "checkpoints" / "step-00000009")
    with pytest.raises(RunFolderError, match="state of step 9"):
        two.checkpoints.at(9)
    assert_is(two.checkpoints.newest(), 1)


def test_the_best_weights_are_those_that_the_note_names(run: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    save(run, 1)
    assert_is(run.checkpoints.weights("best"), 1)
    save(run, 2, best=1)
    assert run.checkpoints.best_step() == 1
    assert json.loads((run.path / "best.json").read_bytes()) == {"step": 1}
    for which, step in {"best": 1, "newest": 2, 1: 1, 2: 2}.items():
        assert_is(run.checkpoints.weights(which), step)
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("note", "message"),
    [
        (None, r"best\.json: is missing"),
        (b"", r"best\.json: does not name a step"),
        (b"[" * 100_000, r"best\.json: does not name a step"),
        (b'{"step": "x"}', r"best\.json: does not name a step"),
        (b'{"step": true}', r"best\.json: does not name a step"),
        (b"[1]", r"best\.json: does not name a step"),
        (b'{"step": 7}', r"no checkpoint of step 7; it has 1, 2\.(.|\n)*--checkpoint STEP"),
    ],
)
def test_a_best_step_that_is_not_told_is_refused(two: RunFolder, note: bytes | None, message: str) -> None:
    (two.path / "best.json").unlink()
    if note is not None:
        (two.path / "best.json").write_bytes(note)
    with pytest.raises(RunFolderError, match=message):
        two.checkpoints.weights("best")
    assert_is(two.checkpoints.weights("newest"), 2)
    assert_is(two.checkpoints.newest(), 2)


def test_best_weights_that_are_damaged_are_refused_and_the_others_are_named(run: RunFolder) -> None:
    path = save(run, 1)
    save(run, 2, best=1)
    (path / "weights.safetensors").write_bytes(b"")
    with pytest.raises(RunFolderError, match=r"weights\.safetensors(.|\n)*It also has step 2: --checkpoint STEP"):
        run.checkpoints.weights("best")
    assert_is(run.checkpoints.weights("newest"), 2)
    assert_is(run.checkpoints.weights(2), 2)


def test_weights_are_read_without_the_optimizer(two: RunFolder) -> None:
    for step in (1, 2):
        (two.path / "checkpoints" / f"step-{step:08d}" / "optimizer.safetensors").unlink()
        assert_is(two.checkpoints.weights(step), step)
        with pytest.raises(RunFolderError, match=r"optimizer\.safetensors missing"):
            two.checkpoints.at(step)


@pytest.mark.parametrize("which", ["best", "newest"])
def test_weights_of_a_run_without_checkpoints_are_refused(run: RunFolder, which: Any) -> None:
    with pytest.raises(RunFolderError, match="no checkpoint yet"):
        run.checkpoints.weights(which)


def test_state_that_json_has_not_is_refused_before_anything_is_written(two: RunFolder) -> None:
    for state in ({"loss": float("inf")}, {"x": object()}):
        with pytest.raises((ValueError, TypeError)):
            two.checkpoints.save(3, tensors(3), {}, state, best=3)
    with pytest.raises(ValueError, match="step is -1"):
        two.checkpoints.save(-1, {}, {}, {}, best=-1)
    assert names(two.path / "checkpoints") == ["step-00000001", "step-00000002"]


def test_f04_a_save_over_the_file_size_limit_leaves_the_old_ones(two: RunFolder) -> None:
    with file_size_limit(2000), pytest.raises(RunFolderError, match=r"Cannot write .*step-00000003.*ulimit -f"):
        save(two, 3)
    assert names(two.path / "checkpoints") == ["step-00000001", "step-00000002"]
    assert_is(two.checkpoints.newest(), 2)
    save(two, 3)
    assert_is(two.checkpoints.newest(), 3)


# ------------------------------------------------------------------------------------------ damaged checkpoints


def test_f08_a_file_cut_anywhere_falls_back_and_says_so(two: RunFolder) -> None:
    folder = two.path / "checkpoints" / "step-00000002"
    for name in FILES:
        whole = (folder / name).read_bytes()
        for size in {*range(0, len(whole), 1024), len(whole) - 1}:
            (folder / name).write_bytes(whole[:size])
            notices: list[str] = []
            assert_is(two.checkpoints.newest(on_fallback=notices.append), 1)
            assert len(notices) == 1
            assert name in notices[0]
            assert "step 1 instead" in notices[0]
            with pytest.raises(RunFolderError, match=name):
                two.checkpoints.at(2)
        (folder / name).write_bytes(whole)
    assert_is(two.checkpoints.newest(), 2)


def test_f09_a_thousand_flipped_bits_are_all_detected(two: RunFolder) -> None:
    folder = two.path / "checkpoints" / "step-00000002"
    chance = random.Random(0)
    detected = 0
    for name in FILES:
        whole = (folder / name).read_bytes()
        for _ in range(250):
            flipped = bytearray(whole)
            flipped[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
            (folder / name).write_bytes(flipped)
            with pytest.raises(RunFolderError):
                two.checkpoints.at(2)
            detected += 1
        (folder / name).write_bytes(whole)
    assert detected == 1000
    assert_is(two.checkpoints.newest(), 2)


def test_f10_a_checkpoint_without_one_of_its_files_is_not_chosen(two: RunFolder) -> None:
    folder = two.path / "checkpoints" / "step-00000002"
    for name in FILES:
        whole = (folder / name).read_bytes()
        (folder / name).unlink()
        notices: list[str] = []
        assert_is(two.checkpoints.newest(on_fallback=notices.append), 1)
        assert name in notices[0]
        (folder / name).write_bytes(whole)
    (folder / "stray").write_bytes(b"")
    assert_is(two.checkpoints.newest(), 1)


def test_f10_a_stray_temporary_is_not_chosen_and_is_cleaned(two: RunFolder) -> None:
    whole = two.path / "checkpoints" / "step-00000002"
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    stray = whole.with_name(f"step-00000003.tmp-{process.pid}")
    stray.mkdir()
    for name in FILES:
        (stray / name).write_bytes((whole / name).read_bytes())
    (two.path / "checkpoints" / "notes.txt").write_text("not ours")
    assert two.checkpoints.steps() == [1, 2]
    assert_is(two.checkpoints.newest(), 2)
    save(two, 4)
    assert names(two.path / "checkpoints") == ["notes.txt", "step-00000002", "step-00000004"]


def test_when_all_are_damaged_each_is_named(two: RunFolder) -> None:
    for step in (1, 2):
        (two.path / "checkpoints" / f"step-{step:08d}" / "state.json").write_bytes(b"")
    with pytest.raises(RunFolderError, match=r"every checkpoint is damaged(.|\n)*step-00000002(.|\n)*step-00000001"):
        two.checkpoints.newest()


def test_a_fallback_is_logged_when_nobody_listens(two: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    (two.path / "checkpoints" / "step-00000002" / "state.json").write_bytes(b"")
    assert_is(two.checkpoints.newest(), 1)
    assert "step 1 instead" in caplog.text


def test_the_sealed_folders_of_a_run_verify(two: RunFolder) -> None:
    SealedFolder(two.path / "data").verify()
    for step in two.checkpoints.steps():
        SealedFolder(two.path / "checkpoints" / f"step-{step:08d}").verify()
