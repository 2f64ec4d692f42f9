"""A fact's share among all candidates of its question."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tuckerkg.evaluation.ranking import ScoredChunk, score_chunks
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.nn.contracts import Scorer
from tuckerkg.types import Basis, ProgressFunction


def log_shares(
    scorer: Scorer,
    anchors: Tensor,
    relation_ids: Tensor,
    answers: Tensor,
    known: KnownTails,
    progress: ProgressFunction | None = None,
) -> tuple[Tensor, Tensor]:
    """Scores ``[n]`` and log shares ``[n]`` of ``answers [n]`` to the questions (anchor, relation below 2R).

    Every distinct question is asked once.
    """
    scores = torch.empty(len(answers))
    shares = torch.empty(len(answers), dtype=torch.float64)
    for chunk, rows, places in distinct_questions(scorer, anchors, relation_ids, known, progress):
        values = chunk.scores[places, answers[rows]]
        scores[rows] = values
        shares[rows] = values.double() - torch.logsumexp(chunk.scores, 1).double()[places]
    return scores, shares


def distinct_questions(
    scorer: Scorer, anchors: Tensor, relation_ids: Tensor, known: KnownTails, progress: ProgressFunction | None = None
) -> Iterator[tuple[ScoredChunk, Tensor, Tensor]]:
    """Ask every distinct question (anchor, relation below 2R) of ``[n]`` once, a chunk at a time.

    With each chunk come the rows among the n that ask its questions, and the places of these questions in it.
    """
    keys, owners = torch.unique(anchors * known.num_relations + relation_ids, return_inverse=True)
    order = torch.argsort(owners, stable=True)
    starts = torch.searchsorted(owners[order], torch.arange(len(keys) + 1))
    asked = keys // known.num_relations, keys % known.num_relations
    for chunk in score_chunks(scorer, *asked, known, progress=progress):
        rows = order[starts[chunk.first] : starts[chunk.first + len(chunk.heads)]]
        yield chunk, rows, owners[rows] - chunk.first


def both_shares(scorer: Scorer, facts: Tensor, known: KnownTails) -> Tensor:
    """Log shares ``[n, 2]`` of ``facts [n, 3]`` as answers to their tail questions and to their head questions."""
    return shares_of(scorer, facts, known, "both")


def shares_of(scorer: Scorer, facts: Tensor, known: KnownTails, basis: Basis) -> Tensor:
    """As ``both_shares``, nan where a question is not in ``basis``, which is not asked."""
    heads, relation_ids, tails = facts.unbind(1)
    shares = torch.full((len(facts), 2), torch.nan, dtype=torch.float64)
    if basis != "head":
        _, shares[:, 0] = log_shares(scorer, heads, relation_ids, tails, known)
    if basis != "tail":
        _, shares[:, 1] = log_shares(scorer, tails, relation_ids + scorer.num_relations, heads, known)
    return shares
