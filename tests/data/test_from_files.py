"""Vocabulary and dataset, by the id of the promise each test keeps."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from graphs import GRAPH, Ids, data_folder
from hypothesis import given, settings
from hypothesis import strategies as st

from tuckerkg.data.dataset import Dataset
from tuckerkg.data.labels import Vocabulary
from tuckerkg.data.read_report import FileReport, near_inverses
from tuckerkg.data.readers import read as reading
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.triple_sets import add_inverses, is_among, keyed_triples, triple_keys
from tuckerkg.errors import InputError, TuckerkgError, UnknownNameError

Named = tuple[str, str, str]


def put(folder: Path, name: str, rows: list[Named], end: str = "\n") -> Path:
    path = folder / name
    path.write_bytes("".join("\t".join(row) + end for row in rows).encode())
    return path


def names(dataset: Dataset, split: str = "train") -> set[Named]:
    found = dataset.split(split).tolist()
    return {(dataset.entities[h], dataset.relations[r], dataset.entities[t]) for h, r, t in found}


TRAIN = [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "a"), ("a", "s", "c")]
VALID = [("a", "r", "c")]
TEST = [("b", "s", "a")]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    parts = {"train": TRAIN, "valid": VALID, "test": TEST}
    return {name: put(tmp_path, f"{name}.tsv", rows) for name, rows in parts.items()}


def test_a_dataset_holds_what_the_files_say(files: dict[str, Path]) -> None:
    dataset = Dataset.from_files(**files)
    assert dataset.entities.labels == ("a", "b", "c")
    assert dataset.relations.labels == ("r", "s")
    assert dataset.train.dtype == np.int64
    assert dataset.train.tolist() == [[0, 0, 1], [1, 0, 2], [2, 1, 0], [0, 1, 2]]
    assert (names(dataset, "valid"), names(dataset, "test")) == (set(VALID), set(TEST))
    assert dataset.name == "train"
    with pytest.raises(UnknownNameError, match="Did you mean 'test'"):
        dataset.split("tset")


def test_b01_crlf_gives_the_same_ids(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "crlf").mkdir()
    crlf = put(tmp_path / "crlf", "train.tsv", TRAIN, "\r\n")
    plain, other = Dataset.from_files(files["train"], split=None), Dataset.from_files(crlf, split=None)
    assert plain.entities.sha256 == other.entities.sha256
    assert np.array_equal(plain.train, other.train)


def test_b11_padded_labels_are_kept_and_counted(tmp_path: Path) -> None:
    rows = [(" a", "r", "b "), ("a", "r", "b"), ("a", "r ", "c")]
    dataset = Dataset.from_files(put(tmp_path, "t.tsv", rows), split=None)
    assert names(dataset) == set(rows)
    assert dataset.report.counts["padded_labels"] == 3
    assert any("3 labels begin or end with white space" in warning for warning in dataset.report.warnings)


def test_b21_look_alikes_are_distinct_and_warned_about(tmp_path: Path) -> None:
    dataset = Dataset.from_files(
        put(tmp_path, "t.tsv", [("caf\u00e9", "r", "cafe\u0301"), ("x", "r", "y")]), split=None
    )
    assert len(dataset.entities) == 4
    assert dataset.report.counts["look_alikes"] == 1
    assert any("\\xe9" in warning and "\\u0301" in warning for warning in dataset.report.warnings)


def test_b22_invisible_characters_are_escaped_in_the_report(tmp_path: Path) -> None:
    dataset = Dataset.from_files(put(tmp_path, "t.tsv", [("a\u202eb", "r\x1b[31m", "c\u200b")]), split=None)
    assert dataset.report.counts["hidden_characters"] == 3
    shown = "\n".join(dataset.report.lines())
    assert all(character not in shown for character in "\u202e\x1b\u200b")
    with pytest.raises(UnknownNameError) as caught:
        dataset.entities.id_of("a\u202ec")
    assert "\u202e" not in str(caught.value)


def test_b27_duplicates_are_counted_and_the_balance_holds(tmp_path: Path) -> None:
    dataset = Dataset.from_files(put(tmp_path, "t.tsv", [*TRAIN, *TRAIN[:2], TRAIN[0]]), split=None)
    assert len(dataset.train) == len(TRAIN)
    report = dataset.report
    assert (report.read, report.kept, report.rejected, report.duplicates) == (7, 4, 0, 3)


def test_b28_triple_in_two_splits_is_refused_and_listed(files: dict[str, Path], tmp_path: Path) -> None:
    files["test"] = put(tmp_path, "leak.tsv", [*TEST, TRAIN[1], *VALID])
    with pytest.raises(InputError) as caught:
        Dataset.from_files(**files)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(f"{files['test']}:2:1: the test triple b | r | c ")
    assert lines[1].startswith(f"{files['test']}:3:1: ")
    assert caught.value.total == 2
    dataset = Dataset.from_files(**files, allow_leaks=True)
    assert len(dataset.test) == 3
    assert dataset.report.counts["leaks"] == 2
    assert any("more than one split" in warning for warning in dataset.report.warnings)


def test_b28_at_most_twenty_leaks_are_shown_and_all_counted(tmp_path: Path) -> None:
    rows = [(f"e{n}", "r", f"e{n + 1}") for n in range(100)]
    with pytest.raises(InputError) as caught:
        Dataset.from_files(put(tmp_path, "a.tsv", rows), put(tmp_path, "b.tsv", rows[:70]))
    assert str(caught.value).count("is also in") == 20
    assert "70 in all" in str(caught.value)


def test_b29_self_loops_are_kept_and_counted(tmp_path: Path) -> None:
    dataset = Dataset.from_files(put(tmp_path, "t.tsv", [*TRAIN, ("a", "r", "a")]), split=None)
    assert ("a", "r", "a") in names(dataset)
    assert dataset.report.counts["self_loops"] == 1


def test_b30_entity_absent_from_training_is_kept_and_counted(files: dict[str, Path], tmp_path: Path) -> None:
    files["test"] = put(tmp_path, "new.tsv", [("b", "s", "new"), ("newer", "r", "a"), ("b", "s", "a")])
    dataset = Dataset.from_files(**files)
    assert len(dataset.test) == 3
    assert "new" in dataset.entities
    assert dataset.report.counts["entities_unseen_in_train"] == 2
    assert dataset.report.counts["test_with_unseen_entity"] == 2


def test_b31_relation_absent_from_training_is_an_error_with_names(files: dict[str, Path], tmp_path: Path) -> None:
    files["test"] = put(tmp_path, "new.tsv", [("b", "s", "a"), ("b", "never seen", "a"), ("c", "neither", "a")])
    with pytest.raises(InputError) as caught:
        Dataset.from_files(**files)
    assert f"{files['test']}:2:1: the relation never seen does not occur in training" in str(caught.value)
    assert "neither" in str(caught.value)


def test_b32_relation_with_one_triple_is_warned_about_and_stays_in_training(tmp_path: Path) -> None:
    rows = [(f"e{n % 7}", "r", f"e{n % 5}") for n in range(35)] + [("e0", "once", "e1")]
    dataset = Dataset.from_files(put(tmp_path, "t.tsv", rows), split=(0.5, 0.25, 0.25))
    assert ("e0", "once", "e1") in names(dataset)
    assert dataset.report.counts["one_triple_relations"] == 1
    assert any("single training triple" in warning for warning in dataset.report.warnings)


def test_b33_a_label_may_be_entity_and_relation(tmp_path: Path) -> None:
    dataset = Dataset.from_files(put(tmp_path, "t.tsv", [("x", "x", "y"), ("y", "y", "x")]), split=None)
    assert dataset.entities.labels == dataset.relations.labels == ("x", "y")
    assert dataset.train.tolist() == [[0, 0, 1], [1, 1, 0]]


def test_b34_no_relation_name_collides_with_an_inverse(tmp_path: Path) -> None:
    rows = [("a", "r", "b"), ("a", "r_inverse", "b"), ("b", "r_inverse_inverse", "a")]
    dataset = Dataset.from_files(put(tmp_path, "t.tsv", rows), split=None)
    doubled = add_inverses(dataset.train, len(dataset.relations))
    assert len(np.unique(doubled, axis=0)) == 6
    assert set(doubled[:, 1].tolist()) == set(range(6))


@pytest.mark.parametrize(
    "rows",
    [[("a", "r", "a")], [("a", "r", "b")], [("a", "r", "a"), ("a", "s", "a")], [("a", "r", "b"), ("b", "r", "a")]],
)
def test_b35_one_entity_or_one_relation_works(tmp_path: Path, rows: list[Named]) -> None:
    dataset = Dataset.from_files(put(tmp_path, "t.tsv", rows))
    assert len(dataset.train) + len(dataset.valid) + len(dataset.test) == len(rows)
    assert len(dataset.train)


def test_skip_balances_and_writes_the_rejects_of_all_files(tmp_path: Path) -> None:
    train, test = tmp_path / "train.tsv", tmp_path / "test.tsv"
    train.write_text("a\tr\tb\na\tr\nb\tr\ta\na\tr\tb\n\n")
    test.write_text("a\tr\ta\n\tr\tb\n")
    rejects = tmp_path / "rejected.tsv"
    with pytest.raises(InputError) as caught:
        Dataset.from_files(train, test=test, split=None)
    assert caught.value.total == 2
    assert f"{test}:2:1: the head is empty" in str(caught.value)
    assert not rejects.exists()
    dataset = Dataset.from_files(train, test=test, split=None, options=ReadOptions(on_error="skip", rejects=rejects))
    report = dataset.report
    assert (report.read, report.kept, report.rejected, report.duplicates) == (6, 3, 2, 1)
    assert len(rejects.read_text().splitlines()) == 3


def test_skip_with_nothing_left_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("a\tb\nc\td\n")
    with pytest.raises(InputError, match="0 triples left"):
        Dataset.from_files(path, options=ReadOptions(on_error="skip", rejects=tmp_path / "rejected.tsv"))
    assert not (tmp_path / "rejected.tsv").exists()


def test_missing_files_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        Dataset.from_files(tmp_path / "a.tsv", tmp_path / "b.tsv")
    assert caught.value.total == 2


def test_the_report_is_json_and_readable(files: dict[str, Path]) -> None:
    report = Dataset.from_files(**files).report
    shown = json.loads(json.dumps(report.as_dict()))
    assert shown["totals"] == {"read": 6, "kept": 6, "rejected": 0, "duplicates": 0, "literals": 0}
    assert [file["split"] for file in shown["files"]] == ["train", "valid", "test"]
    assert report.lines()[0].startswith("train: 4 triples from ")


def test_a_report_that_does_not_balance_cannot_be_made() -> None:
    with pytest.raises(AssertionError, match="do not balance"):
        FileReport("f", "train", "", read=3, kept=1, rejected=1, duplicates=0, blank=0, comments=0)


def test_titles_from_a_mapping_or_a_file(files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "entity2text.txt"
    path.write_text("a\tAlpha\nunknown\tUnknown\n")
    dataset = Dataset.from_files(**files, entity_titles=path, relation_titles={"r": "is related to", "zzz": "no"})
    assert dataset.entity_titles == {"a": "Alpha"}
    assert dataset.relation_titles == {"r": "is related to"}


def test_valid_is_taken_from_training_when_only_test_is_given(tmp_path: Path) -> None:
    rows = [(f"e{n % 9}", f"r{n % 2}", f"e{n % 7}") for n in range(63)]
    dataset = Dataset.from_files(put(tmp_path, "a.tsv", rows[:-3]), test=put(tmp_path, "b.tsv", rows[-3:]))
    assert len(dataset.valid) == 6
    assert names(dataset, "test") == set(rows[-3:])


def test_vocabulary() -> None:
    vocabulary = Vocabulary.of(["Ö", "b", "a", "B", "a", "😀", "\uffff"])
    assert vocabulary.labels == ("B", "a", "b", "Ö", "\uffff", "😀")
    assert [vocabulary.id_of(label) for label in vocabulary.labels] == list(range(6))
    with pytest.raises(UnknownNameError, match="Did you mean 'Berlin'"):
        Vocabulary.of(["Berlin", "Paris"]).id_of("berlln")
    with pytest.raises(TuckerkgError, match="unique and sorted"):
        Vocabulary(("b", "a"))
    with pytest.raises(TuckerkgError, match="unique and sorted"):
        Vocabulary(("a", "a"))
    assert Vocabulary(("a", "b,c")).sha256 != Vocabulary(("a,b", "c")).sha256
    assert Vocabulary(("a", "b")).sha256 == Vocabulary.of(["b", "a"]).sha256


def test_add_inverses() -> None:
    doubled = add_inverses(np.array([[0, 0, 1], [2, 1, 3]]), 2)
    assert doubled.tolist() == [[0, 0, 1], [2, 1, 3], [1, 2, 0], [3, 3, 2]]


def test_triple_keys_refuse_to_overflow() -> None:
    with pytest.raises(OverflowError):
        triple_keys(np.zeros((1, 3), dtype=np.int64), 2**31, 2**2)


def test_near_inverse_relations_are_found() -> None:
    forward = [(n, 0, n + 1) for n in range(10)]
    backward = [(n + 1, 1, n) for n in range(10)]
    other = [(n, 2, n + 2) for n in range(8)]
    found = near_inverses(np.array(forward + backward + other), 12)
    assert [(r, s) for r, s, _ in found] == [(0, 1), (1, 0)]


def test_triples_come_back_from_their_keys() -> None:
    triples = np.array([(h, r, t) for h in range(5) for r in range(3) for t in range(5)])
    keys = triple_keys(triples, 5, 3)
    assert keys.tolist() == list(range(75))
    assert keyed_triples(keys, 5, 3).tolist() == triples.tolist()


@settings(max_examples=100, deadline=None)
@given(values=st.lists(st.integers(0, 2**40)), known=st.lists(st.integers(0, 300)), offset=st.sampled_from([0, 2**40]))
def test_membership_is_exact(values: list[int], known: list[int], offset: int) -> None:
    sought = np.array(sorted(n + offset for n in known), dtype=np.int64)
    asked = np.array([*values, *known, *sought.tolist()], dtype=np.int64)
    assert is_among(asked, sought).tolist() == [value in set(sought.tolist()) for value in asked.tolist()]


def test_mirrored_test_triples_are_counted(tmp_path: Path) -> None:
    train = put(tmp_path, "a.tsv", [("a", "r", "b"), ("b", "r", "c")])
    test = put(tmp_path, "b.tsv", [("b", "r", "a"), ("a", "r", "c")])
    assert Dataset.from_files(train, test=test, split=None).report.counts["test_mirrored_in_train"] == 1


def test_a_split_that_cannot_be_had_says_so(tmp_path: Path) -> None:
    rows = [(f"a{n}", "r", f"b{n}") for n in range(20)]
    dataset = Dataset.from_files(put(tmp_path, "t.tsv", rows))
    assert (len(dataset.train), len(dataset.valid), len(dataset.test)) == (20, 0, 0)
    assert any("only 0 of the 2 triples wanted for test" in warning for warning in dataset.report.warnings)


@settings(max_examples=150, deadline=None)
@given(graph=GRAPH)
def test_near_inverses_are_those_found_pair_by_pair(graph: list[Ids]) -> None:
    edges = {r: {(h, t) for h, s, t in graph if s == r} for _, r, _ in graph}
    expected = []
    for r, forward in edges.items():
        for s, backward in edges.items():
            both = len(forward & {(t, h) for h, t in backward})
            if r != s and len(forward) > 1 and both >= 0.8 * len(forward):
                expected.append((r, s, both / len(forward)))
    found = near_inverses(np.array(graph, dtype=np.int64), 9)
    assert found == sorted(expected, key=lambda row: (-row[2], row[0], row[1]))


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.tuples(*[st.text("abé😀 \u0301", min_size=1, max_size=3).filter(str.strip)] * 3), min_size=1),
    seed=st.integers(0, 99),
)
def test_ids_do_not_depend_on_row_order(tmp_path_factory: pytest.TempPathFactory, rows: list[Named], seed: int) -> None:
    folder = tmp_path_factory.mktemp("order")
    one = Dataset.from_files(put(folder, "a.tsv", rows), split=None)
    shuffled = random.Random(seed).sample(rows, len(rows))
    other = Dataset.from_files(put(folder, "b.tsv", shuffled), split=None)
    assert (one.entities, one.relations) == (other.entities, other.relations)
    assert sorted(one.train.tolist()) == sorted(other.train.tolist())
    assert one.entities.labels == tuple(sorted({label for h, _, t in rows for label in (h, t)}))
    assert one.report.read == len(rows) == one.report.kept + one.report.rejected + one.report.duplicates


LABELS = st.text('abé😀 #"', min_size=1, max_size=2).filter(str.strip)


@settings(max_examples=60, deadline=None)
@given(
    train=st.lists(st.tuples(LABELS, st.sampled_from("rs"), LABELS), min_size=1, max_size=30),
    valid=st.lists(st.tuples(LABELS, st.sampled_from("rst"), LABELS), max_size=5),
    split=st.sampled_from([None, (0.8, 0.1, 0.1), (0.5, 0.25, 0.25)]),
)
def test_a_clean_file_gives_the_dataset_that_judged_rows_give(
    tmp_path_factory: pytest.TempPathFactory,
    train: list[Named],
    valid: list[Named],
    split: tuple[float, float, float] | None,
) -> None:
    folder = tmp_path_factory.mktemp("clean")
    files = [put(folder, "a.tsv", train), *([put(folder, "b.tsv", valid)] if valid else [])]

    def outcome() -> object:
        try:
            dataset = Dataset.from_files(*files, split=split, allow_leaks=True)
        except InputError as error:
            return str(error)
        parts = [dataset.split(name).tolist() for name in ("train", "valid", "test")]
        return dataset.entities, dataset.relations, parts, dataset.report.as_dict()

    found = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "clean_columns", lambda *_: None)
        assert found == outcome()


def test_of_repeated_rows_the_first_stays_in_its_place(tmp_path: Path) -> None:
    rows = [("b", "r", "c"), ("a", "r", "b"), ("b", "r", "c"), ("a", "s", "b"), ("a", "r", "b"), ("b", "r", "c")]
    dataset = Dataset.from_files(put(tmp_path, "a.tsv", rows), split=None)
    assert dataset.train.tolist() == [[1, 0, 2], [0, 0, 1], [0, 1, 1]]
    assert dataset.report.duplicates == 3


def test_reading_keeps_every_line_of_a_benchmark() -> None:
    folder = data_folder() / "wn18rr"
    dataset = Dataset.from_files(folder / "train.txt", folder / "valid.txt", folder / "test.txt")
    lines = (folder / "train.txt").read_text().splitlines()
    assert names(dataset) == {tuple(line.split("\t")) for line in lines}
    assert dataset.report.counts["test_mirrored_in_train"] == 1_086
    assert dataset.report.counts["test_with_unseen_entity"] == 210
