"""Labels, sets of graphs, literals as features, and relations that say the label."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from people import write_molecules, write_people

from tuckerkg.config.settings import parse_settings
from tuckerkg.config.toml import put_all
from tuckerkg.errors import InputError, TuckerkgError
from tuckerkg.tasks.choosing import base_settings
from tuckerkg.tasks.classify import LabelOptions, cross_validate, read_task_files, train_task
from tuckerkg.tasks.reading.graph_sets import is_tu_folder, read_graph_column, read_tu
from tuckerkg.tasks.reading.literals import literal_features
from tuckerkg.tasks.task import TEST, TRAIN, stratified_folds


def read(graph, labels, **options):
    return read_task_files(str(graph), LabelOptions(labels=labels, target="group", **options))


def test_the_column_of_the_items_is_found_and_a_fifth_of_each_class_is_held_out(tmp_path):
    found = read(*write_people(tmp_path))
    assert found.task.classes == ("blue", "red")
    assert len(found.task.labelled) == 40
    held = found.task.label[found.task.part == TEST]
    assert torch.bincount(held).tolist() == [4, 4]
    assert {found.nodes[item] for item in found.task.labelled.tolist()} == {f"p{number:02}" for number in range(40)}


def test_a_second_file_of_labels_is_held_out_and_must_not_share_items(tmp_path):
    graph, labels = write_people(tmp_path)
    lines = labels.read_text().splitlines()
    train, test = tmp_path / "train.tsv", tmp_path / "test.tsv"
    train.write_text("\n".join(lines[:31]) + "\n")
    test.write_text("\n".join([lines[0], *lines[31:]]) + "\n")
    found = read(graph, train, test_labels=test)
    held, _ = found.task.of_part(TEST)
    assert [found.nodes[item] for item in held.tolist()] == [line.split("\t")[0] for line in lines[31:]]
    test.write_text("\n".join([lines[0], *lines[30:]]) + "\n")
    with pytest.raises(TuckerkgError, match="1 items are in both files"):
        read(graph, train, test_labels=test)


def test_a_column_may_say_what_is_held_out(tmp_path):
    graph, labels = write_people(tmp_path)
    parts = ["split", *["test"] * 6, *["train"] * 34]
    lines = [f"{line}\t{part}" for line, part in zip(labels.read_text().splitlines(), parts, strict=True)]
    labels.write_text("\n".join(lines) + "\n")
    assert int((read(graph, labels, split="split").task.part == TEST).sum()) == 6


def test_a_column_may_name_the_parts_of_a_cross_validation(tmp_path):
    graph, labels = write_people(tmp_path)
    folds = ["part", *(f"f{number // 2 % 4}" for number in range(40))]
    lines = [f"{line}\t{fold}" for line, fold in zip(labels.read_text().splitlines(), folds, strict=True)]
    labels.write_text("\n".join(lines) + "\n")
    found = read(graph, labels, fold="part")
    assert found.fold.tolist() == [number // 2 % 4 for number in range(40)]
    small = {"model.dim": 4, "model.relation_dim": 4, "train.epochs": 1.0, "train.threads": 1, "classify.members": 2}
    runs = cross_validate(found, "rgcn", overrides=small)
    held = [run.task.labelled[run.task.part == TEST].tolist() for run in runs]
    assert held == [found.task.labelled[found.fold == number].tolist() for number in range(4)]
    labels.write_text("\n".join([f"{lines[0]}\tsplit", *(f"{line}\ttrain" for line in lines[1:])]) + "\n")
    with pytest.raises(TuckerkgError, match="has one value"):
        read(graph, labels, fold="split")
    with pytest.raises(TuckerkgError, match="leave out --test-labels and --split-column"):
        read(graph, labels, fold="part", split="split")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [*lines, "nobody\tred"], "people.tsv:42: there is no 'nobody' in the graph"),
        (lambda lines: [*lines, "p03\tred"], "people.tsv:42: 'p03' has a label in line 5 already"),
        (lambda lines: [lines[0], "p00\t", *lines[2:]], "people.tsv:2: 'p00' has no label"),
        (lambda lines: [lines[0].replace("group", "team"), *lines[1:]], "has no column 'group'"),
        (lambda lines: [lines[0], *(f"x{line}" for line in lines[1:])], "no column names things of the graph"),
        (lambda lines: [lines[0], *(line.replace("red", "blue") for line in lines[1:])], "has one value, blue"),
        (lambda lines: [*lines[:40], "p39\tgreen"], "1 of 3 classes have fewer than 2 labels"),
        (lambda lines: lines[:1], "has no row"),
    ],
)
def test_bad_labels_are_refused_with_their_line(tmp_path, change, said):
    graph, labels = write_people(tmp_path)
    labels.write_text("\n".join(change(labels.read_text().splitlines())) + "\n")
    with pytest.raises(TuckerkgError) as refused:
        read(graph, labels)
    assert said in str(refused.value)


def test_a_relation_that_says_the_label_is_left_out_and_said(tmp_path):
    graph, labels = write_people(tmp_path, own_edge=True)
    found = read(graph, labels)
    employs = found.relations.index("employs")
    assert employs not in found.task.triples[:, 1]
    assert {found.relations[number] for number in found.task.triples[:, 1]} == {"works_on", "lives_in", "knows"}
    (said,) = found.task.notes["said"]
    assert "relation employs to 100% of the labelled nodes says their class (100%) and is left out" in said
    kept = read(graph, labels, keep_own_edges=True)
    assert employs in kept.task.triples[:, 1]
    assert "is KEPT" in kept.task.notes["said"][0]


def test_a_relation_that_only_hints_at_the_label_stays(tmp_path):
    graph, labels = write_people(tmp_path, own_edge=True)
    exceptions = ("p00", "p10", "p20")
    turned = [
        line.replace("blue_team", "red_team") if line.endswith(exceptions) else line
        for line in graph.read_text().splitlines()
    ]
    graph.write_text("\n".join(turned) + "\n")
    assert read(graph, labels).task.notes["said"] == []


def test_literals_become_numbers_categories_and_words():
    number = '"2.5"^^<http://www.w3.org/2001/XMLSchema#double>'
    entities = ['"1.5"', number, '"a long story"@en', '"off"', '"on"', "x", "y", "z"]
    entities += [f'"text number {number} of many"' for number in range(30)]
    triples = [(5, 0, 0), (6, 0, 1), (5, 1, 3), (6, 1, 4), (7, 3, 2), (5, 2, 6)]
    triples += [(7, 3, 8 + number) for number in range(30)]
    found = literal_features(np.array(triples), entities, ["size", "state", "likes", "about"])
    assert found.kept.tolist() == [[5, 2, 6]]
    named = dict(zip(found.names, found.values.T, strict=True))
    assert named["size (number)"][[5, 6, 7]].tolist() == [-1.0, 1.0, 0.0]  # standardized
    assert named["size (given)"][[5, 6, 7]].tolist() == [1.0, 1.0, 0.0]
    assert named["state = on"][[5, 6]].tolist() == [0.0, 1.0]
    words = found.values[7, [place for place, name in enumerate(found.names) if name.startswith("words")]]
    assert words.norm() == pytest.approx(1.0)
    assert found.values[5, -64:].abs().sum() == 0.0


def test_a_table_of_numbers_becomes_features(tmp_path):
    graph, labels = write_people(tmp_path)
    table = tmp_path / "ages.csv"
    table.write_text("age,person,height\n" + "".join(f"{20 + n},p{n:02},1.8\n" for n in range(10)) + "3,nobody,1.8\n")
    found = read(graph, labels, features=table)
    ages = np.array([*range(20, 30), 3.0])
    own = found.task.features[[found.nodes.index(f"p{n:02}") for n in range(10)]]
    assert own[:, 0].tolist() == pytest.approx(((ages - ages.mean()) / ages.std())[:10], abs=1e-6)
    assert own[:, 1].tolist() == [0.0] * 10  # all are as tall
    assert found.task.features[found.nodes.index("p10")].tolist() == [0.0, 0.0]
    refused = [(f"person,age\np00,{bad}\n", "every column but 'person' must hold") for bad in ("old", "nan", "")]
    for text, said in [*refused, ("x,y\n1,2\n", "no column names nodes")]:
        table.write_text(text)
        with pytest.raises(TuckerkgError, match=said):
            read(graph, labels, features=table)


def test_literals_of_a_graph_become_features_that_tell_classes(tmp_path):
    graph, labels = tmp_path / "graph.nt", tmp_path / "people.tsv"
    lines = [f'<http://x/p{n}> <http://x/age> "{20 + 30 * (n % 2) + n % 3}" .' for n in range(30)]
    lines += [f"<http://x/p{n}> <http://x/knows> <http://x/p{(n + 7) % 30}> ." for n in range(30)]
    graph.write_text("\n".join(lines) + "\n")
    labels.write_text("item\tgroup\n" + "".join(f"http://x/p{n}\t{'old' if n % 2 else 'young'}\n" for n in range(30)))
    found = read(graph, labels, literals="features")
    assert found.task.notes["features"] == ["http://x/age (number)", "http://x/age (given)"]
    assert len(found.task.triples) == 30
    values = {**base_settings("nodes", "toy", 0, {"name": "rgcn"}), "classify": {"members": 2}}
    run = train_task(found, parse_settings(put_all(values, {"train.epochs": 40.0, "classify.least": 50})))
    assert run.evaluate("valid").judgement.accuracy > 0.9
    none = read(graph, labels, literals="none")
    assert (none.task.features, len(none.task.triples)) == (None, 30)


def test_attributes_of_a_tu_folder_are_features(tmp_path):
    place = write_molecules(tmp_path)
    nodes = len(read_tu(place).nodes)
    file = place / "TOY_node_attributes.txt"
    file.write_text("".join(f"{n}.5, {-n}\n" for n in range(nodes)))
    task = read_task_files(str(place), LabelOptions()).task
    assert task.features.tolist() == [[n + 0.5, -n] for n in range(nodes)]
    file.write_text("1.0\n")
    with pytest.raises(InputError, match="has 1 rows"):
        read_tu(place)


def test_a_folder_in_the_tu_format(tmp_path):
    place = write_molecules(tmp_path)
    assert is_tu_folder(place)
    found = read_tu(place)
    assert (len(found.graphs), len(found.nodes), found.edges_stand_twice) == (20, len(found.graph_of), True)
    assert found.graph_of[found.triples[:, 0]].tolist() == found.graph_of[found.triples[:, 2]].tolist()
    task = read_task_files(str(place), LabelOptions()).task
    assert (task.kind, task.classes, task.inverses) == ("graphs", ("-1", "1"), False)


@pytest.mark.parametrize(
    ("part", "text", "said"),
    [
        ("A", "1, 2\nx, 3\n", "A.txt:2: 'x, 3' is no number"),
        ("A", "1, 2\n1, 9999\n", "A.txt:2: names node 9999"),
        ("A", "1, 6\n", "A.txt:1: joins nodes of two graphs"),
        ("node_labels", "1\n2\n", "has 2 rows"),
        ("graph_indicator", "", "has no row"),
        ("graph_labels", None, "is missing from the set"),
    ],
)
def test_a_bad_set_of_graphs_is_refused_with_file_and_line(tmp_path, part, text, said):
    file = write_molecules(tmp_path) / f"TOY_{part}.txt"
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    with pytest.raises(InputError) as refused:
        read_tu(file.parent)
    assert said in str(refused.value)


def test_one_file_of_many_graphs(tmp_path):
    file = tmp_path / "graphs.tsv"
    rows = ["graph\thead\trelation\ttail\thead_type\ttail_type"]
    rows += [f"g{number}\ta\t{'r' if number % 2 else 's'}\tb\tC\tO" for number in range(10)]
    file.write_text("\n".join(rows) + "\n")
    found = read_graph_column(file, "graph")
    assert len(found.graphs) == 10
    assert found.nodes[:2] == ("g0/a", "g0/b")
    assert found.node_types.tolist() == [0, 1] * 10
    with pytest.raises(InputError, match="has no column 'which'"):
        read_graph_column(file, "which")
    file.write_text("graph\thead\trelation\ttail\ng0\ta\t\tb\n")
    with pytest.raises(InputError, match=r"graphs\.tsv:2: relation is empty"):
        read_graph_column(file, "graph")


def test_folds_are_even_in_every_class():
    label = torch.tensor([0] * 17 + [1] * 8 + [2] * 3)
    fold = stratified_folds(label, 5, seed=3)
    assert torch.equal(fold, stratified_folds(label, 5, seed=3))
    for number in range(3):
        counts = torch.bincount(fold[label == number], minlength=5)
        assert counts.max() - counts.min() <= 1
    assert torch.bincount(fold, minlength=5).max() <= 6
    assert (TRAIN, TEST) == (0, 1)
