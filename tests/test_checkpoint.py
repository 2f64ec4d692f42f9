import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tuckerkg import checkpoint, manifest
from tuckerkg.checkpoint import Checkpoint, RunFolder, SealedFolder, check_entity_rows, check_place, check_weights
from tuckerkg.errors import NonFiniteError, RunFolderError

ENTITIES = ["a", "b", "ü ", "\u200bd"]
RELATIONS = ["likes", "knows"]
SPLITS = {
    "train": np.array([[0, 0, 1], [1, 1, 2]]),
    "valid": np.array([[2, 0, 3]], dtype=np.int32),
    "test": np.empty((0, 3), dtype=np.int64),
}
SETTINGS = {"encoder": "tgcn", "dimension": 4, "learning_rate": 0.003, "out": None}
FILES = ["manifest.json", "optimiser.safetensors", "state.json", "weights.safetensors"]


def create(path: Path) -> RunFolder:
    return RunFolder.create(
        path,
        SETTINGS,
        entities=ENTITIES,
        relations=RELATIONS,
        splits=SPLITS,
        entity_titles={"a": "Ann"},
        report={"lines": 3},
    )


def tensors(step: int, rows: int = 40) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    return {
        "table": torch.rand(rows, 20, generator=generator),
        "half": torch.rand(3, 3, generator=generator).to(torch.bfloat16),
    }


def save(run: RunFolder, step: int, best: int | None = None, keep: tuple[int, ...] = ()) -> Path:
    return run.save(step, tensors(step), {"m": tensors(step + 500)["table"]}, {"epoch": step, "best_step": best}, keep)


def assert_is(found: Checkpoint | None, step: int) -> None:
    assert found is not None
    assert found.step == step
    assert found.state["epoch"] == step
    for name, tensor in tensors(step).items():
        assert torch.equal(found.weights[name], tensor)
    assert torch.equal(found.optimiser["m"], tensors(step + 500)["table"])


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


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
        for name, triples in SPLITS.items():
            split = found.split(name)
            assert split.dtype == np.int64
            assert split.shape == triples.shape
            assert (split == triples).all()
        assert found.load() is None
        assert found.steps() == []
        assert found.metrics() == []
    assert names(run.path / "data") == [
        "entities.json", "manifest.json", "relations.json", "report.json", "test.safetensors", "titles.json",
        "train.safetensors", "valid.safetensors",
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


def expected(found: dict[str, torch.Tensor]) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    return {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in found.items()}


def test_b59_both_counts_are_told() -> None:
    check_entity_rows({"entities": torch.zeros(12, 3)}, "entities", 12)
    with pytest.raises(RunFolderError, match=r"entities\.json has 12 entities but tensor 'entities' has 10 rows"):
        check_entity_rows({"entities": torch.zeros(10, 3)}, "entities", 12)
    with pytest.raises(RunFolderError, match="0 rows"):
        check_entity_rows({}, "entities", 12)


def test_b60_weights_that_fit_are_let_through() -> None:
    found = {
        **tensors(1),
        "ids": torch.arange(3),
        "empty": torch.empty(0, 2),
        "z": torch.zeros(2, dtype=torch.complex64),
    }
    check_weights(found, expected(found))


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("table", None, "'table' is missing"),
        ("extra", torch.zeros(1), "'extra' is not one of the model's: table, half"),
        ("table", torch.zeros(20, 40), r"'table' has shape \[20, 40\], the model needs \[40, 20\]"),
        (
            "table",
            torch.zeros(40, 20, dtype=torch.float64),
            "'table' has dtype torch.float64, the model needs torch.float32",
        ),
        ("half", torch.full((3, 3), float("nan"), dtype=torch.bfloat16), "'half' holds NaN or infinite"),
        ("half", torch.full((3, 3), float("-inf"), dtype=torch.bfloat16), "'half' holds NaN or infinite"),
    ],
)
def test_b60_the_tensor_that_does_not_fit_is_named(name: str, wrong: torch.Tensor | None, message: str) -> None:
    found = tensors(1)
    shapes = expected(found)
    found.pop(name, None)
    if wrong is not None:
        found[name] = wrong
    with pytest.raises(RunFolderError, match=message):
        check_weights(found, shapes)


def test_b62_a_pickle_in_a_checkpoint_is_refused(two: RunFolder, tmp_path: Path) -> None:
    torch.save(tensors(3), tmp_path / "pickled")
    state = manifest.json_bytes({"step": 3, "state": {}})
    pickled = (tmp_path / "pickled").read_bytes()
    manifest.write_sealed(
        two.path / "checkpoints" / "step-00000003",
        {"weights.safetensors": pickled, "optimiser.safetensors": pickled, "state.json": state},
    )
    with pytest.raises(RunFolderError, match="not a safetensors file"):
        two.load(3)
    assert_is(two.load(), 2)


# ------------------------------------------------------------------------------------------ saving and loading


def test_what_is_saved_is_loaded(run: RunFolder) -> None:
    path = save(run, 1200)
    assert path == run.path / "checkpoints" / "step-00001200"
    assert names(path) == FILES
    found = RunFolder.open(run.path).load()
    assert_is(found, 1200)
    assert found is not None
    assert found.weights["half"].dtype == torch.bfloat16
    assert found.path == path
    found.weights["table"].add_(1)  # a tensor that can be trained on


def test_tied_strided_and_trained_tensors_are_saved(run: RunFolder) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    weights = {"base": base, "tied": base, "part": base[1], "turned": base.T, "p": torch.nn.Parameter(torch.ones(2))}
    run.save(1, weights, {}, {})
    found = run.load()
    assert found is not None
    for name, tensor in weights.items():
        assert torch.equal(found.weights[name], tensor.detach())
    assert found.optimiser == {}


def test_the_newest_two_and_the_kept_ones_stay(run: RunFolder) -> None:
    for step in range(1, 6):
        save(run, step, best=2, keep=(2, 77))
    assert run.steps() == [2, 4, 5]
    assert_is(run.best(), 2)
    assert_is(run.load(), 5)
    assert_is(run.load(4), 4)
    with pytest.raises(RunFolderError, match="no checkpoint of step 3; it has 2, 4, 5"):
        run.load(3)


def test_steps_of_an_abandoned_continuation_are_removed(run: RunFolder) -> None:
    for step in (10, 20, 30):
        save(run, step)
    save(run, 25)
    assert run.steps() == [20, 25]


def test_the_same_step_can_be_saved_again(run: RunFolder) -> None:
    save(run, 1)
    run.save(1, tensors(9), {}, {"epoch": 9})
    found = run.load()
    assert found is not None
    assert found.state == {"epoch": 9}
    assert names(run.path / "checkpoints") == ["step-00000001"]


def test_f01_a_crash_between_the_two_renames_of_a_replacement_loses_nothing(run: RunFolder) -> None:
    path = save(run, 1)
    path.rename(path.with_name("step-00000001.old"))
    assert run.steps() == [1]
    assert_is(run.load(), 1)
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
        two.load(9)
    assert_is(two.load(), 1)


def test_best_without_notice_when_the_newest_is_the_best(run: RunFolder) -> None:
    notices: list[str] = []
    save(run, 1, best=1)
    assert_is(run.best(on_fallback=notices.append), 1)
    assert notices == []


@pytest.mark.parametrize("best", [None, 7, "x"])
def test_best_falls_back_to_the_newest_with_a_notice(run: RunFolder, best: Any) -> None:
    notices: list[str] = []
    save(run, 1, best=best)
    assert_is(run.best(on_fallback=notices.append), 1)
    assert len(notices) == 1
    assert "newest" in notices[0]


def test_best_that_is_damaged_falls_back_with_a_notice(run: RunFolder) -> None:
    notices: list[str] = []
    path = save(run, 1)
    save(run, 2, best=1)
    (path / "weights.safetensors").write_bytes(b"")
    assert_is(run.best(on_fallback=notices.append), 2)
    assert "weights.safetensors" in notices[0]


def test_best_of_a_run_without_checkpoints_is_refused(run: RunFolder) -> None:
    with pytest.raises(RunFolderError, match="no checkpoint yet"):
        run.best()


def test_state_that_json_has_not_is_refused_before_anything_is_written(two: RunFolder) -> None:
    for state in ({"loss": float("inf")}, {"x": object()}):
        with pytest.raises((ValueError, TypeError)):
            two.save(3, tensors(3), {}, state)
    with pytest.raises(ValueError, match="step is -1"):
        two.save(-1, {}, {}, {})
    assert names(two.path / "checkpoints") == ["step-00000001", "step-00000002"]


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)


def test_f04_a_save_over_the_file_size_limit_leaves_the_old_ones(two: RunFolder) -> None:
    with file_size_limit(2000), pytest.raises(RunFolderError, match=r"Cannot write .*step-00000003.*ulimit -f"):
        save(two, 3)
    assert names(two.path / "checkpoints") == ["step-00000001", "step-00000002"]
    assert_is(two.load(), 2)
    save(two, 3)
    assert_is(two.load(), 3)


# ------------------------------------------------------------------------------------------ damaged checkpoints


def test_f08_a_file_cut_anywhere_falls_back_and_says_so(two: RunFolder) -> None:
    folder = two.path / "checkpoints" / "step-00000002"
    for name in FILES:
        whole = (folder / name).read_bytes()
        for size in {*range(0, len(whole), 1024), len(whole) - 1}:
            (folder / name).write_bytes(whole[:size])
            notices: list[str] = []
            assert_is(two.load(on_fallback=notices.append), 1)
            assert len(notices) == 1
            assert name in notices[0]
            assert "step 1 instead" in notices[0]
            with pytest.raises(RunFolderError, match=name):
                two.load(2)
        (folder / name).write_bytes(whole)
    assert_is(two.load(), 2)


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
                two.load(2)
            detected += 1
        (folder / name).write_bytes(whole)
    assert detected == 1000
    assert_is(two.load(), 2)


def test_f10_a_checkpoint_without_one_of_its_files_is_not_chosen(two: RunFolder) -> None:
    folder = two.path / "checkpoints" / "step-00000002"
    for name in FILES:
        whole = (folder / name).read_bytes()
        (folder / name).unlink()
        notices: list[str] = []
        assert_is(two.load(on_fallback=notices.append), 1)
        assert name in notices[0]
        (folder / name).write_bytes(whole)
    (folder / "stray").write_bytes(b"")
    assert_is(two.load(), 1)


def test_f10_a_stray_temporary_is_not_chosen_and_is_cleaned(two: RunFolder) -> None:
    whole = two.path / "checkpoints" / "step-00000002"
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    stray = whole.with_name(f"step-00000003.tmp-{process.pid}")
    stray.mkdir()
    for name in FILES:
        (stray / name).write_bytes((whole / name).read_bytes())
    (two.path / "checkpoints" / "notes.txt").write_text("not ours")
    assert two.steps() == [1, 2]
    assert_is(two.load(), 2)
    save(two, 4)
    assert names(two.path / "checkpoints") == ["notes.txt", "step-00000002", "step-00000004"]


def test_when_all_are_damaged_each_is_named(two: RunFolder) -> None:
    for step in (1, 2):
        (two.path / "checkpoints" / f"step-{step:08d}" / "state.json").write_bytes(b"")
    with pytest.raises(RunFolderError, match=r"every checkpoint is damaged(.|\n)*step-00000002(.|\n)*step-00000001"):
        two.load()


def test_a_fallback_is_logged_when_nobody_listens(two: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    (two.path / "checkpoints" / "step-00000002" / "state.json").write_bytes(b"")
    assert_is(two.load(), 1)
    assert "step 1 instead" in caplog.text


# ------------------------------------------------------------------------------------------ opening and places


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
    with pytest.raises(RunFolderError, match="holds checkpoints/step-00000001"):
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


# ------------------------------------------------------------------------------------------ metrics


def test_metrics_are_appended_and_cut_back(run: RunFolder) -> None:
    rows = [{"step": step, "mrr": step / 10} for step in range(5)]
    run.append_metrics({"note": "no step"})
    for row in rows:
        run.append_metrics(row)
    run.truncate_metrics(9)
    assert run.metrics() == [{"note": "no step"}, *rows]
    run.truncate_metrics(2)
    assert run.metrics() == [{"note": "no step"}, *rows[:3]]
    run.append_metrics(rows[3])
    assert [row.get("step") for row in RunFolder.open(run.path).metrics()] == [None, 0, 1, 2, 3]


def test_metrics_of_a_run_that_has_none_can_be_cut_back(run: RunFolder) -> None:
    run.truncate_metrics(0)
    assert run.metrics() == []
    assert not (run.path / "metrics.jsonl").exists()


@pytest.mark.parametrize("mend", ["truncate", "append"])
def test_a_last_line_cut_anywhere_by_a_crash_is_dropped(run: RunFolder, mend: str) -> None:
    run.append_metrics({"step": 1, "mrr": 0.5})
    first = (run.path / "metrics.jsonl").read_bytes()
    run.append_metrics({"step": 2, "mrr": 0.25})
    both = (run.path / "metrics.jsonl").read_bytes()
    for size in range(len(first), len(both)):
        (run.path / "metrics.jsonl").write_bytes(both[:size])
        assert run.metrics() == [{"step": 1, "mrr": 0.5}]
        if mend == "truncate":
            run.truncate_metrics(5)
            assert (run.path / "metrics.jsonl").read_bytes() == first
        else:
            run.append_metrics({"step": 3})
            assert run.metrics() == [{"step": 1, "mrr": 0.5}, {"step": 3}]
    (run.path / "metrics.jsonl").write_bytes(b"torn")
    run.truncate_metrics(5)
    assert (run.path / "metrics.jsonl").read_bytes() == b""


def test_a_damaged_line_is_named_by_its_number(run: RunFolder) -> None:
    (run.path / "metrics.jsonl").write_bytes(b'{"step":1}\n[]\n{"step":3}\n')
    with pytest.raises(RunFolderError, match=r"metrics\.jsonl:2"):
        run.metrics()


def test_metrics_that_are_not_finite_are_refused(run: RunFolder) -> None:
    with pytest.raises(NonFiniteError, match="step 7"):
        run.append_metrics({"step": 7, "loss": float("nan")})
    assert run.metrics() == []


def test_f04_a_row_that_does_not_fit_is_not_written_at_all(run: RunFolder) -> None:
    run.append_metrics({"step": 1})
    with file_size_limit(15), pytest.raises(RunFolderError, match=r"Cannot write .*metrics\.jsonl"):
        run.append_metrics({"step": 2, "more": "x" * 99})
    assert (run.path / "metrics.jsonl").read_bytes() == b'{"step":1}\n'


# ------------------------------------------------------------------------------------------ lock

HOLD = """
import sys, time, types
from pathlib import Path
package = types.ModuleType("tuckerkg")  # in place of the real one, which may import torch
package.__path__ = [sys.argv[1]]
sys.modules["tuckerkg"] = package
from tuckerkg.place import held
with held(Path(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.read()
"""


def start_holder(path: Path) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", HOLD, str(Path(manifest.__file__).parent), str(path)]
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


def test_the_sealed_folders_of_a_run_verify(two: RunFolder) -> None:
    SealedFolder(two.path / "data").verify()
    for step in two.steps():
        SealedFolder(two.path / "checkpoints" / f"step-{step:08d}").verify()
