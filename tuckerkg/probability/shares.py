"""A fact's share among all candidates of its question."""

from __future__ import annotations

import torch
from torch import Tensor

from tuckerkg.evaluation.ranking import score_chunks
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.nn.contracts import Scorer
from tuckerkg.types import ProgressFunction


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
    keys, owners = torch.unique(anchors * known.num_relations + relation_ids, return_inverse=True)
    order = torch.argsort(owners, stable=True)
    starts = torch.searchsorted(owners[order], torch.arange(len(keys) + 1))
    asked = keys // known.num_relations, keys % known.num_relations
    for chunk in score_chunks(scorer, *asked, known, progress=progress):
        rows = order[starts[chunk.first] : starts[chunk.first + len(chunk.heads)]]
        places = owners[rows] - chunk.first
        values = chunk.scores[places, answers[rows]]
        scores[rows] = values
        shares[rows] = values.double() - torch.logsumexp(chunk.scores, 1).double()[places]
    return scores, shares


def both_shares(scorer: Scorer, facts: Tensor, known: KnownTails) -> Tensor:
    """Log shares ``[n, 2]`` of ``facts [n, 3]`` as answers to their tail questions and to their head questions."""
    heads, relation_ids, tails = facts.unbind(1)
    _, of_tail = log_shares(scorer, heads, relation_ids, tails, known)
    _, of_head = log_shares(scorer, tails, relation_ids + scorer.num_relations, heads, known)
    return torch.stack([of_tail, of_head], 1)
