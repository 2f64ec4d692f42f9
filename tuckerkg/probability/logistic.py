"""A penalized logistic regression with effects of relations, for labels that only a part of the true facts has.

Validation holds a random part of what was hidden. Where it holds the share c of it, a fact that is true with
probability p is labelled with probability c p, and the likelihood of labels and of their absence is maximized as such:
p may come near to 1 although many true facts have no label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

PRIOR = 3.0  # weight of the squares that draw a relation towards the whole: a deviation of .4 costs half a nat
RIDGE = 3.0  # of the squares that draw a feature's weight, standardized, to what is expected before anything is seen
FOLDS, FINE_FOLDS = 3, 10  # with many folds a fit without one is as good as the whole; where that does not take long
QUICK_TO_FIT = 500_000  # numbers of features
KNOTS = 6  # of the correction
CORRECTION = 2.0  # weight of the squares of the correction's log slopes; twice that for neighbours' differences
SMALLEST = 1e-12  # probability in a likelihood
ITERATIONS = 150


@dataclass(frozen=True)
class Labelled:
    """Facts to fit on.

    ``is_true`` says which have a label, ``found [n]`` the chance that a true one has it, ``weights`` are the importance
    weights of the sample.
    """

    features: Tensor  # [n, F]
    relation_ids: Tensor  # [n] below R
    is_true: Tensor  # [n] bool
    found: Tensor  # [n]
    weights: Tensor  # [n]

    @classmethod
    def joined(cls, parts: Sequence[Labelled]) -> Labelled:
        """Those of ``parts``, one after the other."""
        return cls(*(torch.cat(column) for column in zip(*(vars(part).values() for part in parts), strict=True)))

    def rows(self, chosen: Tensor) -> Labelled:
        """Some of them."""
        return Labelled(*(column[chosen] for column in vars(self).values()))

    def loss(self, logits: Tensor) -> Tensor:
        """The negative log likelihood."""
        chances = (self.found * torch.sigmoid(logits)).clamp(SMALLEST, 1.0 - SMALLEST)
        return -(self.weights * torch.where(self.is_true, torch.log(chances), torch.log1p(-chances))).sum()


@dataclass(frozen=True)
class Logistic:
    """``correction(weights x + shift + own(relation))`` over standardized features x.

    A relation's own effects are a shift and a change of some slopes, ``own [R, 1 + slopes]``. The correction is
    piecewise linear and increasing, from ``knots`` and slopes between them.
    """

    means: Tensor  # [F]
    deviations: Tensor  # [F]
    weights: Tensor  # [F]
    shift: Tensor  # []
    own: Tensor  # [R, 1 + slopes]
    slopes: Tensor  # [slopes] columns of the features that relations weight themselves
    knots: Tensor  # [K]
    heights: Tensor  # [1 + K] log slopes: below the first knot, between knots, above the last one
    offset: Tensor  # []

    def tensors(self) -> dict[str, Tensor]:
        """To be stored."""
        return dict(vars(self))

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Logistic:
        """What ``tensors`` came from."""
        return cls(**tensors)

    def logits(self, features: Tensor, relation_ids: Tensor) -> Tensor:
        """``features [n, F]``, ``relation_ids [n]`` below R -> ``[n]``."""
        return corrected(self._linear(features, relation_ids), self.knots, self.heights, self.offset)

    def _linear(self, features: Tensor, relation_ids: Tensor) -> Tensor:
        x = (features - self.means) / self.deviations
        return linear(x, relation_ids, self.weights, *self.own_effects)

    @property
    def own_effects(self) -> tuple[Tensor, Tensor, Tensor]:
        """Shift, effects of relations, and columns of their slopes."""
        return self.shift, self.own, self.slopes


def linear(x: Tensor, relation_ids: Tensor, weights: Tensor, shift: Tensor, own: Tensor, slopes: Tensor) -> Tensor:
    """``x [n, F]`` -> ``[n]``, with each relation's own shift and slopes."""
    effects = own[relation_ids]
    return x @ weights + shift + effects[:, 0] + (effects[:, 1:] * x[:, slopes]).sum(1)


def corrected(logits: Tensor, knots: Tensor, heights: Tensor, offset: Tensor) -> Tensor:
    """An increasing, piecewise linear function of ``logits [n]``."""
    slopes = torch.exp(heights)
    between = logits[:, None].clamp(knots[:-1], knots[1:]) - knots[:-1]  # [n, K - 1]
    below, above = torch.minimum(logits, knots[0]), (logits - knots[-1]).clamp(min=0.0)
    return offset + slopes[0] * below + between @ slopes[1:-1] + slopes[-1] * above


def fit(
    labelled: Labelled,
    num_relations: int,
    slopes: list[int],
    rising: Sequence[int] | None = None,
    expected: Mapping[int, float] | None = None,
    prior: float = PRIOR,
) -> Logistic:
    """Fit the regression, then its correction on facts that each fold left out.

    Args:
        slopes: the features that relations weight themselves.
        rising: features whose weight is not negative; None: ``slopes``.
        expected: weights of features before anything is seen, 0 where none is named; None: those of ``slopes`` add
            up to 1, as log odds do.
        prior: how much draws a relation towards the whole.
    """
    deviations = labelled.features.std(0, unbiased=False)
    means = labelled.features.mean(0)
    deviations = torch.where(deviations > 1e-6, deviations, 1.0)
    standardized = Labelled((labelled.features - means) / deviations, *list(vars(labelled).values())[1:])
    columns = torch.tensor(slopes)
    wanted = torch.zeros_like(means)
    for column, weight in (expected or dict.fromkeys(slopes, 1.0 / len(slopes))).items():
        wanted[column] = weight * deviations[column]
    never_less = torch.zeros(len(means), dtype=torch.bool)
    never_less[list(slopes if rising is None else rising)] = True
    fit_on = partial(_fit_linear, num_relations=num_relations, slopes=columns, expected=wanted, never_less=never_less)
    weights, shift, own = fit_on(standardized, prior=prior)
    count = FOLDS if len(means) * len(labelled.is_true) > QUICK_TO_FIT else FINE_FOLDS
    folds = torch.randint(count, (len(labelled.is_true),), generator=torch.Generator().manual_seed(0))
    left_out = torch.empty(len(folds), dtype=torch.float64)
    for fold in range(count):
        inside, outside = standardized.rows(folds != fold), standardized.rows(folds == fold)
        found = fit_on(inside, prior=prior)
        left_out[folds == fold] = linear(outside.features, outside.relation_ids, *found, columns)
    knots, heights, offset = _fit_correction(left_out, standardized)
    return Logistic(means, deviations, weights, shift, own, columns, knots, heights, offset)


def refit(fitted: Logistic, labelled: Labelled, columns: list[int]) -> Logistic:
    """The weights of some features fitted on other facts, everything else as it is."""
    x = (labelled.features - fitted.means) / fitted.deviations
    chosen = torch.tensor(columns)
    rest = linear(x, labelled.relation_ids, fitted.weights.index_fill(0, chosen, 0.0), *fitted.own_effects)
    changed = fitted.weights[chosen].clone()

    def loss() -> Tensor:
        logits = corrected(rest + x[:, chosen] @ changed, fitted.knots, fitted.heights, fitted.offset)
        return labelled.loss(logits) + RIDGE * changed.square().sum()

    _minimize(loss, [changed], labelled)
    return replace(fitted, weights=fitted.weights.index_copy(0, chosen, changed))


def _fit_linear(
    labelled: Labelled, num_relations: int, slopes: Tensor, expected: Tensor, never_less: Tensor, prior: float
) -> tuple[Tensor, Tensor, Tensor]:
    free = torch.where(never_less, (expected.clamp(min=1e-2)).sqrt(), expected)  # a square is not negative
    shift = torch.tensor(-5.0, dtype=torch.float64)
    own = torch.zeros(num_relations, 1 + len(slopes), dtype=torch.float64)

    def weights() -> Tensor:
        return torch.where(never_less, free.square(), free)

    def loss() -> Tensor:
        logits = linear(labelled.features, labelled.relation_ids, weights(), shift, own, slopes)
        return labelled.loss(logits) + prior * own.square().sum() + RIDGE * (weights() - expected).square().sum()

    _minimize(loss, [free, shift, own], labelled)
    return weights(), shift, own


def _fit_correction(logits: Tensor, labelled: Labelled) -> tuple[Tensor, Tensor, Tensor]:
    """Knots, log slopes and offset. Knots are quantiles of the likeliest facts, where people read probabilities."""
    likely = torch.sort(logits, descending=True).values[: max(50, 5 * int(labelled.is_true.sum()))]
    knots = torch.quantile(likely[: 1 << 24], torch.linspace(0.0, 1.0, KNOTS, dtype=torch.float64))
    heights, offset = torch.zeros(KNOTS + 1, dtype=torch.float64), torch.zeros((), dtype=torch.float64)

    def loss() -> Tensor:
        penalty = heights.square().sum() + 2.0 * (heights[1:] - heights[:-1]).square().sum()
        return labelled.loss(corrected(logits, knots, heights, offset)) + CORRECTION * penalty

    _minimize(loss, [heights, offset], labelled)
    return knots, heights, offset


def _minimize(loss: Callable[[], Tensor], parameters: list[Tensor], labelled: Labelled) -> None:
    scale = 1.0 / max(1.0, float((labelled.weights * labelled.is_true).sum()))
    for parameter in parameters:
        parameter.requires_grad_(True)
    optimizer = torch.optim.LBFGS(
        parameters, max_iter=ITERATIONS, tolerance_grad=1e-7, tolerance_change=1e-10, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = scale * loss()
        value.backward()
        return value

    optimizer.step(closure)
    for parameter in parameters:
        parameter.requires_grad_(False)
