"""From a file to an explained prediction without a step by hand: RDF, CSV with its own columns, Parquet."""

from __future__ import annotations

import json

import polars as pl
import pytest
from graphs import data_folder, random_triples
from typer.testing import CliRunner

import tuckerkg
from tuckerkg.cli.app import app

SMALL = [
    "--set",
    "model.dim=16",
    "--set",
    "model.relation_dim=16",
    "--set",
    "train.epochs=1.0",
    "--set",
    "train.threads=1",
]


def said(*words: str) -> str:
    shown = CliRunner().invoke(app, list(words))
    assert shown.exit_code == 0, f"{words}\n{shown.output}\n{shown.exception!r}"
    return shown.stdout


def journey(file, out, reading: list[str]) -> dict:
    """Inspects, trains, predicts, explains; gives what was read."""
    found = json.loads(said("inspect", str(file), *reading, "--json"))
    said("train", str(file), "--out", str(out), *reading, *SMALL)
    run = tuckerkg.load(out)
    assert found["counts"]["train"] == len(run.split("train"))
    head, relation, tail = run.split("test")[0]
    names = run.entities.labels[head], run.relations.labels[relation], run.entities.labels[tail]
    answers = json.loads(said("predict", str(out), "--head", names[0], "--relation", names[1], "--format", "json"))
    assert answers
    why = json.loads(said("explain", str(out), *names, "-k", "2", "--json"))
    assert why["standing"]["rank"] >= 1
    assert why["edges"]
    return run.folder.report()


def test_aifb_from_its_rdf_file_to_an_explanation(tmp_path):
    report = journey(data_folder() / "aifb" / "aifb_fixed_complete.n3", tmp_path / "run", [])
    totals = report["totals"]
    assert totals["read"] == totals["kept"] + totals["rejected"] + totals["duplicates"] + totals["literals"]
    assert totals["literals"] > 0
    kept = sum(report["counts"][name] for name in ("train", "valid", "test"))
    assert kept == totals["kept"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_with_its_own_columns(tmp_path, suffix):
    triples = random_triples(7, 25, 3, 260)
    frame = pl.DataFrame(
        {
            "note": [f"row {row}" for row in range(len(triples) + 1)],
            "what": [f"does {r}" for r in triples[:, 1]] + [f"does {triples[0, 1]}"],
            "who": [f"person {h}" for h in triples[:, 0]] + [f"person {triples[0, 0]}"],
            "whom": [f"person {t}" for t in triples[:, 2]] + [f"person {triples[0, 2]}"],
        }
    )
    file = tmp_path / f"table{suffix}"
    frame.write_csv(file) if suffix == ".csv" else frame.write_parquet(file)
    totals = journey(file, tmp_path / "run", ["--columns", "who,what,whom"])["totals"]
    assert totals == {
        "read": len(triples) + 1,
        "kept": len(triples),
        "rejected": 0,
        "duplicates": 1,
        "literals": 0,
    }
