"""The facts that people are shown: the best answers to questions that make sense, whether they have one or not.

Probabilities are fitted on these, not only on questions that are known to have an answer, and measured on these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.evaluation.ranking import ScoredChunk, score_chunks
from tuckerkg.graph.known_tails import KnownTails, rows_of
from tuckerkg.kernels.topk import top_of_rows
from tuckerkg.nn.contracts import Scorer
from tuckerkg.probability.features import GraphFacts
from tuckerkg.probability.shares import distinct_questions

CANDIDATES = 10  # of each question
OTHERS = 2  # answers of a question that are not among these, in a sample of all
PROMISE_SCORES = 4 * 10**9  # computed to find promising questions, at most
SENSELESS = 0.05  # questions that make no sense, for each one that does: they are asked too
Guess: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Sample:
    """How many questions are asked, and how many shown facts are kept, about.

    Each of these costs a question in the other direction. For each fact that is kept because it may be believed,
    ``evenly`` are kept whether they may or not, so that no importance weight is very large.

    Args:
        promise: finds questions whose answers are believed, at little cost; they are asked more often. Of questions
            ``[Q, 2]`` it gives the logits ``[Q]`` of their best unknown answers.
        belief: gives facts ``[n, 3]`` logits ``[n]``, at little cost; facts that it believes are kept more often.
    """

    questions: int = 10**6
    facts: int = 10**9
    promise: Guess | None = None
    belief: Guess | None = None
    evenly: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Shown:
    """n facts that were shown as answers, with their shares of both questions."""

    facts: Tensor  # [n, 3] relation below R
    asked_tail: Tensor  # [n] whether the tail was asked for, else the head
    shares: Tensor  # [n, 2] log share of the tail question and of the head question
    weights: Tensor  # [n] importance weights of the sample
    among_best: Tensor  # [n] whether they are among the best answers to the question, else one of all others

    def rows(self, chosen: Tensor) -> Shown:
        """Some of them."""
        return Shown(*(column[chosen] for column in vars(self).values()))


def shown_facts(
    scorer: Scorer,
    graph: GraphFacts,
    held_out: np.ndarray,
    sample: Sample,
    *,
    typed: bool = True,
    all_answers: bool = False,
) -> Shown:
    """A sample of the facts that are shown, or of all that could be.

    Args:
        held_out: facts whose questions are asked more often than others, and that are kept where they are shown; the
            weights make up for it.
        sample: how many.
        typed: take answers that have been seen in that place of the relation, where the question makes sense.
        all_answers: sample those that are not among a question's best, too.
    """
    generator = torch.Generator().manual_seed(sample.seed)
    queries, weights = sample_questions(graph, held_out, sample.questions, generator, sample.promise)
    deep = (KnownTails.from_splits([held_out], graph.num_relations), generator) if all_answers else None
    shown = _answers(scorer, graph, queries, weights, typed, deep)
    is_held = are_in(shown.facts, held_out, graph)
    own = torch.where(shown.asked_tail, shown.shares[:, 0], shown.shares[:, 1])
    believed = torch.exp(own) + 0.02 * torch.exp(0.5 * own)
    if sample.belief is not None:
        believed = torch.maximum(believed, torch.sigmoid(sample.belief(shown.facts)))
    believed = believed * shown.weights
    evenly = shown.weights * (sample.evenly * believed.sum() / shown.weights.sum().clamp(min=1e-300))
    chance = _chances(believed + evenly, sample.facts)
    chance[is_held] = 1.0
    kept = torch.rand(len(chance), generator=generator, dtype=torch.float64) < chance
    return _with_other_shares(scorer, graph, replace(shown, weights=shown.weights / chance).rows(kept), typed)


def sample_questions(
    graph: GraphFacts, held_out: np.ndarray, most: int, generator: torch.Generator, promise: Guess | None = None
) -> tuple[Tensor, Tensor]:
    """Questions ``[Q, 2]`` of both directions and their importance weights ``[Q]``.

    All that make sense, or a sample of about ``most``, the more of them the more their answers may be believed: by
    ``promise``, or else by what ``held_out`` answers. Some make no sense.
    """
    pairs = graph.plausible.nonzero()  # [P, 2]
    weights = torch.ones(len(pairs), dtype=torch.float64)
    if len(pairs) > most and promise is not None:
        pairs, weights = _by_answers(graph, pairs, held_out, max(most, PROMISE_SCORES // graph.num_entities), generator)
        kept, importance = _drawn(torch.sigmoid(promise(pairs)) * weights, most, generator)
        pairs, weights = pairs[kept], weights[kept] * importance
    elif len(pairs) > most:
        pairs, weights = _by_answers(graph, pairs, held_out, most, generator)
    count = max(1, int(SENSELESS * len(pairs)))
    drawn_pairs = torch.stack(
        [torch.randint(size, (4 * count,), generator=generator) for size in graph.plausible.shape], 1
    )
    senseless = drawn_pairs[~graph.plausible[drawn_pairs[:, 0], drawn_pairs[:, 1]]][:count]
    return torch.cat([pairs, senseless]), torch.cat([weights, torch.ones(len(senseless), dtype=torch.float64)])


def _by_answers(
    graph: GraphFacts, pairs: Tensor, held_out: np.ndarray, most: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """A sample of ``pairs [P, 2]`` and its importance weights.

    Half of it of those that ``held_out`` answers, of the others the more of a kind the more of its questions
    ``held_out`` answers.
    """
    if len(pairs) <= most:
        return pairs, torch.ones(len(pairs), dtype=torch.float64)
    keys = pairs[:, 0] * 2 * graph.num_relations + pairs[:, 1]
    asked = add_inverses(held_out, graph.num_relations)
    has = torch.from_numpy(np.isin(keys.numpy(), asked[:, 0] * 2 * graph.num_relations + asked[:, 1]))
    answered = _some(has.nonzero()[:, 0], most // 2, generator)
    rest = (~has).nonzero()[:, 0]
    drawn, importance = _drawn(_often_answered(graph, pairs, has)[rest], most - len(answered), generator)
    weights = torch.empty(len(pairs), dtype=torch.float64)
    weights[answered], weights[rest[drawn]] = int(has.sum()) / max(len(answered), 1), importance
    chosen = torch.cat([answered, rest[drawn]]).sort().values
    return pairs[chosen], weights[chosen]


def _drawn(size: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """About ``count`` places of ``size [n]`` and their importance weights: the larger, the likelier.

    Half of them are drawn at random, so that no importance weight is large.
    """
    chance = _chances(size + size.mean(), count)
    drawn = (torch.rand(len(size), generator=generator, dtype=torch.float64) < chance).nonzero()[:, 0]
    return drawn, 1.0 / chance[drawn]


def _chances(size: Tensor, count: int) -> Tensor:
    """Chances ``[n]`` in proportion to ``size [n]``, at most 1, that add up to ``count`` as far as they can."""
    chance = torch.ones_like(size)
    rest = torch.ones_like(size, dtype=torch.bool)
    while int(rest.sum()) > (left := count - int((~rest).sum())):
        chance[rest] = size[rest] * (left / size[rest].sum().clamp(min=1e-300))
        over = rest & (chance >= 1.0)
        if not over.any():
            return chance
        chance[over], rest = 1.0, rest & ~over
    return torch.ones_like(size)


def _often_answered(graph: GraphFacts, pairs: Tensor, has: Tensor) -> Tensor:
    """The root of how often questions of a kind are answered, ``[P]``: of a relation, with known answers or without."""
    kinds = 2 * pairs[:, 1] + (graph.known.counts(pairs[:, 0], pairs[:, 1]) > 0).long()
    count, answered = (torch.bincount(part, minlength=4 * graph.num_relations) for part in (kinds, kinds[has]))
    return ((answered + 0.5) / (count + 1.0)).double().sqrt()[kinds]


def _some(values: Tensor, count: int, generator: torch.Generator) -> Tensor:
    return values[torch.randperm(len(values), generator=generator)[:count]]


def _answers(
    scorer: Scorer,
    graph: GraphFacts,
    queries: Tensor,
    weights: Tensor,
    limited: bool,
    deep: tuple[KnownTails, torch.Generator] | None,
) -> Shown:
    """The best unknown answers to ``queries [Q, 2]``; if ``limited``, to those that make sense, of the right type.

    With ``deep``, held-out facts and a generator, also the held-out ones among the other answers of the right type, and
    a random sample of the others with its importance weights.
    """
    found = []
    for chunk in score_chunks(scorer, queries[:, 0], queries[:, 1], graph.known):
        totals = torch.logsumexp(chunk.scores, 1).double()
        typed = _leave_answers(chunk, graph, limited)
        scores = chunk.scores
        best, places = top_of_rows(scores, min(CANDIDATES, scorer.num_entities))
        rows, columns = (best > -torch.inf).nonzero().unbind(1)
        parts = [(rows, places[rows, columns], torch.ones(len(rows), dtype=torch.float64))]
        if deep is not None:
            parts += _others(chunk, graph, best[:, -1], typed, *deep)
        among_best = torch.arange(sum(len(part[0]) for part in parts)) < len(rows)
        rows, answers, importance = (torch.cat(column) for column in zip(*parts, strict=True))
        share = scores[rows, answers].double() - totals[rows]
        asked = chunk.heads[rows], chunk.relation_ids[rows]
        found.append((*asked, answers, share, importance * weights[chunk.first + rows], among_best))
    if not found:
        none = torch.empty(0, dtype=torch.float64)
        return Shown(none.long().view(0, 3), none.bool(), none.view(0, 2), none, none.bool())
    anchors, relation_ids, answers, share, importance, among_best = (
        torch.cat(column) for column in zip(*found, strict=True)
    )
    asked_tail = relation_ids < graph.num_relations
    heads, tails = torch.where(asked_tail, anchors, answers), torch.where(asked_tail, answers, anchors)
    facts = torch.stack([heads, relation_ids % graph.num_relations, tails], 1)
    missing = torch.full_like(share, torch.nan)
    shares = torch.stack([torch.where(asked_tail, share, missing), torch.where(asked_tail, missing, share)], 1)
    return Shown(facts, asked_tail, shares, importance, among_best)


def _others(
    chunk: ScoredChunk,
    graph: GraphFacts,
    least: Tensor,
    typed: Tensor,
    held_out: KnownTails,
    generator: torch.Generator,
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Answers that are not shown: rows, answers, importance weights. ``least [b]`` is the last shown score."""
    offsets, tails = held_out.find(chunk.heads, chunk.relation_ids)
    rows = rows_of(offsets)
    left = (chunk.scores[rows, tails] > -torch.inf) & (chunk.scores[rows, tails] < least[rows])
    rows, tails = rows[left], tails[left]
    found = [(rows, tails, torch.ones(len(rows), dtype=torch.float64))]
    slots = chunk.relation_ids[typed]
    starts, sizes = graph.types.offsets[slots], graph.types.offsets[slots + 1] - graph.types.offsets[slots]
    draw = torch.rand(len(typed), OTHERS, generator=generator, dtype=torch.float64)
    places = starts[:, None] + torch.minimum((draw * sizes[:, None]).long(), (sizes[:, None] - 1).clamp(min=0))
    rows, answers = typed.repeat_interleave(OTHERS), graph.types.entity_ids[places].flatten()
    importance = (sizes / OTHERS).double().repeat_interleave(OTHERS)
    scores = chunk.scores[rows, answers]
    other = (scores > -torch.inf) & (scores < least[rows])
    other &= ~held_out.hold(chunk.heads[rows], chunk.relation_ids[rows], answers)
    return [*found, (rows[other], answers[other], importance[other])]


def _with_other_shares(scorer: Scorer, graph: GraphFacts, shown: Shown, limited: bool) -> Shown:
    """With the share of the question that was not asked.

    Facts that are not among the best answers to the question asked, and are among those to the other one, are left out:
    there they are shown too, with a weight that is not that of a few among thousands.
    """
    heads, relation_ids, tails = shown.facts.unbind(1)
    asked_tail = shown.asked_tail
    anchors, answers = torch.where(asked_tail, tails, heads), torch.where(asked_tail, heads, tails)
    reverse = relation_ids + graph.num_relations * asked_tail.long()
    other, shown_there = torch.empty(len(answers), dtype=torch.float64), torch.empty(len(answers), dtype=torch.bool)
    for chunk, rows, places in distinct_questions(scorer, anchors, reverse, graph.known):
        values = chunk.scores[places, answers[rows]]
        other[rows] = values.double() - torch.logsumexp(chunk.scores, 1).double()[places]
        _leave_answers(chunk, graph, limited)
        best, _ = top_of_rows(chunk.scores, min(CANDIDATES, scorer.num_entities))
        shown_there[rows] = chunk.scores[places, answers[rows]] >= best[places, -1]
    shares = torch.where(torch.isnan(shown.shares), other[:, None], shown.shares)
    return replace(shown, shares=shares).rows(shown.among_best | ~shown_there)


def _leave_answers(chunk: ScoredChunk, graph: GraphFacts, limited: bool) -> Tensor:
    """Hide known answers; if ``limited``, those of another type too, where the question makes sense: these rows."""
    scores = chunk.hide_known()
    makes_sense = graph.plausible[chunk.heads, chunk.relation_ids] & limited
    typed = makes_sense.nonzero()[:, 0]
    part = scores[typed]
    graph.types.leave_only(part, chunk.heads[typed], chunk.relation_ids[typed])
    scores[typed] = part
    return typed


def keys_of(facts: Tensor, graph: GraphFacts) -> Tensor:
    """A number for each of ``facts [n, 3]``."""
    return (facts[:, 0] * graph.num_relations + facts[:, 1]) * graph.num_entities + facts[:, 2]


def are_in(facts: Tensor, triples: np.ndarray, graph: GraphFacts) -> Tensor:
    """Which of ``facts [n, 3]`` are among ``triples``, ``[n]``."""
    return torch.from_numpy(np.isin(keys_of(facts, graph).numpy(), keys_of(torch.from_numpy(triples), graph).numpy()))
