"""What was read, and what to know about it before training."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from tuckerkg.data.triple_sets import Triples, is_among, triple_keys
from tuckerkg.errors import counted, printable
from tuckerkg.types import JsonObject

# A relation pair is reported when at least this share of one is the other, read backwards.
NEAR_INVERSES_SHOWN = 3
NEAR_INVERSE_SHARE = 0.8
# Comparing relations pair by pair is skipped above this many coinciding edges.
MAX_PAIR_MATCHES = 20_000_000


@dataclass(frozen=True)
class FileReport:
    """Counts of one file: ``read == kept + rejected + duplicates + literals``; blank lines and comments are not read.

    ``literals`` are RDF statements whose object is not an entity.
    """

    name: str
    split: str
    sha256: str
    read: int
    kept: int
    rejected: int
    duplicates: int
    blank: int
    comments: int
    notes: tuple[str, ...] = ()
    literals: int = 0

    def __post_init__(self) -> None:
        if self.read != self.kept + self.rejected + self.duplicates + self.literals:
            raise AssertionError(f"{self.name}: {self.read} rows read do not balance")


@dataclass(frozen=True)
class ReadReport:
    """All files of a dataset, ``counts`` of what was found in them, and ``warnings`` in words."""

    files: tuple[FileReport, ...]
    counts: Mapping[str, int]
    warnings: tuple[str, ...] = ()

    @property
    def read(self) -> int:
        """Rows read in all files."""
        return sum(file.read for file in self.files)

    @property
    def kept(self) -> int:
        """Rows that became triples."""
        return sum(file.kept for file in self.files)

    @property
    def rejected(self) -> int:
        """Bad rows set aside."""
        return sum(file.rejected for file in self.files)

    @property
    def duplicates(self) -> int:
        """Rows dropped because the same file has the triple further up."""
        return sum(file.duplicates for file in self.files)

    @property
    def literals(self) -> int:
        """RDF statements left out because their object is not an entity."""
        return sum(file.literals for file in self.files)

    def as_dict(self) -> JsonObject:
        """The report as plain JSON values."""
        files = [{**asdict(file), "notes": list(file.notes)} for file in self.files]
        totals = {"read": self.read, "kept": self.kept, "rejected": self.rejected, "duplicates": self.duplicates}
        totals["literals"] = self.literals
        return {"files": files, "totals": totals, "counts": dict(self.counts), "warnings": list(self.warnings)}

    def lines(self) -> list[str]:
        """The report in lines, safe to print."""
        return [*self.file_lines(), *(printable(f"warning: {warning}") for warning in self.warnings)]

    def file_lines(self) -> list[str]:
        """What was read of each file, and left out; safe to print."""
        lines = []
        for file in self.files:
            text = f"{file.split}: {file.kept:,} triples from {file.name}"
            extras = {
                "rejected": file.rejected,
                "duplicates dropped": file.duplicates,
                "literals left out": file.literals,
                "blank lines": file.blank,
                "comments": file.comments,
            }
            details = [f"{count:,} {what}" for what, count in extras.items() if count] + list(file.notes)
            lines.append(text + (f" ({'; '.join(details)})" if details else ""))
        return [printable(line) for line in lines]


def label_warnings(entities: Sequence[str], relations: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    """Labels that are legal and yet often a mistake: padded with spaces, invisible characters, look-alikes."""
    labels = [*entities, *relations]
    # One pass over all of the text is enough for most graphs: white space is either a space or not printable.
    text = "".join(labels)
    printed = text.isprintable()
    padded = [] if printed and " " not in text else [label for label in labels if label != label.strip()]
    hidden = [] if printed else [label for label in labels if not label.isprintable()]
    alike = [] if text.isascii() else _look_alikes(entities) + _look_alikes(relations)
    warnings = []
    if padded:
        warnings.append(f"{len(padded):,} labels begin or end with white space and were kept so, e.g. {padded[0]!r}")
    if hidden:
        warnings.append(f"{len(hidden):,} labels hold control or invisible characters, e.g. {hidden[0]!r}")
    if alike:
        names = " and ".join(label.encode("unicode_escape").decode("ascii") for label in alike[0])
        warnings.append(
            f"{len(alike):,} groups of labels look the same but differ in Unicode form and were kept "
            f"apart, e.g. {names}"
        )
    return {"padded_labels": len(padded), "hidden_characters": len(hidden), "look_alikes": len(alike)}, warnings


def _look_alikes(labels: Sequence[str]) -> list[list[str]]:
    composed: dict[str, list[str]] = {}
    for label in labels:
        if not label.isascii():
            composed.setdefault(unicodedata.normalize("NFC", label), []).append(label)
    return [group for group in composed.values() if len(group) > 1]


def graph_counts(splits: Mapping[str, Triples], num_entities: int, num_relations: int) -> dict[str, int]:
    """Self-loops, one-triple relations, entities and triples unseen in training, mirrored evaluation triples."""
    train = splits["train"]
    seen = np.zeros(num_entities, dtype=np.bool_)
    for column in (0, 2):
        seen[train[:, column]] = True
    per_relation = np.bincount(train[:, 1], minlength=num_relations)
    counts = {
        "self_loops": sum(int((triples[:, 0] == triples[:, 2]).sum()) for triples in splits.values()),
        "one_triple_relations": int((per_relation == 1).sum()),
        "entities_unseen_in_train": int((~seen).sum()),
    }
    held_out = len(splits["valid"]) + len(splits["test"])
    compared = train if held_out else train[:0]  # nothing is validated up among sorted keys that nobody asks for
    mirrored = np.sort(triple_keys(compared[:, ::-1], num_entities, num_relations))
    pairs = np.sort(compared[:, 0] * num_entities + compared[:, 2])
    for name in ("valid", "test"):
        triples = splits[name]
        unseen = ~seen[triples[:, [0, 2]]].all(axis=1)
        mirror = is_among(triple_keys(triples, num_entities, num_relations), mirrored)
        same_pair = is_among(triples[:, 0] * num_entities + triples[:, 2], pairs)
        counts[f"{name}_with_unseen_entity"] = int(unseen.sum())
        counts[f"{name}_mirrored_in_train"] = int((mirror & (triples[:, 0] != triples[:, 2])).sum())
        counts[f"{name}_same_pair_in_train"] = int(same_pair.sum())
    return counts


def near_inverses(train: Triples, num_entities: int) -> list[tuple[int, int, float]]:
    """Pairs of different relations (r, s) where nearly every (h, r, t) comes with (t, s, h): a known leak."""
    import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

    both_ways = train[_goes_both_ways(train[:, 0], train[:, 2], num_entities)]
    forward = pl.DataFrame({"pair": both_ways[:, 0] * num_entities + both_ways[:, 2], "r": both_ways[:, 1]})
    backward = pl.DataFrame({"pair": both_ways[:, 2] * num_entities + both_ways[:, 0], "s": both_ways[:, 1]})
    matches = forward.group_by("pair").len("n").join(backward.group_by("pair").len("m"), on="pair")
    if (matches["n"].cast(pl.Int64) * matches["m"].cast(pl.Int64)).sum() > MAX_PAIR_MATCHES:
        return []
    shared = forward.join(backward, on="pair").filter(pl.col("r") != pl.col("s")).group_by("r", "s").len("both")
    sizes = np.bincount(train[:, 1]).tolist()
    found = [
        (r, s, both / sizes[r])
        for r, s, both in shared.sort("r", "s").iter_rows()
        if sizes[r] > 1 and both >= NEAR_INVERSE_SHARE * sizes[r]
    ]
    return sorted(found, key=lambda row: (-row[2], row[0], row[1]))


def _goes_both_ways(heads: Triples, tails: Triples, num_entities: int) -> npt.NDArray[np.bool_]:
    """Mark the edges (h, t) that occur as (t, h) too, whatever their relations; a self-loop always does."""
    pairs = np.minimum(heads, tails) * num_entities + np.maximum(heads, tails)
    # An edge and its mirror share the pair and differ in the last bit, so that sorting puts them side by side.
    ordered = np.sort(pairs.astype(np.uint64) * 2 + (heads > tails))
    turns = ordered[1:][ordered[1:] == ordered[:-1] + 1]
    mirrored = turns[turns % 2 == 1] // 2  # sorted, and one per pair
    return is_among(pairs, mirrored.astype(np.int64)) | np.equal(heads, tails)


def graph_warnings(counts: Mapping[str, int], sizes: Mapping[str, int]) -> list[str]:
    """Warnings for the counts that deserve one."""
    warnings = []
    if counts["self_loops"]:
        warnings.append(f"{counts['self_loops']:,} triples have the same head and tail (self-loops); kept")
    if counts["one_triple_relations"]:
        number = counted(counts["one_triple_relations"], "relation has", "relations have")
        warnings.append(f"{number} a single training triple")
    if counts["entities_unseen_in_train"]:
        warnings.append(
            f"{counts['entities_unseen_in_train']:,} entities occur only outside training; "
            "their triples are kept and ranked"
        )
    for name in ("valid", "test"):
        mirrored = counts[f"{name}_mirrored_in_train"]
        if mirrored:
            warnings.append(
                f"{mirrored:,} of {sizes[name]:,} {name} triples (h, r, t) have their mirror (t, r, h) "
                "in training: they are easy"
            )
    return warnings


def report_on(
    triples: Mapping[str, Triples],
    files: Sequence[FileReport],
    counts: Mapping[str, int],
    warnings: Sequence[str],
    entities: Sequence[str],
    relations: Sequence[str],
) -> ReadReport:
    """The report on a dataset with these splits: counts, warnings about labels and leaks, and what was done."""
    sizes = {name: len(part) for name, part in triples.items()}
    label_counts, label_words = label_warnings(entities, relations)
    found = graph_counts(triples, len(entities), len(relations))
    # Of all splits: of a pair that a split has torn apart, training alone holds too little.
    pairs = near_inverses(np.concatenate(list(triples.values())), len(entities))
    words = [*warnings, *label_words, *graph_warnings(found, sizes)]
    if pairs:
        sizes_of = np.bincount(np.concatenate(list(triples.values()))[:, 1]).tolist()
        once = {frozenset((r, s)): (r, s, share) for r, s, share in reversed(pairs)}  # the better of the two directions
        shown = [
            f"{relations[r]} / {relations[s]} ({share:.0%} and {share * sizes_of[r] / sizes_of[s]:.0%} of their facts)"
            for r, s, share in sorted(once.values(), key=lambda pair: -pair[2])[:NEAR_INVERSES_SHOWN]
        ]
        number = counted(len(once), "pair of relations is", "pairs of relations are")
        words.append(f"{number} nearly inverse to each other, e.g. {', '.join(shown)}")
        pairs = list(once.values())
    names = {"entities": len(entities), "relations": len(relations), "near_inverse_pairs": len(pairs)}
    return ReadReport(tuple(files), {**sizes, **names, **counts, **label_counts, **found}, tuple(words))
