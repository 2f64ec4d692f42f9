"""The report of a run, its model card, the page on a graph, and exported vectors."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest
from graphs import toy_dataset
from typer.testing import CliRunner

import tuckerkg
from tuckerkg import api
from tuckerkg.cli.app import app
from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.export import check_export
from tuckerkg.reports.html import check_page, write_inspection, write_report
from tuckerkg.reports.inspection import inspect_dataset
from tuckerkg.reports.run_report import report_of
from tuckerkg.training.callbacks import NullCallback

HOSTILE = "<script>alert(1)</script>|`x`\u202e"


class Page(HTMLParser):
    """Collects tags and the text outside styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.addresses, self.text, self._style = [], [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        self._style = tag == "style"

    def handle_endtag(self, tag):
        self._style = False

    def handle_data(self, data):
        if not self._style:
            self.text.append(data)


@pytest.fixture(scope="module")
def hostile_run(tmp_path_factory):
    data = replace(toy_dataset(), entity_titles={f"e{i:03}": f"{HOSTILE}{i}" for i in range(20)})
    changes = {"model.dim": 8, "model.relation_dim": 8, "train.epochs": 4.0, "train.threads": 1}
    return api.train(data, out=tmp_path_factory.mktemp("hostile") / "run", overrides=changes, callback=NullCallback())


def test_the_report_holds_the_figures_of_the_evaluation(toy_run, tmp_path):
    found = report_of(toy_run)
    write_report(found, tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text())
    text = " ".join(page.text)
    assert f"{toy_run.evaluate('test').mrr:.4f}" in text
    assert f"{found.calibrated.ece:.4f}" in text
    assert all(part.name in text for part in found.relations)
    assert page.tags.count("img") == 3
    assert sum(part.queries for part in found.relations) == sum(part.queries for part in found.degrees) == 10


def test_a_page_loads_nothing_and_shows_hostile_labels_as_text(hostile_run, tmp_path):
    write_report(report_of(hostile_run), tmp_path / "report.html")
    raw = (tmp_path / "report.html").read_text()
    page = Page(raw)
    assert "script" not in page.tags
    assert all(address.startswith("data:image/svg+xml;base64,") for address in page.addresses)
    assert "<script>alert(1)</script>" in " ".join(page.text)
    assert "\u202e" not in raw
    for address in page.addresses:
        drawn = base64.b64decode(address.partition(",")[2])
        assert b"<svg" in drawn
        assert b"<script" not in drawn


def test_the_card_is_a_table_whatever_labels_hold(hostile_run, tmp_path):
    named = replace(report_of(hostile_run))
    write_report(named, tmp_path / "card.md")
    card = (tmp_path / "card.md").read_text()
    assert card.startswith("# run\n")
    assert f"| all | {named.test.mrr:.4f} |" in card
    rows = [line for line in card.splitlines() if line.startswith("|")]
    for line in rows:
        assert len(re.findall(r"(?<!\\)\|", line)) in (3, 4, 7), line
    assert "<script>" not in card


def test_an_example_says_where_the_held_out_answer_stands(toy_run):
    found = report_of(toy_run)
    assert len(found.examples) == 5
    ranks = toy_run.evaluate("test").ranks.random(0)[:5]
    assert sorted(example.rank for example in found.examples) == sorted(ranks.tolist())
    for example in found.examples:
        place = [fact.tail for fact in example.answers].index(example.answer) + 1 if example.rank <= 3 else None
        assert place is None or place == example.rank  # a success does not look like a failure
        assert all(not fact.known or fact.tail == example.answer for fact in example.answers)


def test_the_page_on_a_graph_tells_its_relations(tmp_path):
    found = inspect_dataset(toy_dataset())
    write_inspection(found, tmp_path / "graph.html")
    page = Page((tmp_path / "graph.html").read_text())
    assert all(each.name in " ".join(page.text) for each in found.relations)
    assert page.tags.count("img") == 2


@pytest.mark.parametrize("name", ["page.txt", "missing/page.html"])
def test_a_place_that_cannot_be_written_is_refused_first(tmp_path, name):
    with pytest.raises(TuckerkgError, match=r"must end in \.html|there is no folder"):
        check_page(tmp_path / name)


@pytest.mark.parametrize("what", ["entities", "encoded", "relations"])
@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_exported_vectors_are_those_of_the_model(hostile_run, tmp_path, what, suffix):
    path = tmp_path / f"vectors{suffix}"
    assert hostile_run.export(path, what) == path
    if suffix == ".npz":
        read = np.load(path)  # nothing pickled in it
        labels, vectors = read["labels"].tolist(), read["vectors"]
    else:
        frame = pl.read_parquet(path)
        labels, vectors = frame["label"].to_list(), frame["vector"].to_numpy()
    expected = {
        "entities": hostile_run.model.entities,
        "encoded": hostile_run.scorer.entities,
        "relations": hostile_run.model.relations,
    }[what]
    assert vectors.shape == ((6 if what == "relations" else 20), 8)
    assert np.array_equal(vectors, expected.detach().numpy())
    assert hostile_run.vectors(what)["label"].to_list() == labels
    assert labels[:2] == (["plus1", "plus2"] if what == "relations" else ["e000", "e001"])
    assert what != "relations" or labels[3:] == ["plus1^-1", "plus2^-1", "plus3^-1"]


@pytest.mark.parametrize(("name", "what"), [("v.csv", "encoded"), ("v.npz", "everything"), ("no/v.npz", "encoded")])
def test_an_export_that_cannot_be_is_refused(toy_run, tmp_path, name, what):
    with pytest.raises(TuckerkgError, match=r"must end in|expected entities|there is no folder"):
        toy_run.export(tmp_path / name, what)
    with pytest.raises(TuckerkgError, match=r"must end in|expected entities|there is no folder"):
        check_export(tmp_path / name, what)


def test_the_commands(toy_run, tmp_path):
    def said(*arguments):
        shown = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert shown.exit_code == 0, shown.output
        return shown.stdout

    assert "written" in said("report", toy_run.path, "--out", tmp_path / "r.html")
    assert "written" in said("report", toy_run.path, "--out", tmp_path / "card.md")
    assert "20 vectors of width 8" in said("export", toy_run.path, tmp_path / "v.parquet")
    said("inspect", "countries", "--html", tmp_path / "i.html")
    assert "<h1>countries</h1>" in (tmp_path / "i.html").read_text()
    assert tuckerkg.load(toy_run.path).version == 1
