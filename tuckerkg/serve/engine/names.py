"""Entities and relations by what people type: parts of names, names with accents or slips, whole questions."""

from __future__ import annotations

import difflib
import unicodedata
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tuckerkg.data.labels import Labels
from tuckerkg.errors import UnknownNameError, printable

if TYPE_CHECKING:
    import polars as pl

MOST_NEAR = 1_000_000  # names; among more nobody looks for near ones
EXAMINED = 40  # names with the most pieces in common, which are compared letter by letter
ALIKE = 0.55  # of 1, from where on a name is near
PIECE = 3  # characters


class NoSuchName(UnknownNameError):
    """A name that nobody has, or that several share; ``near`` are the ids of those that may be meant."""

    def __init__(self, text: str, kind: str, near: list[int]) -> None:
        super().__init__(text)
        self.kind, self.near = kind, near


def folded(text: str) -> str:
    """Without accents, in lower case."""
    plain = unicodedata.normalize("NFKD", text)
    return "".join(each for each in plain if not unicodedata.combining(each)).casefold()


class Names:
    """One kind of names: found exactly, by a part, or by likeness."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.titles = [labels.shown(number) for number in range(len(labels))]

    def id_of(self, name: str) -> int:
        """The id behind a label or a title.

        Raises:
            NoSuchName: nobody has it, or several do.
        """
        found = self.labels.find(name)
        if found is not None:
            return found
        kind, text = self.labels.kind, printable(name)[:200]
        same = self._by_folded.get(folded(name), [])
        if len(same) == 1:
            return same[0]
        if same:
            some = ", ".join(repr(printable(self.labels.labels[number])) for number in same[:5])
            raise NoSuchName(f"{kind} {text!r} names {len(same)}: use one of the labels {some}", kind, same[:5])
        near = self.near(name)
        hint = " Nearest: " + ", ".join(repr(printable(self.titles[number])) for number in near) if near else ""
        raise NoSuchName(f"there is no {kind} {text!r} among {len(self.labels):,}.{hint}", kind, near)

    def near(self, name: str, count: int = 5) -> list[int]:
        """Ids of names that look like ``name``, best first."""
        wanted = folded(name)[:200]
        if not wanted or len(self.titles) > MOST_NEAR:
            return []
        pieces, starts, owners = self._pieces
        places = [pieces[piece] for piece in set(_pieces_of(wanted)) if piece in pieces]
        if not places:
            return []
        hits = np.concatenate([owners[starts[place] : starts[place + 1]] for place in places])
        found, counts = np.unique(hits, return_counts=True)
        # Pieces in common, relative to how many both have: a long name has some of everything.
        alike = counts / (len(wanted) + self._lengths[found])
        best = found[np.argsort(-alike, kind="stable")[:EXAMINED]]
        matcher = difflib.SequenceMatcher(None, "", wanted)
        rated = []
        for number in best.tolist():
            likeness = 0.0
            for text in {self.titles[number], self.labels.labels[number]}:
                matcher.set_seq1(folded(text)[:200])
                likeness = max(likeness, matcher.ratio())
            rated.append((-likeness, number))
        return [number for likeness, number in sorted(rated)[:count] if -likeness >= ALIKE]

    def holding(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Ids whose title or label holds ``text``, and how well: 0 is it, 1 begins with it, 2 holds it."""

        wanted = folded(text).strip().replace("\n", " ")
        if not wanted:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        ids = self.both.str.contains(wanted, literal=True).arg_true().to_numpy().astype(np.int64)
        if not len(ids):
            return ids, ids
        mine: pl.Series = self.both.gather(ids)
        begins = mine.str.starts_with(wanted).to_numpy()
        exact = mine.str.starts_with(f"{wanted}\n").to_numpy() | mine.str.ends_with(f"\n{wanted}").to_numpy()
        return ids, np.where(exact, 0, np.where(begins, 1, 2))

    @cached_property
    def both(self) -> pl.Series:
        """Title and label of each, folded, a line each."""
        import polars as pl  # noqa: PLC0415

        pairs = zip(self.titles, self.labels.labels, strict=True)
        return pl.Series([f"{folded(title)}\n{folded(label)}" for title, label in pairs], dtype=pl.String)

    @cached_property
    def _by_folded(self) -> dict[str, list[int]]:
        index: dict[str, list[int]] = {}
        for number, (title, label) in enumerate(zip(self.titles, self.labels.labels, strict=True)):
            for name in {folded(title), folded(label)}:
                index.setdefault(name, []).append(number)
        return index

    @cached_property
    def _pieces(self) -> tuple[dict[str, int], np.ndarray, np.ndarray]:
        """Of each piece of a name its place; from ``starts[place]`` on the ``owners`` that have it."""
        places: dict[str, int] = {}
        rows: list[tuple[int, int]] = []
        for number, title in enumerate(self.titles):
            for piece in set(_pieces_of(folded(title)[:200])):
                rows.append((places.setdefault(piece, len(places)), number))
        pairs = np.array(rows, dtype=np.int64).reshape(-1, 2)
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        return places, np.searchsorted(pairs[:, 0], np.arange(len(places) + 1)), pairs[:, 1]

    @cached_property
    def _lengths(self) -> np.ndarray:
        return np.array([len(title) for title in self.titles])

    def warm(self) -> None:
        """Prepare what the first search would wait for."""
        self.both  # noqa: B018
        self._by_folded  # noqa: B018
        if len(self.titles) <= MOST_NEAR:
            self._pieces  # noqa: B018
            self._lengths  # noqa: B018


def _pieces_of(text: str) -> list[str]:
    padded = f" {text} "
    return [padded[place : place + PIECE] for place in range(max(1, len(padded) - PIECE + 1))]
