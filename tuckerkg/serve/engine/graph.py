"""The facts that a run knows, seen from its entities and relations."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Literal, cast

import numpy as np

from tuckerkg.data.labels import PATH
from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.graph.type_constraints import plausible_questions
from tuckerkg.inference.run import Run
from tuckerkg.serve.engine.names import Names, folded
from tuckerkg.serve.schemas import graph as schemas
from tuckerkg.serve.schemas.asked import Place

TYPE_WORDS = {"type", "is a", "isa", "instance of", "instanceof", "rdf:type", "kind", "category"}
TYPE_LABEL = re.compile(r"([#/]type|/P31|rdf:type)>?$", re.IGNORECASE)
MANY = 1.5  # values each, from where on a relation has many
FIRST_FACTS = 8  # of a group on an entity's panel
Kind = Literal["1-1", "1-N", "N-1", "N-N"]


class GraphView:
    """Facts of all splits, in names."""

    def __init__(self, run: Run, stamp: schemas.RunStamp) -> None:
        self.run, self.stamp = run, stamp
        self.entities, self.relations = Names(run.entities), Names(run.relations)
        self.triples = np.concatenate([run.split(name) for name in SPLITS])
        ends = np.concatenate([self.triples[:, 0], self.triples[:, 2]])
        self._order = np.argsort(ends, kind="stable") % max(len(self.triples), 1)
        self._bounds = np.searchsorted(np.sort(ends), np.arange(len(run.entities) + 1))
        self.degrees = np.diff(self._bounds)
        plausible = plausible_questions(self.triples, len(run.entities), len(run.relations)).numpy()
        self.plausible_heads, self.plausible_tails = np.hsplit(plausible, 2)
        self.counts = np.bincount(self.triples[:, 1], minlength=len(run.relations))
        self._side_types: dict[tuple[int, int], str | None] = {}

    # ------------------------------------------------------------------------------------------ names

    def entity(self, number: int) -> schemas.Entity:
        """One entity in words."""
        return schemas.Entity(
            label=self.run.entities.labels[number],
            title=self.entities.titles[number],
            facts=int(self.degrees[number]),
            type=self.type_of(number),
        )

    def relation(self, number: int) -> schemas.Relation:
        """One relation in words."""
        return schemas.Relation(
            label=self.run.relations.labels[number],
            title=self.relations.titles[number],
            facts=int(self.counts[number]),
            kind=self.kinds[number],
            single=bool(self.one_tail[number]),
        )

    def named(self, head: int, relation: int, tail: int) -> dict[str, str]:
        """A fact in titles and labels."""
        entities, relations = self.entities, self.relations
        return {
            "head": entities.titles[head],
            "relation": relations.titles[relation],
            "tail": entities.titles[tail],
            "head_label": entities.labels.labels[head],
            "relation_label": relations.labels.labels[relation],
            "tail_label": entities.labels.labels[tail],
        }

    def fact(self, row: int) -> schemas.Fact:
        """A row of ``triples`` in words."""
        head, relation, tail = self.triples[row].tolist()
        return schemas.Fact(**self.named(head, relation, tail))

    # ------------------------------------------------------------------------------------------ kinds

    @cached_property
    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each relation: how many distinct heads and tails it has."""
        sides = []
        for column in (0, 2):
            keys = np.unique(self.triples[:, 1] * len(self.run.entities) + self.triples[:, column])
            sides.append(np.bincount(keys // len(self.run.entities), minlength=len(self.run.relations)))
        return sides[0], sides[1]

    @cached_property
    def kinds(self) -> list[Kind]:
        """1-1, 1-N, N-1 or N-N: heads per tail, tails per head."""
        heads, tails = self._sides
        many_tails, many_heads = (self.counts > MANY * np.maximum(part, 1) for part in (heads, tails))
        words = zip(many_heads, many_tails, strict=True)
        return [cast("Kind", f"{'N' if first else '1'}-{'N' if second else '1'}") for first, second in words]

    @cached_property
    def one_tail(self) -> np.ndarray:
        """Which relations never have two tails of one head."""
        return self._one(0)

    @cached_property
    def one_head(self) -> np.ndarray:
        """Which relations never have two heads of one tail."""
        return self._one(2)

    def _one(self, column: int) -> np.ndarray:
        keys = self.triples[:, 1] * len(self.run.entities) + self.triples[:, column]
        found, counts = np.unique(keys, return_counts=True)
        most = np.zeros(len(self.run.relations), dtype=np.int64)
        np.maximum.at(most, found // len(self.run.entities), counts)
        return np.asarray((most == 1) & (self.counts > 1))

    @cached_property
    def _values(self) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], int]]:
        """The one tail of (head, relation), and the one head of (tail, relation), where there is but one."""
        heads, relation_ids, tails = self.triples[self.one_tail[self.triples[:, 1]]].T.tolist()
        first = dict(zip(zip(heads, relation_ids, strict=True), tails, strict=True))
        heads, relation_ids, tails = self.triples[self.one_head[self.triples[:, 1]]].T.tolist()
        return first, dict(zip(zip(tails, relation_ids, strict=True), heads, strict=True))

    def has_value(self, head: int, relation: int, tail: int) -> bool:
        """Whether the relation holds one value, and another than this fact's is known."""
        tail_of, head_of = self._values
        return tail_of.get((head, relation), tail) != tail or head_of.get((tail, relation), head) != head

    def warm(self) -> None:
        """Prepare what the first questions would wait for."""
        self.entities.warm()
        self.relations.warm()
        self.kinds  # noqa: B018
        self._values  # noqa: B018

    # ------------------------------------------------------------------------------------------ types

    @cached_property
    def _type_relation(self) -> int | None:
        """The relation that says of what type an entity is, if there is one."""
        for number, (title, label) in enumerate(zip(self.relations.titles, self.run.relations.labels, strict=True)):
            if folded(title).replace("_", " ") in TYPE_WORDS or TYPE_LABEL.search(label):
                return number
        return None

    @cached_property
    def _head_words(self) -> list[str | None]:
        """What a head of each relation is, where its label says so: "person" of /people/person/nationality."""
        found = []
        for label in self.run.relations.labels:
            parts = label.partition("./")[0].strip("/").split("/")
            found.append(parts[-2].replace("_", " ") if PATH.fullmatch(label) and len(parts) > 1 else None)
        return found

    def type_of(self, number: int) -> str | None:
        """What kind of thing an entity is, as far as its relations tell."""
        rows = self.triples[self.rows_of(number)]
        if not len(rows):
            return None
        own = rows[rows[:, 0] == number]
        if self._type_relation is not None:
            types = own[own[:, 1] == self._type_relation, 2]
            if len(types):
                return self.entities.titles[int(types[0])]
        places, counts = np.unique(own[:, 1], return_counts=True)
        words: dict[str, int] = {}
        for relation, count in zip(places.tolist(), counts.tolist(), strict=True):
            word = self._head_words[relation]
            if word is not None:
                words[word] = words.get(word, 0) + count
        if words:
            return max(words, key=lambda word: words[word])
        side = "with" if len(own) else "value of"
        mine = own if len(own) else rows
        places, counts = np.unique(mine[:, 1], return_counts=True)
        best = places[np.argsort(-counts, kind="stable")[:2]].tolist()
        return f"{side} {' and '.join(f'“{self.relations.titles[relation]}”' for relation in best)}"

    def side_type(self, relation: int, column: int) -> str | None:
        """What most heads (column 0) or tails (2) of a relation are, by a sample."""
        if (relation, column) not in self._side_types:
            self._side_types[relation, column] = self._find_side_type(relation, column)
        return self._side_types[relation, column]

    def _find_side_type(self, relation: int, column: int) -> str | None:
        ends = self.triples[self.triples[:, 1] == relation, column]
        if not len(ends):
            return None
        distinct = np.unique(ends)
        some = distinct[:: max(1, len(distinct) // 50)][:50]
        words = [word for number in some.tolist() if (word := self.type_of(number)) is not None]
        return max(words, key=words.count) if words else None

    # ------------------------------------------------------------------------------------------ facts

    def rows_of(self, number: int) -> np.ndarray:
        """Rows of ``triples`` with an entity; a loop stands twice."""
        rows: np.ndarray = self._order[self._bounds[number] : self._bounds[number + 1]]
        return rows

    def by_relation(self, number: int) -> np.ndarray:
        """Rows with an entity, relation by relation, those with it as head first; a loop stands once."""
        rows = self.rows_of(number)
        rows = rows[np.sort(np.unique(rows, return_index=True)[1])]
        ordered: np.ndarray = rows[np.argsort(self.triples[rows, 1], kind="stable")]
        return ordered

    def facts(self, name: str, relation: str | None, place: Place | None, limit: int, offset: int = 0) -> schemas.Facts:
        """Facts of an entity, some of all. Raises NoSuchName."""
        number = self.entities.id_of(name)
        rows = self.by_relation(number)
        if relation is not None:
            rows = rows[self.triples[rows, 1] == self.relations.id_of(relation)]
        if place is not None:
            rows = rows[self.triples[rows, 0 if place == "head" else 2] == number]
        page = rows[offset : offset + limit]
        return schemas.Facts(
            run=self.stamp,
            entity=self.entity(number),
            facts=[self.fact(row) for row in page.tolist()],
            total=len(rows),
            next=next_offset(offset, len(page), len(rows)),
        )

    def panel(self, name: str) -> schemas.EntityPanel:
        """An entity with its facts by relation, those with most facts first. Raises NoSuchName."""
        number = self.entities.id_of(name)
        rows = self.by_relation(number)
        groups = []
        places: tuple[tuple[Place, int, np.ndarray], ...] = (("head", 0, self.one_tail), ("tail", 2, self.one_head))
        for place, column, single in places:
            mine = rows[self.triples[rows, column] == number]
            for relation in np.unique(self.triples[mine, 1]).tolist():
                part = mine[self.triples[mine, 1] == relation]
                groups.append(
                    schemas.FactGroup(
                        relation=self.relation(relation),
                        place=place,
                        known=len(part),
                        single=bool(single[relation]),
                        facts=[self.fact(row) for row in part[:FIRST_FACTS].tolist()],
                    )
                )
        groups.sort(key=lambda group: (-group.known, group.relation.title))
        return schemas.EntityPanel(
            run=self.stamp, entity=self.entity(number), description=None, groups=groups, total=len(rows)
        )

    def suggestions(self, name: str) -> schemas.Suggestions:
        """What may be asked of an entity. Raises NoSuchName."""
        number = self.entities.id_of(name)
        found = self.questions_of(number)
        return schemas.Suggestions(run=self.stamp, entity=self.entity(number), suggestions=found)

    def questions_of(self, number: int) -> list[schemas.Suggestion]:
        """Relations that an entity may be asked for, those with facts first."""
        rows = self.triples[self.rows_of(number)]
        found = []
        places: tuple[tuple[Place, np.ndarray, int, np.ndarray], ...] = (
            ("head", self.plausible_heads, 0, self.one_tail),
            ("tail", self.plausible_tails, 2, self.one_head),
        )
        for place, plausible, column, single in places:
            counts = np.bincount(rows[rows[:, column] == number, 1], minlength=len(self.run.relations))
            for relation in np.flatnonzero(plausible[number] | (counts > 0)).tolist():
                found.append(
                    schemas.Suggestion(
                        relation=self.relations.titles[relation],
                        relation_label=self.run.relations.labels[relation],
                        place=place,
                        known=int(counts[relation]),
                        single=bool(single[relation]),
                    )
                )
        found.sort(key=lambda each: (-each.known, each.relation))
        return found

    def list_relations(self, limit: int, offset: int) -> schemas.Relations:
        """Relations, most facts first."""
        order = np.argsort(-self.counts, kind="stable")
        page = order[offset : offset + limit].tolist()
        return schemas.Relations(
            run=self.stamp,
            relations=[self._listed(number) for number in page],
            total=len(order),
            next=next_offset(offset, len(page), len(order)),
        )

    def _listed(self, number: int) -> schemas.ListedRelation:
        heads, tails = self.side_type(number, 0), self.side_type(number, 2)
        return schemas.ListedRelation(**dict(self.relation(number)), heads_type=heads, tails_type=tails)


def next_offset(offset: int, given: int, total: int) -> int | None:
    """Where the next page begins; None where this was the last one."""
    after = offset + given
    return after if given and after < total else None
