"""Why a fact is predicted: the edges that carried its score, what happens without them, and supporting paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape

import numpy as np
import torch

from tuckerkg.data.labels import Labels
from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.evaluation.ranking import score_chunks
from tuckerkg.explain.paths import Path, carrying_paths, supporting_paths
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.nn.contracts import NamesPaths, ReadsEdges, Scorer
from tuckerkg.types import JsonObject, ProgressFunction


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
    """A path in names; ``steps`` are (from, relation, to, whether the edge points forwards).

    ``share`` is its part of the score; None where scores do not come along paths.
    """

    steps: tuple[tuple[str, str, str, bool], ...]
    confidence: float
    walks: int
    share: float | None = None

    def sentence(self) -> str:
        """``A -relation-> B <-relation- C``."""
        text = self.steps[0][0]
        for _, relation, to, forwards in self.steps:
            text += f" -{relation}-> {to}" if forwards else f" <-{relation}- {to}"
        return text

    def evidence(self, relation: str) -> str:
        """What speaks for it: its share of the score, and how often a path of its kind leads to ``relation``."""
        kind = f"{self.confidence:.0%} of {self.walks:,} such paths end at a true {relation}"
        return kind if self.share is None else f"{self.share:.0%} of the score; {kind}"


@dataclass(frozen=True)
class Explanation:
    """Why a fact is predicted, in names.

    ``without_all`` is its standing without all of these edges. ``typed``: whether the tail has been seen in that place
    of the relation; ranks are over all entities, and typed answers leave others out.
    """

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
    typed: bool = True

    def _repr_html_(self) -> str:
        """Edges and paths as lists, for notebooks."""
        fact = escape(f"{self.head} {self.relation} {self.tail}")
        edges = "".join(f"<li>{escape(edge.sentence())} ({edge.loss:+.3f})</li>" for edge in self.edges)
        paths = "".join(f"<li>{escape(path.sentence())} ({path.evidence(self.relation)})</li>" for path in self.paths)
        return (
            f"<p><b>{fact}</b>: {self.probability:.1%}, rank {self.standing.rank:,} of {self.candidates:,}</p>"
            f"<p>Edges that carried it, and the log share lost without each:</p><ol>{edges}</ol>"
            f"<p>Supporting paths:</p><ol>{paths}</ol>"
        )

    def as_dict(self) -> JsonObject:
        """For JSON."""
        return asdict(self)


class Explainer:
    """Explains facts of one scorer over its training graph.

    Args:
        scorer: any scorer; one that ``ReadsEdges`` also names the edges that carried a score.
        train: training triples ``[n, 3]``.
        known: known tails of both directions.
    """

    def __init__(self, scorer: Scorer, train: np.ndarray, known: KnownTails) -> None:
        self.scorer, self.train, self.known = scorer, train, known
        edges = torch.from_numpy(add_inverses(train, scorer.num_relations))
        self.train_tails = KnownTails.of(edges, 2 * scorer.num_relations)
        self.uses_messages = isinstance(scorer, ReadsEdges) and scorer.reads_edges

    def standing(self, head: int, relation: int, tail: int, without: Sequence[int] = ()) -> Standing:
        """Score, log share and rank of a fact, over the training graph without the rows ``without``."""
        scorer = self.scorer
        if len(without) and isinstance(scorer, ReadsEdges):
            scorer = scorer.without(without)
        (chunk,) = score_chunks(scorer, torch.tensor([head]), torch.tensor([relation]), self.known)
        own = chunk.scores[0, tail].clone()
        share = float(own - torch.logsumexp(chunk.scores[0], 0))
        return Standing(float(own), share, 1 + int((chunk.hide_known()[0] > own).sum()))

    def important(self, head: int, relation: int, tail: int, count: int) -> list[tuple[int, float]]:
        """The ``count`` facts that carried most: rows of the training triples, and the log share lost without each."""
        if not isinstance(self.scorer, ReadsEdges):
            return []
        return self.scorer.important_edges(head, relation, tail, count)

    def paths(self, head: int, relation: int, tail: int, count: int) -> list[Path]:
        """The paths that carried the score, where it came along paths; else supporting ones, see ``paths.py``.

        Messages may also have lowered a score along every path, or a blend may not ask its path models for a relation:
        then nothing carried it.
        """
        if isinstance(self.scorer, NamesPaths) and self.scorer.names_paths:
            found = self.scorer.strongest_paths(head, relation, tail, count)
            if found:
                return carrying_paths(self.train_tails, found, relation)
        return supporting_paths(self.train_tails, head, relation, tail, count)


def explain_fact(
    explainer: Explainer,
    entities: Labels,
    relations: Labels,
    fact: tuple[int, int, int],
    probability: float,
    known: bool,
    count: int = 5,
    progress: ProgressFunction | None = None,
) -> Explanation:
    """Explain ``fact`` of ids with its ``count`` first edges and paths."""
    rows = [row for row, _ in explainer.important(*fact, count)]
    standing = explainer.standing(*fact)
    edges = []
    for place, row in enumerate(rows):
        head, relation, tail = (int(number) for number in explainer.train[row])
        names = entities.shown(head), relations.shown(relation), entities.shown(tail)
        without = explainer.standing(*fact, without=[row])
        edges.append(Edge(*names, standing.log_share - without.log_share, without))
        if progress is not None:
            progress(place + 1, len(rows) + 1)
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


def _worded(path: Path, entities: Labels, relations: Labels) -> WordPath:
    steps = []
    for start, relation, end in zip(path.entity_ids, path.relation_ids, path.entity_ids[1:], strict=False):
        name = relations.shown(relation % len(relations))
        steps.append((entities.shown(start), name, entities.shown(end), relation < len(relations)))
    return WordPath(tuple(steps), path.confidence, path.walks, path.share)
