"""Why a model believes a fact: the edges whose messages carried its score, and what happens without them.

Every message has a weight, 1 / c. The gradient of the fact's log share among all candidates with respect to weights,
over all layers at once, says which edges matter; the first of them are then taken out one by one, the graph around the
fact is encoded again, and they are put into the order of what is lost. An edge and its inverse are one fact. Works for
every encoder, since all of them sum messages by the graph's weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuckerkg.answers import Answers
from tuckerkg.graph import Normalise, TracedGraph, edge_weights
from tuckerkg.model import Encoded, Model
from tuckerkg.names import Names
from tuckerkg.paths import Path, supporting_paths
from tuckerkg.triples import add_inverses
from tuckerkg.validation import whole_message_graph

TAKEN_OUT = 24  # facts that are taken out one by one to find their order


@dataclass(frozen=True)
class Standing:
    """How the fact stands: its score, its log share among all candidates, its rank among those not known already."""

    score: float
    log_share: float
    rank: int


@dataclass(frozen=True)
class Edge:
    """A fact of the graph that carried the score: ``loss`` of the log share is lost where it alone is taken out.

    ``standing`` is how the explained fact stands without it, the whole graph encoded again.
    """

    head: str
    relation: str
    tail: str
    loss: float
    standing: Standing

    def sentence(self) -> str:
        """The fact as words."""
        return f"{self.head} {self.relation} {self.tail}"


@dataclass(frozen=True)
class WordPath:
    """A path in names; ``steps`` are (from, relation, to, whether the edge points forwards)."""

    steps: tuple[tuple[str, str, str, bool], ...]
    confidence: float
    walks: int

    def sentence(self) -> str:
        """``A -relation-> B <-relation- C``."""
        text = self.steps[0][0]
        for _, relation, to, forwards in self.steps:
            text += f" -{relation}-> {to}" if forwards else f" <-{relation}- {to}"
        return text


@dataclass(frozen=True)
class Explanation:
    """Why the model believes a fact, in names. ``without_all`` is how it stands without every edge named here."""

    head: str
    relation: str
    tail: str
    probability: float
    known: bool
    standing: Standing
    candidates: int
    edges: tuple[Edge, ...]
    without_all: Standing | None
    paths: tuple[WordPath, ...]
    uses_messages: bool

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class _Around:
    """The edges ``ids`` of all ``edges [2n, 3]``; edge i and its inverse i + n are one fact."""

    def __init__(self, edges: Tensor, ids: Tensor, num_entities: int, normalise: Normalise) -> None:
        self.edges, self.ids, self.num_entities, self.normalise = edges, ids, num_entities, normalise
        self._graph: TracedGraph | None = None

    def graph(self, device: torch.device) -> TracedGraph:
        """The edges' graph, prepared once."""
        if self._graph is None:
            self._graph = TracedGraph(self.edges[self.ids].to(device), self.num_entities)
        return self._graph

    def weights(self, without: int | None = None) -> Tensor:
        """1 / c of every edge, in double precision; those of the fact ``without`` are 0 and do not count."""
        gone = torch.tensor([] if without is None else [without, without + len(self.edges) // 2], dtype=torch.long)
        if self.normalise == "symmetric":  # needs what leaves every source, near or far
            kept = torch.ones(len(self.edges), dtype=torch.bool)
            kept[gone] = False
            weights = torch.zeros(len(self.edges), dtype=torch.double)
            weights[kept] = edge_weights(self.edges[kept], self.num_entities, self.normalise)
            return weights[self.ids]
        kept = ~torch.isin(self.ids, gone)  # all edges that reach an entity are here, or none
        weights = torch.zeros(len(self.ids), dtype=torch.double)
        weights[kept] = edge_weights(self.edges[self.ids[kept]], self.num_entities, self.normalise)
        return weights


class Explainer:
    """Explains facts of one model over its training graph."""

    def __init__(self, encoded: Encoded, train: np.ndarray, known: Answers) -> None:
        self.encoded, self.train, self.known = encoded, train, known
        self.model: Model = encoded.model
        encoder: Any = self.model.encoder
        self.uses_messages: bool = encoder.uses_graph
        self.edges = torch.from_numpy(add_inverses(train, self.model.num_relations))  # [2n, 3], fact i is i and i + n
        self.answers = Answers.of(self.edges, 2 * self.model.num_relations)
        if self.uses_messages:
            self.normalise = encoder.normalise
            self.depth = len(encoder.layers)
            self.by_target = torch.argsort(self.edges[:, 2], stable=True)
            counts = torch.bincount(self.edges[:, 2], minlength=self.model.num_entities)
            self.reached = torch.cat([counts.new_zeros(1), counts.cumsum(0)])

    def standing(self, head: int, relation: int, tail: int, without: Sequence[int] = ()) -> Standing:
        """How the fact stands; with facts left out (rows of the training triples) the whole graph is encoded again."""
        encoded = self.encoded
        if len(without) and self.uses_messages:
            encoded = self.model.encoded(whole_message_graph(self.model, np.delete(self.train, list(without), 0)))
        return self._stands(
            encoded.queries(torch.tensor([head]), torch.tensor([relation])), encoded, head, relation, tail
        )

    def important(self, head: int, relation: int, tail: int, count: int) -> list[tuple[int, float]]:
        """The ``count`` facts that carried most: rows of the training triples, and the log share lost without each."""
        if not self.uses_messages or len(self.train) == 0:
            return []
        around = self._around((head, tail))
        carried = self._contributions(head, relation, tail, around)
        facts, places = torch.unique(around.ids % len(self.train), return_inverse=True)
        total = torch.zeros(len(facts), dtype=carried.dtype).index_add_(0, places, carried)
        first = facts[total.topk(min(max(TAKEN_OUT, count), len(facts))).indices]
        before = self._log_share(head, relation, tail, around, around.weights())
        lost = []
        for fact in first.tolist():
            after = self._log_share(head, relation, tail, around, around.weights(without=fact))
            lost.append((fact, before - after))
        return sorted(lost, key=lambda found: -found[1])[:count]

    def paths(self, head: int, relation: int, tail: int, count: int) -> list[Path]:
        """Supporting paths; see ``paths.py``."""
        return supporting_paths(self.answers, head, relation, tail, count)

    def _around(self, ends: Sequence[int]) -> _Around:
        """The edges whose messages reach ``ends`` through all layers."""
        targets = torch.tensor(sorted(set(ends)))
        for layer in range(self.depth):
            ids = torch.cat([self.by_target[self.reached[v] : self.reached[v + 1]] for v in targets.tolist()])
            if layer < self.depth - 1:
                targets = torch.unique(torch.cat([targets, self.edges[ids, 0]]))
        return _Around(self.edges, ids.sort().values, self.model.num_entities, self.normalise)

    def _log_share_of(self, entities: Tensor, relations: Tensor, head: int, relation: int, tail: int) -> Tensor:
        """The fact's log share, with head and tail as they are in ``entities`` and all others as they were."""
        model = self.model
        place = torch.tensor([relation], device=entities.device)
        query = model.query(entities[head : head + 1], relations, place)
        compare, queries, candidates = model.comparison(query, self.encoded.entities)
        scores = compare(queries, candidates)[0]
        compare, queries, candidate = model.comparison(query, entities[tail : tail + 1], slice(tail, tail + 1))
        own = compare(queries, candidate)[0, 0]
        others = torch.cat([scores[:tail], scores[tail + 1 :], own[None]])
        return own - torch.logsumexp(others, 0)

    def _contributions(self, head: int, relation: int, tail: int, around: _Around) -> Tensor:
        """Weight times gradient of each edge of ``around``, over all layers."""
        leaf = around.weights().to(self.model.entities).requires_grad_()
        with torch.enable_grad():
            share = self._log_share_of(*self._encode(around, leaf), head, relation, tail)
            (gradient,) = torch.autograd.grad(share, leaf)
        return (gradient * leaf).detach().double().cpu()

    @torch.no_grad()
    def _log_share(self, head: int, relation: int, tail: int, around: _Around, weights: Tensor) -> float:
        return float(self._log_share_of(*self._encode(around, weights.to(self.model.entities)), head, relation, tail))

    def _encode(self, around: _Around, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Entities and relations after the messages of ``around`` alone; right where all that reach one are there."""
        self.model.eval()
        return self.model.encode(around.graph(weights.device).weighed(weights))

    def _stands(self, query: Tensor, encoded: Encoded, head: int, relation: int, tail: int) -> Standing:
        scores = encoded.compare(query)[0].cpu()
        _, known = self.known.find(torch.tensor([head]), torch.tensor([relation]))
        share = float(scores[tail] - torch.logsumexp(scores, 0))
        open_scores = scores.clone()
        open_scores[known] = -torch.inf
        return Standing(float(scores[tail]), share, 1 + int((open_scores > scores[tail]).sum()))


def in_words(
    explainer: Explainer,
    entities: Names,
    relations: Names,
    fact: tuple[int, int, int],
    probability: float,
    known: bool,
    count: int = 5,
    tick: Callable[[int, int], None] | None = None,
) -> Explanation:
    """Explains ``fact`` of ids with its ``count`` first edges and paths."""
    rows = [row for row, _ in explainer.important(*fact, count)]
    standing = explainer.standing(*fact)
    edges = []
    for place, row in enumerate(rows):
        head, relation, tail = (int(number) for number in explainer.train[row])
        names = entities.shown(head), relations.shown(relation), entities.shown(tail)
        without = explainer.standing(*fact, without=[row])
        edges.append(Edge(*names, standing.log_share - without.log_share, without))
        if tick is not None:
            tick(place + 1, len(rows) + 1)
    head, relation, tail = fact
    return Explanation(
        head=entities.shown(head),
        relation=relations.shown(relation),
        tail=entities.shown(tail),
        probability=probability,
        known=known,
        standing=standing,
        candidates=len(entities),
        edges=tuple(sorted(edges, key=lambda edge: -edge.loss)),
        without_all=explainer.standing(*fact, without=rows) if rows else None,
        paths=tuple(_worded(path, entities, relations) for path in explainer.paths(*fact, count)),
        uses_messages=explainer.uses_messages,
    )


def _worded(path: Path, entities: Names, relations: Names) -> WordPath:
    steps = []
    for start, relation, end in zip(path.entity_ids, path.relation_ids, path.entity_ids[1:], strict=False):
        name = relations.shown(relation % len(relations))
        steps.append((entities.shown(start), name, entities.shown(end), relation < len(relations)))
    return WordPath(tuple(steps), path.confidence, path.walks)
