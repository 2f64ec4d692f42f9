"""The datasets that have a name: their sizes, pinned, and the pinned files they can be fetched from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from tuckerkg.data.download import Remote

TRIPLES = "triples.tar.gz"
_ARCHIVES = "https://raw.githubusercontent.com/TimDettmers/ConvE/f3c0eb286025410fa5b4c04696c918264163d0ca"
_TITLES = "https://raw.githubusercontent.com/yao8839836/kg-bert/0b8f625108efcb9b43603b6840f2548ff3d3c973/data"


class Counts(TypedDict):
    """Sizes of a dataset."""

    entities: int
    relations: int
    train: int
    valid: int
    test: int


@dataclass(frozen=True)
class Known:
    """A dataset with a name: its size, pinned, and where its files can be fetched from.

    ``remotes`` maps a file name in the dataset's folder to its source; an archive is unpacked there.
    ``title_ends`` cuts titles at the first occurrence, where the source adds a gloss.
    """

    name: str
    about: str
    counts: Counts
    spellings: tuple[str, ...] = ()
    remotes: Mapping[str, Remote] = field(default_factory=dict)
    title_ends: str | None = None


def _triples(path: str, size: int, sha256: str) -> dict[str, Remote]:
    return {TRIPLES: Remote(f"{_ARCHIVES}/{path}", sha256, size)}


def _title(path: str, size: int, sha256: str) -> dict[str, Remote]:
    return {path.rpartition("/")[2]: Remote(f"{_TITLES}/{path}", sha256, size)}


_ALL = (
    Known(
        name="countries",
        about="countries of the world; ships with the package",
        counts=Counts(entities=978, relations=10, train=2_701, valid=208, test=208),
        spellings=("country", "world"),
    ),
    Known(
        name="fb15k-237",
        about="facts of Freebase without inverse relations",
        counts=Counts(entities=14_541, relations=237, train=272_115, valid=17_535, test=20_466),
        spellings=("fb237", "freebase237"),
        remotes=_triples(
            "FB15k-237.tar.gz", 3_678_603, "311df7930f842a02979eaa7a802484a6afe62303c07f915f1e6edbc30cbe05e8"
        )
        | _title(
            "FB15k-237/entity2text.txt", 392_383, "16beedcfad3d32696e8b0b98cfa0f5eeb144f5142225f227a64fd9ce37447da5"
        )
        | _title(
            "FB15k-237/relation2text.txt", 29_130, "4bf7cb6ea0ac09b17ad210889f723be5e079669f6ae5d507787e1320bbaa0f72"
        ),
    ),
    Known(
        name="wn18rr",
        about="word senses of WordNet without inverse relations",
        counts=Counts(entities=40_943, relations=11, train=86_835, valid=3_034, test=3_134),
        spellings=("wnrr", "wordnet18rr"),
        remotes=_triples("WN18RR.tar.gz", 892_861, "1eb9152f804c140d163462c0d49f65e5a0b30ab5fbb375c5e3353c11a6249060")
        | _title(
            "WN18RR/entity2text.txt", 4_086_439, "8f5c6f11753dafa879917b9bdf73d398ceb3bd4bed8d5553177e1e0f2c37521f"
        )
        | _title("WN18RR/relation2text.txt", 370, "91b1de5585d686ed31498d50f1c4eed44ba9486dffbbcc0c28927ac884184918"),
        title_ends=",",
    ),
    Known(
        name="umls",
        about="relations between kinds of medical concepts",
        counts=Counts(entities=135, relations=46, train=5_216, valid=652, test=661),
        remotes=_triples("umls.tar.gz", 35_648, "26223aa91f0ec8db2324e0f489b9a4425e04d1d0df72ce5cfd62af4b91aee6fd"),
    ),
    Known(
        name="kinship",
        about="kinship terms between members of a tribe",
        counts=Counts(entities=104, relations=25, train=8_544, valid=1_068, test=1_074),
        spellings=("kinships", "alyawarra"),
        remotes=_triples("kinship.tar.gz", 42_703, "a3cb9ca67213eb38133aebc12901195e283d844ebd59f1a6cbf2d4fa12ced4e6"),
    ),
    Known(
        name="nations",
        about="dealings between nations around 1960",
        counts=Counts(entities=14, relations=55, train=1_592, valid=199, test=201),
        spellings=("nation",),
        remotes=_triples("nations.tar.gz", 8_077, "feb3e3e027103089934ea7dfb67d2048d8a43e65d6757a86f2e037acb66f640b"),
    ),
)
KNOWN = {known.name: known for known in _ALL}


def canonical_name(name: str) -> str | None:
    """The name of the known dataset that ``name`` spells in any common way, or None."""
    wanted = _plain(name)
    for known in KNOWN.values():
        if wanted in {_plain(spelling) for spelling in (known.name, *known.spellings)}:
            return known.name
    return None


def _plain(name: str) -> str:
    return re.sub(r"[-_ .]", "", name.casefold())
