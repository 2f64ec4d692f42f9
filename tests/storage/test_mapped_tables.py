"""A table that is mapped from a file: the same answers, no memory of its own, and never a stale or damaged one."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import numpy as np
import pytest
import torch
from graphs import toy_dataset
from sharded_runs import run_in_shards

import tuckerkg
from tuckerkg.data.dataset import Dataset
from tuckerkg.data.labels import Vocabulary
from tuckerkg.data.read_report import ReadReport
from tuckerkg.errors import RunFolderError
from tuckerkg.inference.run import Run
from tuckerkg.storage.run_folder import RunFolder

SMALL = {"model.dim": 8, "model.relation_dim": 8}

OPENING = """
import sys
import torch
import tuckerkg

def anonymous():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon"):
            return int(line.split()[1])

torch.set_num_threads(1)
from tuckerkg.inference.run import load
torch.rand(100, 100) @ torch.rand(100, 100)
before = anonymous()
run = load(sys.argv[1], mapped={"mapped": True, "copied": False, "chosen": None}[sys.argv[2]])
scores = run.scorer.scores(torch.tensor([0]), torch.tensor([0]))
print(anonymous() - before, float(scores.double().sum()))
"""


def ring(num_entities: int) -> Dataset:
    ids = np.arange(num_entities)
    triples = np.stack([ids, np.zeros_like(ids), np.roll(ids, 1)], 1)
    return Dataset(
        name="ring",
        entities=Vocabulary(tuple(f"e{number:06}" for number in range(num_entities))),
        relations=Vocabulary(("next",)),
        train=triples[:-2],
        valid=triples[-2:-1],
        test=triples[-1:],
        entity_titles={},
        relation_titles={},
        report=ReadReport(files=(), counts={}),
    )


def scores_of(run: Run) -> torch.Tensor:
    heads = torch.arange(20)
    return torch.cat([run.scorer.scores(heads, heads % 6), run.scorer.scores(heads[:1], heads[:1])])


@pytest.mark.parametrize("bias", ["none", "free"])
def test_answers_are_those_of_a_copied_table(tmp_path, bias):
    folder = run_in_shards(tmp_path / "run", toy_dataset(), **SMALL, **{"model.bias": bias})
    copied, mapped = (tuckerkg.load(folder.path, mapped=mapped) for mapped in (False, True))
    assert not copied.folder.checkpoints.weights(mapped=False).mapped
    assert mapped.folder.checkpoints.weights(mapped=True).mapped
    assert torch.equal(scores_of(copied), scores_of(mapped))
    assert copied.predict("e003", "plus1") == mapped.predict("e003", "plus1")
    assert copied.evaluate("test").as_dict() == mapped.evaluate("test").as_dict()
    assert copied.counts() == mapped.counts()
    assert torch.equal(copied.scorer.vectors(), mapped.scorer.vectors())


def test_a_run_in_one_piece_is_mapped_where_that_is_asked_for(toy_run, tmp_path):
    place = toy_run.save(tmp_path / "run")
    mapped = tuckerkg.load(place, mapped=True)
    assert (place / "tables").is_dir()
    assert torch.equal(scores_of(toy_run), scores_of(mapped))
    added = mapped.add([("e001", "plus1", "new")])
    assert len(added.entities) == 21
    assert added.predict("new", "plus1", k=3)


def test_small_tables_are_copied_where_nothing_is_said(tmp_path):
    folder = run_in_shards(tmp_path / "run", toy_dataset(), **SMALL)
    tuckerkg.load(folder.path)
    assert not (folder.path / "tables").exists()


def test_opening_a_mapped_table_takes_no_memory_for_it(tmp_path):
    folder = run_in_shards(tmp_path / "run", ring(125_000), 16, **{"model.dim": 400, "model.relation_dim": 4})
    table = 125_000 * 400 * 4 // 1024  # kB
    found = {}
    for how in ("chosen", "mapped", "copied"):  # first made, then found
        done = subprocess.run(
            [sys.executable, "-c", OPENING, str(folder.path), how], check=True, capture_output=True, text=True
        )
        found[how] = done.stdout.split()
    assert int(found["copied"][0]) > table
    assert int(found["mapped"][0]) < 0.4 * table  # labels are in it
    assert int(found["chosen"][0]) < 0.4 * table
    assert found["copied"][1] == found["mapped"][1] == found["chosen"][1]


@pytest.mark.parametrize("damage", ["flipped", "cut", "absent", "other weights", "half-written"])
def test_f20_a_damaged_or_stale_table_is_made_again(tmp_path, damage):
    folder = run_in_shards(tmp_path / "run", toy_dataset(), **SMALL)
    expected = scores_of(tuckerkg.load(folder.path, mapped=True))
    place = folder.path / "tables" / "step-00000001"
    table = place / "entities.f32"
    if damage == "flipped":
        data = bytearray(table.read_bytes())
        data[7] ^= 1
        table.write_bytes(data)
    elif damage == "cut":
        table.write_bytes(table.read_bytes()[:-4])
    elif damage == "absent":
        (place / "manifest.json").unlink()
    elif damage == "half-written":
        place.rename(place.with_name("step-00000001.tmp-1"))
    else:
        other = run_in_shards(tmp_path / "other", toy_dataset(), 4, **SMALL)
        expected = scores_of(tuckerkg.load(other.path, mapped=False))
        (other.path / "tables").mkdir()
        place.rename(other.path / "tables" / place.name)
        folder = other
    assert torch.equal(scores_of(tuckerkg.load(folder.path, mapped=True)), expected)
    assert torch.equal(scores_of(tuckerkg.load(folder.path, mapped=True)), expected)


def test_f09_a_damaged_shard_is_refused_when_the_table_is_made(tmp_path):
    folder = run_in_shards(tmp_path / "run", toy_dataset(), **SMALL)
    shard = folder.checkpoints.folder(1) / "shard-000003.safetensors"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    with pytest.raises(RunFolderError, match="SHA-256 differs"):
        tuckerkg.load(folder.path, mapped=True)


def test_a_table_that_cannot_be_written_is_copied_and_that_is_said(tmp_path, caplog):
    folder = run_in_shards(tmp_path / "run", toy_dataset(), **SMALL)
    (folder.path / "tables").write_text("in the way")
    with caplog.at_level(logging.WARNING, "tuckerkg"):
        run = tuckerkg.load(folder.path, mapped=True)
    assert "copied into memory instead of mapped" in caplog.text
    assert torch.equal(scores_of(run), scores_of(tuckerkg.load(folder.path, mapped=False)))


def test_b60_a_mapped_table_with_nan_is_refused(tmp_path):
    folder = run_in_shards(tmp_path / "run", toy_dataset(), **SMALL)
    tuckerkg.load(folder.path, mapped=True)
    place = folder.path / "tables" / "step-00000001"
    made_of = json.loads((place / "about.json").read_text())["made_of"]
    from tuckerkg.storage.sealed_folder import json_bytes, write_sealed

    table = np.fromfile(place / "entities.f32", dtype="<f4")
    table[3] = np.nan
    about = json_bytes({"made_of": made_of, "name": "entities", "shape": [20, 8]})
    write_sealed(place, {"entities.f32": table.tobytes(), "about.json": about})
    with pytest.raises(RunFolderError, match="NaN"):
        tuckerkg.load(folder.path, mapped=True)


def test_tables_of_former_checkpoints_are_removed(tmp_path):
    folder = run_in_shards(tmp_path / "run", toy_dataset(), **SMALL)
    (folder.path / "tables" / "step-00000007").mkdir(parents=True)
    tuckerkg.load(folder.path, mapped=True)
    assert [entry.name for entry in (folder.path / "tables").iterdir()] == ["step-00000001"]
    assert RunFolder.open(folder.path).checkpoints.steps() == [1]
