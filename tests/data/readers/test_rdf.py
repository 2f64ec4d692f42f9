"""RDF in every form that is read: labels, literals, blank nodes, titles, what is refused and where (B48 to B52)."""

from __future__ import annotations

import gzip
import os
import socket
import tarfile
from pathlib import Path

import pytest
from graphs import data_folder

from tuckerkg.data.load import load
from tuckerkg.data.readers.bytes import FileBytes
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.readers.rdf import LABEL, local_name, read_statements
from tuckerkg.data.readers.read import read_rows
from tuckerkg.errors import InputError

NT = """<http://x/a> <http://x/knows> <http://x/b> .
# a comment

<http://x/b> <http://x/knows> _:who .
<http://x/a> <http://x/age> "42"^^<http://www.w3.org/2001/XMLSchema#integer> .
"""
TTL = """@prefix x: <http://x/> .
x:a x:knows x:b ; x:age 42 .
x:b x:knows _:who .
"""
XML = """<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="http://x/">
  <rdf:Description rdf:about="http://x/a"><x:knows rdf:resource="http://x/b"/><x:age>42</x:age></rdf:Description>
  <rdf:Description rdf:about="http://x/b"><x:knows rdf:nodeID="who"/></rdf:Description>
</rdf:RDF>
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def facts(rows):
    return {rows.triple(row) for row in range(len(rows.line_numbers))}


@pytest.mark.parametrize(
    ("name", "text"),
    [("g.nt", NT), ("g.nq", NT), ("g.ttl", TTL), ("g.n3", TTL), ("g.trig", TTL), ("g.rdf", XML), ("g.owl", XML)],
)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_the_same_graph_in_every_format(tmp_path, name, text, ending):
    rows = read_rows(written(tmp_path, name + ending, text))
    assert facts(rows) == {("http://x/a", "http://x/knows", "http://x/b"), ("http://x/b", "http://x/knows", "_:g-1")}
    assert (rows.literals, rows.read) == (1, 3)


def test_b48_literals_are_counted_or_kept(tmp_path):
    path = written(tmp_path, "g.ttl", TTL)
    report = load(path, split=None).report
    assert report.read == report.kept + report.rejected + report.duplicates + report.literals == 3
    assert "1 literals left out" in report.lines()[0]
    kept = read_rows(path, ReadOptions(keep_literals=True))
    assert ("http://x/a", "http://x/age", '"42"^^<http://www.w3.org/2001/XMLSchema#integer>') in facts(kept)
    assert kept.literals == 0


def test_b48_a_file_of_literals_alone_says_so(tmp_path):
    with pytest.raises(InputError, match="--keep-literals"):
        read_rows(written(tmp_path, "g.nt", NT.splitlines()[-1] + "\n"))


def test_b49_blank_nodes_are_the_same_whenever_a_file_is_read_and_differ_between_files(tmp_path):
    text = "@prefix x: <http://x/> .\n_:z x:p [] . [] x:p _:z .\n"
    first, again = (facts(read_rows(written(tmp_path, "one.ttl", text))) for _ in range(2))
    assert first == again == {("_:one-1", "http://x/p", "_:one-2"), ("_:one-3", "http://x/p", "_:one-1")}
    assert facts(read_rows(written(tmp_path, "two.ttl", text))).isdisjoint(first)


def test_b50_declared_entities_are_refused_and_never_expanded(tmp_path):
    bomb = '<!DOCTYPE r [\n<!ENTITY a "ha">\n<!ENTITY b "&a;&a;">]>\n'
    outside = '<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]>\n'
    for declared in (bomb, outside):
        with pytest.raises(InputError, match=r"g\.rdf:[23]:1: .*not expanded"):
            read_rows(written(tmp_path, "g.rdf", XML.replace("?>\n", "?>\n" + declared, 1)))


def test_b51_nothing_is_fetched(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    text = "<http://x/a> <http://www.w3.org/2002/07/owl#imports> <http://example.com/other.ttl> .\n"
    assert len(facts(read_rows(written(tmp_path, "g.nt", text)))) == 1
    with pytest.raises(InputError, match="jsonld files are not read"):
        read_rows(written(tmp_path, "g.jsonld", '{"@context": "http://example.com/c"}'))


def test_b52_turtle_in_a_file_named_nt_is_told_with_line_and_remedy(tmp_path):
    with pytest.raises(InputError, match=r"g\.nt:1:.*looks like Turtle.*\.ttl"):
        read_rows(written(tmp_path, "g.nt", TTL))


@pytest.mark.parametrize("name", ["g.nt", "g.nq", "g.ttl", "g.n3"])
def test_errors_name_their_line(tmp_path, name):
    text = "<http://x/a> <http://x/p> <http://x/b> .\n<http://x/a> oops .\n"
    with pytest.raises(InputError, match=rf"{name}:2:"):
        read_rows(written(tmp_path, name, text))


@pytest.mark.parametrize("text", ["<rdf:RDF>", "<html></p>", "", XML.replace("</rdf:RDF>", ""), XML[:200]])
def test_xml_that_is_broken_or_cut_off_is_refused_with_its_line(tmp_path, text):
    with pytest.raises(InputError, match=r"g\.rdf:\d+:\d+: not well-formed XML|empty"):
        read_rows(written(tmp_path, "g.rdf", text))


def test_xml_that_is_no_rdf_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"g\.rdf: .*namespaces"):
        read_rows(written(tmp_path, "g.rdf", "<html></html>"))


def test_bad_lines_of_n_triples_can_be_set_aside(tmp_path):
    path = written(tmp_path, "g.nt", NT + "<http://x/a> oops .\n<http://x/c> <http://x/knows> <http://x/a> .\n")
    with pytest.raises(InputError, match="--on-error=skip"):
        read_rows(path)
    rows = read_rows(path, ReadOptions(on_error="skip"))
    assert [reject.problem.line for reject in rows.rejects] == [6]
    assert rows.read == 5
    assert rows.line_numbers.tolist() == [1, 4, 7]


def test_lines_are_counted_past_comments_and_blank_lines(tmp_path):
    assert read_rows(written(tmp_path, "g.nt", NT)).line_numbers.tolist() == [1, 4]


def test_a_statement_about_a_statement_is_a_bad_row(tmp_path):
    text = NT + "<http://x/a> <http://x/says> <<( <http://x/a> <http://x/p> <http://x/b> )>> .\n"
    with pytest.raises(InputError, match="statement about a statement"):
        read_rows(written(tmp_path, "g.nt", text))


def test_named_graphs_are_read_as_one_and_told(tmp_path):
    text = (
        "<http://x/a> <http://x/p> <http://x/b> <http://g/1> .\n<http://x/b> <http://x/p> <http://x/a> <http://g/2> .\n"
    )
    assert read_rows(written(tmp_path, "g.nq", text)).notes == ("2 named graphs read as one",)


def test_titles_come_from_labels_names_and_the_ends_of_iris(tmp_path):
    text = f"""
    <http://x/a> <http://x/knows> <http://x/b> , <http://x/c#d> .
    <http://x/a> <http://x/name> "Anna" ; <{LABEL}> "Anne"@fr , "Ann"@en .
    <http://x/b> <http://xmlns.com/foaf/0.1/name> "Bob" .
    """
    data = load(written(tmp_path, "g.ttl", text), split=None)
    assert dict(data.entity_titles) == {"http://x/a": "Ann", "http://x/b": "Bob", "http://x/c#d": "d"}
    assert dict(data.relation_titles) == {"http://x/knows": "knows"}


@pytest.mark.parametrize(
    ("label", "name"), [("http://x/a/", "a"), ("http://x/y#z", "z"), ("_:g-1", None), ("plain", None)]
)
def test_local_names(label, name):
    assert local_name(label) == name


def test_a_folder_of_rdf_splits_is_a_dataset(tmp_path):
    for split, end in (("train", "b"), ("valid", "c"), ("test", "d")):
        lines = [f"<http://x/{end}> <http://x/p> <http://x/a> .\n"]
        if split == "train":
            lines += [f"<http://x/{other}> <http://x/p> <http://x/b> .\n" for other in "acd"]
        written(tmp_path, f"{split}.nt", "".join(lines))
    data = load(tmp_path)
    assert (len(data.train), len(data.valid), len(data.test)) == (4, 1, 1)


def test_aifb_is_read_whole():
    path = data_folder() / "aifb" / "aifb_fixed_complete.n3"
    data = load(path)
    report = data.report
    assert report.read == report.kept + report.rejected + report.duplicates + report.literals
    assert report.literals > 0
    assert len(data.train) + len(data.valid) + len(data.test) == report.kept
    assert "Rudi Studer" in data.entity_titles.values()


@pytest.fixture(scope="module")
def suites(tmp_path_factory) -> Path:
    """The W3C's suites, out of the source package that the test command fetched."""
    (archive,) = Path(os.environ["TUCKERKG_W3C"]).glob("rdflib-*.tar.gz")  # `make test-peers` sets it
    folder = tmp_path_factory.mktemp("w3c")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (found,) = folder.glob("rdflib-*/test/data/suites/w3c")
    return found


@pytest.mark.peers
@pytest.mark.parametrize("suite", ["ntriples", "turtle"])
def test_the_w3cs_syntax_suites(suites, suite):
    import pyoxigraph

    folder = suites / suite
    base = f"file://{folder}/"
    kinds: dict[str, str] = {}
    actions: dict[str, str] = {}
    for quad in pyoxigraph.parse(path=str(folder / "manifest.ttl"), base_iri=base):
        if quad.predicate.value.endswith("#type"):
            kinds[quad.subject.value] = quad.object.value.rpartition("#")[2]
        if quad.predicate.value.endswith("#action"):
            actions[quad.subject.value] = quad.object.value.removeprefix(base)
    counts = {"positive": 0, "negative": 0}
    for test, action in actions.items():
        path = folder / action
        content = FileBytes(str(path), "", path.read_bytes())
        if "Negative" in kinds[test]:
            counts["negative"] += 1
            with pytest.raises(InputError, match=rf"{path.name}:\d+"):
                read_statements(content)
        else:
            counts["positive"] += 1
            read_statements(content)
    assert min(counts.values()) > 20, counts
