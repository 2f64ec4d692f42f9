"""How much each member of a blend counts, fitted on validation alone.

    score(t) = sum over members i of w[r, i] * log share_i(t)

The weights minimize the softmax cross entropy of validation's answers, with other answers that training and validation
hold left out. They are 0 or more, and differ by direction, or by relation and direction: relation r's are the
direction's times exp(d[r, i]), where the squares of d are penalized, so that a relation with few questions stays near
its direction and one with fewer than ``LEAST`` has none of its own. Cross entropy counts hopeless questions as much as
others: a direction's ratios between members are therefore tried on a grid, and moved where the mean reciprocal rank is
higher.

Which of these, or one member alone, is decided by cross-validation: weights fitted on one half of the questions rank
the other half. There a weight per member, which can hardly be fitted to noise, must rank higher than the best member
by more than one standard error of the difference; weights by relation, as ratios on the grid, by more than two.

A question is kept as the log shares of a few candidates: the best ``CANDIDATES`` of each member, and as many drawn from
all others, which count for those that were not drawn. So memory does not grow with the number of entities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.evaluation.ranking import score_chunks
from tuckerkg.graph.known_tails import KnownTails, rows_of
from tuckerkg.nn.blend_scorer import log_shares
from tuckerkg.nn.contracts import Scorer
from tuckerkg.types import ProgressFunction

QUESTIONS = 6_000  # to fit on, at most
CANDIDATES = 100  # the best of each member that a question keeps, and those drawn from the rest
LEAST = 20  # questions of a relation and direction that may have weights of its own
PRIOR = 1.0  # weight of the squares that draw a relation's weights towards its direction's, as in the calibration
RATIOS = tuple(2.0 ** (step / 2.0) for step in range(-6, 7))  # by which a member's weight is multiplied, on the grid
NO_WEIGHT = 1e-3  # a member whose share of the weights is smaller is left out

By = Literal["member", "direction", "relation"]


@dataclass(frozen=True)
class BlendWeights:
    """Fitted weights ``[2R, members]``, and how they were found.

    Attributes:
        by: what the weights differ by; "member": one member alone is best.
        own: relations and directions that have weights of their own, ``[2R]``.
        questions: validation's questions that were fitted on.
        held_out_mrr: MRR of each choice on the halves that it was not fitted on, among the candidates kept.
    """

    weights: Tensor
    by: By
    own: Tensor
    questions: int
    held_out_mrr: dict[str, float]


@dataclass(frozen=True)
class KeptShares:
    """The members' log shares of Q questions' answers and of some of their other candidates."""

    relation_ids: Tensor  # [Q] below 2R
    answers: Tensor  # [Q, members]
    others: Tensor  # [members, Q, M]
    counts: Tensor  # [Q, M] how many candidates each stands for; 0: none

    def __len__(self) -> int:
        return len(self.answers)

    def part(self, rows: Tensor) -> KeptShares:
        """Some of the questions."""
        return KeptShares(self.relation_ids[rows], self.answers[rows], self.others[:, rows], self.counts[rows])

    def losses(self, weights: Tensor) -> Tensor:
        """Softmax cross entropy ``[Q]`` of the answers with ``weights [Q, members]``."""
        own, rivals = self._scores(weights)
        return torch.logsumexp(torch.cat([own, rivals + self.counts.log()], 1), 1) - own[:, 0]

    def reciprocal_ranks(self, weights: Tensor) -> Tensor:
        """Of the answers among the candidates kept ``[Q]``, those that others stand for counted; ties count half."""
        own, rivals = self._scores(weights)
        beaten = (rivals > own).double() + 0.5 * (rivals == own).double()
        return 1.0 / (1.0 + (beaten * self.counts).sum(1))

    def _scores(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Of the answers ``[Q, 1]`` and of the other candidates ``[Q, M]``."""
        own, rivals = torch.zeros(len(self), 1, dtype=weights.dtype), torch.zeros_like(self.counts)
        for place, others in enumerate(self.others):
            weight = weights[:, place, None]
            own, rivals = own + weight * self.answers[:, place, None], rivals + weight * others
        return own, rivals


def fit_blend(
    members: Sequence[Scorer],
    train: np.ndarray,
    valid: np.ndarray,
    *,
    most: int = QUESTIONS,
    progress: ProgressFunction | None = None,
) -> BlendWeights:
    """Fit the weights of ``members``; of more than ``most`` questions a random part is taken, always the same."""
    kept = keep_shares(members, train, valid, most=most, progress=progress)
    num_relations = 2 * members[0].num_relations
    fits = {"direction": _fit_by_direction, "relation": _fit_by_relation}
    alone = torch.eye(len(members), dtype=torch.float64)
    single = torch.stack([kept.reciprocal_ranks(row.expand(len(kept), -1)) for row in alone])  # [members, Q]
    best_member = int(single.mean(1).argmax())
    held_out = {"member": single[best_member]}
    halves = torch.arange(len(kept)) % 2 == 0
    for name, fit in fits.items():
        held_out[name] = torch.empty(len(kept), dtype=torch.float64)
        for here in (halves, ~halves):
            rest = kept.part((~here).nonzero()[:, 0])
            weights = fit(kept.part(here.nonzero()[:, 0]), num_relations)
            held_out[name][~here] = rest.reciprocal_ranks(weights[rest.relation_ids])
    by = _simplest_best(held_out)
    counts = torch.bincount(kept.relation_ids, minlength=num_relations)
    if by == "member":
        weights = alone[best_member].expand(num_relations, -1).clone()
    else:
        weights = fits[by](kept, num_relations)
        weights[weights < NO_WEIGHT * weights.sum(1, keepdim=True)] = 0.0
    own = counts >= LEAST if by == "relation" else torch.zeros(num_relations, dtype=torch.bool)
    return BlendWeights(weights, by, own, len(kept), {name: float(found.mean()) for name, found in held_out.items()})


def keep_shares(
    members: Sequence[Scorer],
    train: np.ndarray,
    valid: np.ndarray,
    *,
    most: int = QUESTIONS,
    candidates: int = CANDIDATES,
    progress: ProgressFunction | None = None,
) -> KeptShares:
    """Ask every member both questions of ``valid [n, 3]``, or ``most`` random ones, and keep what a fit needs."""
    num_entities, num_relations = members[0].num_entities, members[0].num_relations
    questions = add_inverses(valid, num_relations)
    order = np.random.default_rng(0).permutation(len(questions))  # so that the halves of them are random too
    asked = torch.from_numpy(questions[order[:most]])
    known = KnownTails.from_splits([train, valid], num_relations)
    generator = torch.Generator().manual_seed(0)
    found = []
    for chunk in score_chunks(members[0], asked[:, 0], asked[:, 1], known, progress=progress):
        answers = asked[chunk.first : chunk.first + len(chunk.heads), 2]
        shares = [log_shares(chunk.scores)]
        shares += [log_shares(member.scores(chunk.heads, chunk.relation_ids)) for member in members[1:]]
        rivals = torch.ones(len(answers), num_entities, dtype=torch.bool)
        rivals[rows_of(chunk.known[0]), chunk.known[1]] = False
        rivals.scatter_(1, answers[:, None], False)
        places, counts = _candidates(shares, rivals, candidates, generator)
        kept = torch.stack([part.gather(1, torch.cat([answers[:, None], places], 1)).double() for part in shares])
        found.append((chunk.relation_ids, kept[:, :, 0].T, kept[:, :, 1:], counts))
    relation_ids, own, others, counted = zip(*found, strict=True)
    return KeptShares(torch.cat(relation_ids), torch.cat(own), torch.cat(others, 1), torch.cat(counted))


def _candidates(
    shares: Sequence[Tensor], rivals: Tensor, candidates: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Places ``[b, M]`` of candidates among ``rivals [b, N]``, and how many each stands for.

    The best of each member stand for themselves; those drawn from the rest for all of the rest, in equal parts.
    """
    num_rows, num_entities = rivals.shape
    if num_entities <= (len(shares) + 1) * candidates:  # all of them, so that nothing is drawn
        return torch.arange(num_entities).expand(num_rows, -1), rivals.double()
    best = torch.zeros_like(rivals)
    for part in shares:
        places = part.masked_fill(~rivals, -torch.inf).topk(candidates, 1).indices
        best.scatter_(1, places, True)
    best &= rivals
    rest = rivals & ~best
    order = torch.rand(num_rows, num_entities, generator=generator)
    size = (len(shares) + 1) * candidates
    # The best first, then the rest in random order, then what is no rival.
    priority = order + 2.0 * best - 2.0 * (~rivals)
    places = priority.topk(size, 1).indices
    is_best, is_rest = best.gather(1, places), rest.gather(1, places)
    drawn = is_rest.sum(1, keepdim=True).clamp(min=1)
    return places, is_best.double() + is_rest * (rest.sum(1, keepdim=True).double() / drawn)


def _fit_by_direction(kept: KeptShares, num_relations: int) -> Tensor:
    return _moved(kept, _fit(kept, num_relations, torch.zeros(num_relations, dtype=torch.bool)))


def _fit_by_relation(kept: KeptShares, num_relations: int) -> Tensor:
    own = torch.bincount(kept.relation_ids, minlength=num_relations) >= LEAST
    return _moved(kept, _fit(kept, num_relations, own))


def _fit(kept: KeptShares, num_relations: int, own: Tensor) -> Tensor:
    """Weights ``[2R, members]``: logs of a direction's, plus what the relations in ``own [2R]`` differ by."""
    num_members = kept.answers.shape[1]
    directions = (torch.arange(num_relations) >= num_relations // 2).long()
    whole = torch.full((2, num_members), -float(np.log(num_members)), dtype=torch.float64, requires_grad=True)
    apart = torch.zeros(num_relations, num_members, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([whole, apart], max_iter=100, tolerance_change=1e-7, line_search_fn="strong_wolfe")

    def weights() -> Tensor:
        return torch.exp(whole[directions] + apart * own[:, None])

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = kept.losses(weights()[kept.relation_ids]).mean() + PRIOR / len(kept) * apart.square().sum()
        value.backward()
        return value

    optimizer.step(closure)
    return weights().detach()


def _moved(kept: KeptShares, weights: Tensor) -> Tensor:
    """``weights [2R, members]`` with other ratios between members, by direction, where these rank better."""
    moved, half = weights.clone(), len(weights) // 2
    for first in (0, half):  # tails asked, heads asked
        here = (kept.relation_ids >= first) & (kept.relation_ids < first + half)
        if here.any():
            part = kept.part(here.nonzero()[:, 0])
            moved[first : first + half] = _moved_direction(part, weights)[first : first + half]
    return moved


def _moved_direction(kept: KeptShares, weights: Tensor) -> Tensor:
    """Multiply one member's weights after the other, twice; afterwards all, to where the cross entropy is least."""
    relation_ids = kept.relation_ids
    best, ranks = weights, kept.reciprocal_ranks(weights[relation_ids])
    for member in [*range(1, weights.shape[1])] * 2:  # only ratios count, so the first member's stays
        for ratio in RATIOS:
            tried = best.clone()
            tried[:, member] = weights[:, member] * ratio
            found = kept.reciprocal_ranks(tried[relation_ids])
            if _is_higher(found, ranks):
                best, ranks = tried, found
    if best is weights:
        return weights
    scaled = [torch.mul(best, ratio) for ratio in RATIOS]
    losses = [float(kept.losses(weights[relation_ids]).mean()) for weights in scaled]
    return scaled[int(np.argmin(losses))]


def _is_higher(found: Tensor, former: Tensor, errors: float = 2.0) -> bool:
    """Whether the mean of ``found [Q]`` is above that of ``former`` by more than so many standard errors."""
    gain = found - former
    return len(gain) > 1 and float(gain.mean()) > errors * float(gain.std()) / len(gain) ** 0.5


def _simplest_best(held_out: dict[str, Tensor]) -> By:
    """The choice with the fewest weights that none with more beats; reciprocal ranks ``[Q]``."""
    best: By = "member"
    for by in get_args(By):
        if _is_higher(held_out[by], held_out[best], 1.0 if by == "direction" else 2.0):
            best = by
    return best
