"""Facts added to a run: versions beside the trained run, rows for new entities, every row of the file accounted for."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from graphs import toy_dataset
from typer.testing import CliRunner

import tuckerkg
from tuckerkg import api
from tuckerkg.cli.app import app
from tuckerkg.errors import InputError, RunFolderError, TuckerkgError
from tuckerkg.inference.adding.add_facts import add_facts, with_new_entities
from tuckerkg.inference.adding.fold_in import start_rows
from tuckerkg.storage.versions import version_numbers
from tuckerkg.training.callbacks import NullCallback

SETTINGS = {"model.dim": 16, "model.relation_dim": 16, "train.epochs": 40.0, "train.threads": 1}


@pytest.fixture(scope="module", params=[{"encoder": "none"}, {"encoder": "tgcn"}, {"model.bias": "free"}], ids=str)
def trained(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    return api.train(toy_dataset(), out=folder, overrides=SETTINGS | request.param, callback=NullCallback()).path


@pytest.fixture
def run_path(trained, tmp_path):
    """A copy of a trained run, to be changed."""
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def written(tmp_path, text):
    path = tmp_path / "new.tsv"
    path.write_text(text, encoding="utf-8")
    return path


NEWCOMER = "fresh\tplus1\te005\nfresh\tplus2\te006\ne003\tplus1\tfresh\ne002\tplus2\tfresh\n"


def test_a_new_entity_can_be_asked_about_and_the_old_run_stays(run_path, tmp_path):
    before = tuckerkg.load(run_path)
    old = {name: tensor.clone() for name, tensor in before.model.state_dict().items()}
    done = add_facts(before, written(tmp_path, NEWCOMER))
    assert (done.version, done.facts, done.entities, done.known) == (2, 4, 1, 0)
    after = tuckerkg.load(run_path)
    assert after.version == 2
    assert len(after.entities) == 21
    for name, tensor in after.model.state_dict().items():
        kept = tensor[:20] if name in ("entities", "bias") else tensor
        assert torch.equal(kept, old[name]), name
    answers = after.predict(head="fresh", relation="plus1", k=21, known=True)
    assert {"e005"} == {fact.tail for fact in answers if fact.known}
    assert any(fact.head == "fresh" for fact in after.predict(relation="plus2", tail="e006", k=21, known=True))
    assert tuckerkg.load(f"{run_path}@1").version == 1
    assert len(tuckerkg.load(run_path, version=1).entities) == 20


def test_training_the_row_puts_its_facts_higher_than_the_start(run_path, tmp_path):
    file = written(tmp_path, NEWCOMER)
    add_facts(tuckerkg.load(run_path), file, steps=0)
    add_facts(tuckerkg.load(run_path, version=None), written(tmp_path, NEWCOMER.replace("fresh", "other")))
    run = tuckerkg.load(run_path)
    assert run.version == 3
    shares = {}
    for name in ("fresh", "other"):
        heads, relation_ids = torch.tensor([run.entities.id_of(name)] * 2), torch.tensor([0, 1])
        scores = run.scorer.scores(heads, relation_ids)
        tails = torch.tensor([[run.entities.id_of("e005")], [run.entities.id_of("e006")]])
        shares[name] = float(torch.log_softmax(scores, 1).gather(1, tails).sum())
    assert shares["other"] > shares["fresh"]


def test_the_start_is_the_mean_of_those_in_the_same_places():
    entities = torch.randn(4, 3, dtype=torch.double)
    # 0 and 1 are heads of relation 0, 2 is its tail; the new entity 4 is a head of 0, the new entity 5 a tail of 1
    triples = np.array([[0, 0, 2], [1, 0, 2], [4, 0, 2], [0, 1, 5]])
    rows = start_rows(entities, triples, 4, 2)
    assert torch.allclose(rows[0], entities[:2].mean(0))
    assert torch.allclose(rows[1], entities.mean(0))  # nobody else is a tail of relation 1


def test_facts_among_known_entities_enter_the_messages_and_what_is_known(run_path, tmp_path):
    before = tuckerkg.load(run_path)
    held = [
        (before.entities.labels[h], before.relations.labels[r], before.entities.labels[t])
        for h, r, t in before.split("test")[:2].tolist()
    ]
    done = add_facts(before, written(tmp_path, "".join("\t".join(fact) + "\n" for fact in held)))
    assert (done.facts, done.held_out, done.entities) == (2, 2, 0)
    after = tuckerkg.load(run_path)
    assert len(after.split("train")) == len(before.split("train")) + 2
    assert all(after.predict(head=h, relation=r, k=20, known=True) for h, r, _ in held)
    if after.uses_messages:
        assert not torch.equal(after.scorer.entities, before.scorer.entities)


def test_every_row_is_accounted_for(run_path, tmp_path):
    run = tuckerkg.load(run_path)
    head, relation, tail = run.split("train")[0]
    known = "\t".join([run.entities.labels[head], run.relations.labels[relation], run.entities.labels[tail]])
    done = add_facts(run, written(tmp_path, f"{NEWCOMER}{known}\nfresh\tplus1\te005\n"))
    assert done.read == 6
    assert (done.facts, done.known, done.repeated, done.rejected, done.literals) == (4, 1, 1, 0, 0)


def test_versions_follow_one_another(run_path, tmp_path):
    add_facts(tuckerkg.load(run_path), written(tmp_path, NEWCOMER))
    first = tuckerkg.load(run_path)
    add_facts(first, written(tmp_path, "second\tplus1\tfresh\nsecond\tplus2\te005\n"))
    run = tuckerkg.load(run_path)
    assert version_numbers(run_path) == [1, 2, 3]
    assert run.entities.labels[-2:] == ["fresh", "second"]
    assert torch.equal(run.model.entities[20], first.model.entities[20])  # what was added before keeps its row
    with pytest.raises(TuckerkgError, match="version 2 is not the newest"):
        add_facts(tuckerkg.load(run_path, version=2), written(tmp_path, NEWCOMER))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fresh\tplus9\te001\n", r"new\.tsv:1.*no relation 'plus9'.*Nearest: 'plus"),
        ("e001\tplus1\te003\nlost\tplus1\tgone\n", r"new\.tsv:2.*'lost' is linked to no entity"),
        ("e001\tplus1\n", r"new\.tsv:1"),
    ],
)
def test_what_cannot_be_added_is_refused_with_its_line(run_path, tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        add_facts(tuckerkg.load(run_path), written(tmp_path, text))
    assert version_numbers(run_path) == [1]


def test_nothing_new_makes_no_version(run_path, tmp_path):
    add_facts(tuckerkg.load(run_path), written(tmp_path, NEWCOMER))
    with pytest.raises(TuckerkgError, match="all 4 facts are in the run already"):
        add_facts(tuckerkg.load(run_path), written(tmp_path, NEWCOMER))
    assert version_numbers(run_path) == [1, 2]


def test_a_version_that_is_missing_damaged_or_of_other_weights_is_refused(run_path, tmp_path):
    add_facts(tuckerkg.load(run_path), written(tmp_path, NEWCOMER))
    with pytest.raises(RunFolderError, match="has no version 7; it has 1, 2"):
        tuckerkg.load(f"{run_path}@7")
    rows = run_path / "versions" / "version-0002" / "rows.safetensors"
    rows.write_bytes(rows.read_bytes()[:-1] + b"x")
    with pytest.raises(RunFolderError, match="SHA-256 differs"):
        tuckerkg.load(run_path)
    assert tuckerkg.load(run_path, version=1).version == 1


def test_a_grown_model_scores_the_old_entities_as_before(run_path):
    run = tuckerkg.load(run_path)
    facts = np.concatenate([run.split("train"), [[20, 0, 3]]])
    model = with_new_entities(run, run.model, facts, 1)
    assert model.num_entities == 21
    assert torch.equal(model.entities[:20], run.model.entities)


def test_the_command_says_what_became_of_the_rows(run_path, tmp_path):
    file = written(tmp_path, NEWCOMER)
    shown = CliRunner().invoke(app, ["add", str(run_path), str(file)])
    assert shown.exit_code == 0, shown.output
    assert "4 rows read: 4 facts added" in shown.stdout.replace("\n", " ")
    assert "version 2" in shown.stdout
    more = written(tmp_path, "second\tplus1\tfresh\n")
    parsed = json.loads(CliRunner().invoke(app, ["add", str(run_path), str(more), "--json"]).stdout)
    assert parsed["version"] == 3
    asked = ["predict", str(run_path), "--head", "second", "--relation", "plus2", "--format", "json"]
    assert json.loads(CliRunner().invoke(app, asked).stdout)
    old = CliRunner().invoke(app, ["predict", f"{run_path}@1", "--head", "fresh", "--relation", "plus1"])
    assert old.exit_code != 0
