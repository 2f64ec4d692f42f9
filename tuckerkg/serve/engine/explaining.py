"""Why a fact is believed, with labels beside titles, in steps between which others get their turn."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from tuckerkg.explain.explainer import Standing
from tuckerkg.explain.paths import Path, path_confidence, supporting_paths
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.serve.engine.links import Links
from tuckerkg.serve.engine.slices import Pause, least_seconds, no_pause
from tuckerkg.serve.schemas import links as schemas
from tuckerkg.serve.schemas.asked import Asked, AskedWhy
from tuckerkg.serve.schemas.graph import Answer, JudgedFact

KEPT_REASONS, KEPT_KINDS = 10_000, 100_000
REASON_KINDS = 20  # kinds of path that are weighed for a reason in one line


class Explaining:
    """Explains facts of one run, one at a time: gradients are kept in the model."""

    def __init__(self, links: Links) -> None:
        self.links, self.graph, self.run = links, links.graph, links.run
        self.explainer = self.run.explainer
        self._one_at_a_time = Lock()
        self.edge_seconds = self._measured()
        self._kinds: dict[tuple[tuple[int, ...], int], tuple[float, int]] = {}
        self._reasons: OrderedDict[tuple[int, int, int], str | None] = OrderedDict()

    def _measured(self) -> float:
        """Seconds to score a fact without one edge."""
        if not self.explainer.uses_messages:
            return 0.0
        head, relation, tail = self.explainer.train[0].tolist()
        return least_seconds(lambda: self.explainer.standing(head, relation, tail, without=[0]), times=1)

    def explain(self, asked: AskedWhy, pause: Pause = no_pause) -> schemas.Explanation:
        """Explain a fact.

        Raises:
            NoSuchName: of one of its ends, or of the relation.
        """
        fact = self.links.fact_ids(asked)
        (judged,) = self.links.judge([fact], pause)
        explainer = self.explainer
        with self._one_at_a_time:
            pause()
            rows = [row for row, _ in explainer.important(*fact, asked.k)]
        pause()
        standing = explainer.standing(*fact)
        edges = []
        for row in rows:
            pause()
            without = explainer.standing(*fact, without=[row])
            named = self.graph.named(*(int(number) for number in explainer.train[row]))
            edges.append(
                schemas.Edge(**named, loss=standing.log_share - without.log_share, standing=_standing(without))
            )
        pause()
        without_all = _standing(explainer.standing(*fact, without=rows)) if rows else None
        pause()
        paths = [self._path(path) for path in explainer.paths(*fact, asked.k) if _is_simple(path)]
        return schemas.Explanation(
            run=self.graph.stamp,
            fact=JudgedFact(**judged),
            probability=judged["probability"],
            known=judged["known"],
            standing=_standing(standing),
            candidates=len(self.run.entities),
            typed=self.links.predictor.lists(*fact),
            uses_messages=explainer.uses_messages,
            edges=sorted(edges, key=lambda edge: -edge.loss),
            without_all=without_all,
            paths=paths,
            rival=self._rival(asked, fact, pause),
        )

    def _rival(self, asked: AskedWhy, fact: tuple[int, int, int], pause: Pause) -> Answer | None:
        """The most probable other tail that the graph does not hold."""
        (found,) = self.links.answer([Asked(head=asked.head, relation=asked.relation, k=2)], pause)
        own = self.run.entities.labels[fact[2]]
        if isinstance(found, list):
            for row in found:
                if row["tail_label"] != own:
                    return Answer(**row)
        return None

    def _path(self, path: Path) -> schemas.Path:
        entities, relations = self.graph.entities, self.graph.relations
        steps = []
        for start, number, end in zip(path.entity_ids, path.relation_ids, path.entity_ids[1:], strict=False):
            relation = number % len(self.run.relations)
            steps.append(
                schemas.Step(
                    from_=entities.titles[start],
                    from_label=entities.labels.labels[start],
                    relation=relations.titles[relation],
                    relation_label=relations.labels.labels[relation],
                    to=entities.titles[end],
                    to_label=entities.labels.labels[end],
                    forwards=number < len(self.run.relations),
                )
            )
        return schemas.Path(steps=steps, share=path.share, confidence=path.confidence, walks=path.walks)

    def reason(self, fact: tuple[int, int, int]) -> str | None:
        """What speaks for a fact in one line: the best path from head to tail; None where there is none."""
        if fact in self._reasons:
            return self._reasons[fact]
        answers = self.explainer.train_tails
        paths = [
            path
            for path in supporting_paths(answers, *fact, 1, kinds=REASON_KINDS, weigh=self._weigh)
            if _is_simple(path)
        ]
        found = None
        if paths:
            path = self._path(paths[0])
            text = path.steps[0].from_
            for step in path.steps:
                text += f" —{step.relation}→ {step.to}" if step.forwards else f" ←{step.relation}— {step.to}"
            found = f"{text}; {100 * path.confidence:.0f} % of such paths end at a true one"
        self._reasons[fact] = found
        while len(self._reasons) > KEPT_REASONS:
            self._reasons.popitem(last=False)
        return found

    def _weigh(self, answers: KnownTails, kind: tuple[int, ...], relation: int) -> tuple[float, int]:
        """How often a kind of path leads to a relation, kept: many facts have paths of one kind."""
        found = self._kinds.get((kind, relation))
        if found is None:
            if len(self._kinds) > KEPT_KINDS:
                self._kinds.clear()
            found = self._kinds[kind, relation] = path_confidence(answers, kind, relation)
        return found


def _standing(standing: Standing) -> schemas.Standing:
    return schemas.Standing(score=standing.score, log_share=standing.log_share, rank=standing.rank)


def _is_simple(path: Path) -> bool:
    """Whether no entity stands on it twice."""
    return len(set(path.entity_ids)) == len(path.entity_ids)
