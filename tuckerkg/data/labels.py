"""Labels and ids: the vocabulary of a dataset, and names as users write them."""

from __future__ import annotations

import hashlib
import json
import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from tuckerkg.errors import TuckerkgError, UnknownNameError, did_you_mean, nearest, printable


@dataclass(frozen=True)
class Vocabulary:
    """Unique labels in code-point order; an id is a position, so ids do not depend on the order of the rows."""

    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if not all(map(operator.lt, self.labels, islice(self.labels, 1, None))):
            raise TuckerkgError("the labels of a vocabulary must be unique and sorted; build it with Vocabulary.of")

    @classmethod
    def of(cls, labels: Iterable[str]) -> Vocabulary:
        """The vocabulary of any labels, in any order and number."""
        return cls(tuple(sorted(set(labels))))

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: object) -> bool:
        return label in self._ids

    def __getitem__(self, position: int) -> str:
        return self.labels[position]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {label: position for position, label in enumerate(self.labels)}

    def id_of(self, label: str) -> int:
        """The id of ``label``; raises UnknownNameError with the nearest labels."""
        try:
            return self._ids[label]
        except KeyError:
            known = f"{len(self):,} labels are known."
            message = f"unknown label '{printable(label)}'; {known}{did_you_mean(label, self.labels)}"
            raise UnknownNameError(message) from None

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the labels as a JSON list: equal exactly when all ids mean the same."""
        text = json.dumps(self.labels, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8")).hexdigest()


class Labels:
    """One kind of name ("entity", "relation"): ``labels`` as in the data, ``titles`` for some or all of them."""

    def __init__(self, kind: str, labels: Sequence[str], titles: Mapping[str, str]) -> None:
        self.kind, self.labels, self.titles = kind, labels, titles

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: object) -> bool:
        return label in self._labels

    def shown(self, number: int) -> str:
        """The title of id ``number`` if it has one, else its label; a path of Freebase's kind in a few words."""
        label = self.labels[number]
        return self._paths.get(label) or self.titles.get(label, label)

    def short_names(self) -> dict[str, str]:
        """What each label is shown as; labels whose names are ambiguous stay as they are."""
        shown = [self.shown(number) for number in range(len(self.labels))]
        count = Counter(shown)
        return {label: name if count[name] == 1 else label for label, name in zip(self.labels, shown, strict=True)}

    @cached_property
    def _paths(self) -> dict[str, str]:
        """Relations that are paths and have no title but their own words."""
        if self.kind != "relation":
            return {}
        plain = [label for label in self.labels if _words(self.titles.get(label, label)) == _words(label)]
        return path_titles(plain)

    def id_of(self, name: str) -> int:
        """The id behind a label, a title that only one label has, or either in other upper and lower case.

        Raises UnknownNameError with the nearest names, or with the labels that share an ambiguous title.
        """
        if not isinstance(name, str):
            raise UnknownNameError(f"the {self.kind} {name!r} is not a name; names are text")
        found = self.find(name)
        if found is not None:
            return found
        matches = self._matches(name)
        raise UnknownNameError(self._ambiguous(name, matches) if matches else self._unknown(name))

    def find(self, name: str) -> int | None:
        """What ``id_of`` gives; None where that would raise, without a search for the nearest names."""
        found = self._labels.get(name)
        if found is not None:
            return found
        matches = self._matches(name)
        return matches[0] if len(matches) == 1 else None

    def _matches(self, name: str) -> list[int]:
        return self._by_title.get(name) or self._by_folded.get(name.casefold(), [])

    def exact_id(self, name: str) -> int | None:
        """The id behind a label or a title as it is written; None for a name that nobody has.

        Raises UnknownNameError where several labels share the title.
        """
        found = self._labels.get(name)
        matches = self._by_title.get(name, [])
        if found is None and len(matches) > 1:
            raise UnknownNameError(self._ambiguous(name, matches))
        return matches[0] if found is None and matches else found

    @cached_property
    def _labels(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.labels)}

    @cached_property
    def _by_title(self) -> dict[str, list[int]]:
        index: dict[str, list[int]] = {}
        for number, label in enumerate(self.labels):
            for title in {found for found in (self.titles.get(label), self._paths.get(label)) if found is not None}:
                index.setdefault(title, []).append(number)
        return index

    @cached_property
    def _by_folded(self) -> dict[str, list[int]]:
        index: dict[str, list[int]] = {}
        for number, label in enumerate(self.labels):
            for name in {label.casefold(), self.titles.get(label, label).casefold(), self.shown(number).casefold()}:
                index.setdefault(name, []).append(number)
        return index

    def _ambiguous(self, name: str, matches: list[int]) -> str:
        labels = ", ".join(repr(printable(self.labels[number])) for number in matches[:5])
        more = f" and {len(matches) - 5} more" if len(matches) > 5 else ""
        return f"{self.kind} {printable(name)!r} names {len(matches)}: use one of the labels {labels}{more}"

    def _unknown(self, name: str) -> str:
        close = nearest(name, dict.fromkeys([*self.titles.values(), *self.labels]), count=5)
        hint = " Nearest: " + ", ".join(repr(printable(match)) for match in close) if close else ""
        return f"there is no {self.kind} {printable(name)!r} among {len(self):,}.{hint}"


PATH = re.compile(r"(/[^/\s]+){3,}")


def path_titles(labels: Sequence[str]) -> dict[str, str]:
    """``/people/person/place_of_birth`` -> "place of birth" for labels of that form, as Freebase has them.

    Two paths joined by a dot become "awards won › award". Where several labels would read alike, the types that the
    properties belong to stay in front of the first, then of each property; what is alike even then gets no title.
    """
    paths = [label for label in labels if PATH.fullmatch(label)]
    found: dict[str, str] = {}
    for depths in ((1, 1), (2, 1), (2, 2)):
        rest = {label: _path_title(label, depths) for label in paths if label not in found}
        counts = Counter([*rest.values(), *found.values()])
        found |= {label: title for label, title in rest.items() if counts[title] == 1}
    return found


def _path_title(label: str, depths: tuple[int, int]) -> str:
    ends = [part.strip("/").split("/") for part in label.split("./")]
    parts = [_words("/".join(end[-depths[min(place, 1)] :])) for place, end in enumerate(ends)]
    return " › ".join(words for place, words in enumerate(parts) if place == 0 or words != parts[place - 1])


def _words(text: str) -> str:
    return re.sub(r"[/_\s]+", " ", text).strip()
