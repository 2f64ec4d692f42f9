"""Searching and looking around: entities by name, whole questions, what is near an entity."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np
import torch

from tuckerkg.errors import TuckerkgError
from tuckerkg.nn.contracts import HasVectors
from tuckerkg.serve.engine.flat import in_plane
from tuckerkg.serve.engine.graph import GraphView, next_offset
from tuckerkg.serve.engine.names import folded
from tuckerkg.serve.schemas import graph as schemas
from tuckerkg.serve.schemas.asked import Place

MOST_WAYS = 200_000  # facts that are followed for entities with common neighbours
READINGS = 3  # entities that the words of a question may mean


class Around:
    """Finds entities and relations in a graph."""

    def __init__(self, graph: GraphView) -> None:
        self.graph, self.run = graph, graph.run

    # ------------------------------------------------------------------------------------------ by name

    def search(self, text: str, limit: int, offset: int = 0) -> schemas.Entities:
        """Entities whose name holds ``text``, the well connected first; near names where none does."""
        graph = self.graph
        ids, fit = graph.entities.holding(text)
        near = not len(ids)
        order = graph.entities.near(text, limit) if near else ids[np.lexsort((-graph.degrees[ids], fit))].tolist()
        page = order[offset : offset + limit]
        return schemas.Entities(
            run=graph.stamp,
            entities=[graph.entity(number) for number in page],
            total=len(order),
            next=next_offset(offset, len(page), len(order)),
            near=near and bool(order),
        )

    def complete(self, text: str, limit: int) -> schemas.Completions:
        """Entities, relations and whole questions that ``text`` may be the beginning of."""
        graph = self.graph
        ids, fit = graph.relations.holding(text.replace("?", " ").strip())
        relations = ids[np.lexsort((-graph.counts[ids], fit))][:limit].tolist()
        words = text.replace("?", " ? ").split()
        questions = self._questions([word for word in words if word != "?"], words[:1] == ["?"], limit)
        found = self.search(text.replace("?", " ").strip(), limit)
        return schemas.Completions(
            run=graph.stamp,
            near=found.near,
            entities=found.entities,
            relations=[graph.relation(number) for number in relations],
            questions=questions,
        )

    def _questions(self, words: list[str], asks_head: bool, limit: int) -> list[schemas.WholeQuestion]:
        """Questions that the words may mean: an entity then a relation, or a relation then an entity."""
        found: dict[tuple[str, int, int], schemas.WholeQuestion] = {}
        for cut in range(len(words), -1, -1):
            first, second = " ".join(words[:cut]), " ".join(words[cut:])
            if not asks_head and first:
                self._readings(found, "head", first, second, limit)
            if second and (asks_head or first):
                self._readings(found, "tail", second, first, limit)
            if len(found) >= limit:
                break
        return list(found.values())[:limit]

    def _readings(
        self,
        found: dict[tuple[str, int, int], schemas.WholeQuestion],
        place: Place,
        entity_words: str,
        relation_words: str,
        limit: int,
    ) -> None:
        graph = self.graph
        ids, fit = graph.entities.holding(entity_words)
        # With a relation behind it the name must be whole, or nearly: "F" names half of the graph.
        wanted = fit <= (1 if place == "tail" or not relation_words else 0)
        ids, fit = ids[wanted], fit[wanted]
        for entity in ids[np.lexsort((-graph.degrees[ids], fit))][:READINGS].tolist():
            asked = [each for each in graph.questions_of(entity) if each.place == place]
            for each in asked:
                relation = self.run.relations.id_of(each.relation_label)
                if relation_words and not _begins(relation_words, graph.relations.titles[relation]):
                    continue
                if len(found) >= limit:
                    return
                shown = graph.entity(entity)
                text = f"{shown.title} {each.relation} ?" if place == "head" else f"? {each.relation} {shown.title}"
                found.setdefault(
                    (place, entity, relation),
                    schemas.WholeQuestion(place=place, entity=shown, relation=graph.relation(relation), text=text),
                )

    # ------------------------------------------------------------------------------------------ by facts

    def neighbourhood(
        self, name: str, hops: int, limit: int, relations: list[str] | None = None
    ) -> schemas.Neighbourhood:
        """Up to ``limit`` facts within ``hops`` of an entity, every relation in turn, nearer ones first.

        What is left at a distance is shared evenly with those behind it, so that an entity with many facts does not
        keep all of them for its own; what a distance has no use for goes to the next one.

        Raises:
            NoSuchName: of the entity, or of a relation.
        """
        graph = self.graph
        start = graph.entities.id_of(name)
        only = None if not relations else {graph.relations.id_of(each) for each in relations}
        distances, rows = {start: 0}, dict[int, None]()
        ring = [start]
        for distance in range(1, hops + 1):
            room = len(rows) + max(1, (limit - len(rows)) // (hops + 1 - distance))
            share = max(1, (room - len(rows)) // max(1, len(ring)))
            for number in ring:
                fresh = [row for row in self._varied(number, only) if row not in rows]
                for row in fresh[: min(share, room - len(rows), limit - len(rows))]:
                    rows[row] = None
                    for end in (int(graph.triples[row, 0]), int(graph.triples[row, 2])):
                        distances.setdefault(end, distance)
            ring = [number for number, found in distances.items() if found == distance]
        return schemas.Neighbourhood(
            run=graph.stamp,
            entities=[
                schemas.Neighbour(**graph.entity(number).model_dump(), distance=found)
                for number, found in distances.items()
            ],
            facts=[graph.fact(row) for row in rows],
            predicted=[],
            total=int(graph.degrees[start]),
        )

    def _varied(self, number: int, only: set[int] | None) -> list[int]:
        """The facts of an entity, one of each relation, then a second of each, and so on."""
        rows = self.graph.by_relation(number)
        relation_ids = self.graph.triples[rows, 1]
        if only is not None:
            wanted = np.isin(relation_ids, list(only))
            rows, relation_ids = rows[wanted], relation_ids[wanted]
        turns = np.arange(len(rows)) - np.searchsorted(relation_ids, relation_ids)
        return [int(row) for row in rows[np.argsort(turns, kind="stable")]]

    def nearest(self, name: str, limit: int) -> schemas.Nearest:
        """Entities whose vectors point the same way; without vectors, those that share most neighbours."""
        number = self.graph.entities.id_of(name)
        vectors = self._unit_vectors
        by: Literal["embedding", "neighbours"] = "neighbours" if vectors is None else "embedding"
        if vectors is None:
            likeness = self._shared_neighbours(number)
        else:
            likeness = (vectors @ vectors[number]).numpy().astype(np.float64)
        likeness[number] = -np.inf
        order = np.argsort(-likeness, kind="stable")[:limit]
        found = [
            schemas.SimilarEntity(
                **self.graph.entity(other).model_dump(), similarity=float(min(1.0, max(-1.0, likeness[other])))
            )
            for other in order.tolist()
            if likeness[other] > 0.0
        ]
        return schemas.Nearest(
            run=self.graph.stamp,
            entity=self.graph.entity(number),
            by=by,
            entities=found,
        )

    def plane(self, limit: int, name: str | None = None) -> schemas.Plane:
        """The entities with most facts, and one by name, where their vectors lie in a plane.

        Raises:
            TuckerkgError: the run has no vectors.
            NoSuchName: of the entity.
        """
        vectors = self._unit_vectors
        if vectors is None:
            raise TuckerkgError(
                "this run has no vectors of entities: its answers come from paths, or from several runs"
            )
        chosen = np.argsort(-self.graph.degrees, kind="stable")[:limit]
        if name is not None and (wanted := self.graph.entities.id_of(name)) not in chosen:
            chosen[-1] = wanted
        places, kept = in_plane(vectors[torch.from_numpy(chosen)])
        return schemas.Plane(
            run=self.graph.stamp,
            entities=[
                schemas.PlacedEntity(**self.graph.entity(number).model_dump(), x=x, y=y)
                for number, (x, y) in zip(chosen.tolist(), places.tolist(), strict=True)
            ],
            total=len(self.run.entities),
            variance=kept,
        )

    @cached_property
    def _unit_vectors(self) -> torch.Tensor | None:
        if self.run.members or not isinstance(self.run.scorer, HasVectors):
            return None
        vectors = self.run.scorer.vectors("encoded").detach().cpu().float()
        return torch.nn.functional.normalize(vectors, dim=1)

    def _shared_neighbours(self, number: int) -> np.ndarray:
        """Of each entity the share of (relation, side, neighbour) that it has in common with this one."""
        graph = self.graph
        shared = np.zeros(len(self.run.entities))
        left = MOST_WAYS
        rows = np.unique(graph.rows_of(number))
        ends = np.where(graph.triples[rows, 0] == number, graph.triples[rows, 2], graph.triples[rows, 0])
        for row in rows[np.argsort(graph.degrees[ends], kind="stable")].tolist():
            head, relation, tail = graph.triples[row].tolist()
            column, other = (2, head) if tail == number else (0, tail)
            ways = graph.triples[graph.rows_of(other)]
            if left < len(ways):
                break
            left -= len(ways)
            same = ways[(ways[:, 1] == relation) & (ways[:, 2 - column] == other)]
            shared[np.unique(same[:, column])] += 1.0
        return np.asarray(shared / np.maximum(graph.degrees + len(rows) - shared, 1.0))


def _begins(words: str, title: str) -> bool:
    """Whether the words, without accents and case, are the beginning of a title or of a word of it."""
    wanted, text = folded(words), folded(title)
    return text.startswith(wanted) or f" {wanted}" in text
