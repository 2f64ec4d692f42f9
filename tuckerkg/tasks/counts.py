"""A linear classifier of counts: what stands around an item, without any vector of a node and without messages.

It votes beside the encoders of a committee. Like these it is fitted once for every fold, on the labels of the others,
to see what it knows of labels that it did not see, and then on all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tuckerkg.config.settings import Settings
from tuckerkg.tasks.surroundings import Ids, Keys, Surroundings
from tuckerkg.tasks.task import TRAIN, Task
from tuckerkg.types import Counted

FEWEST_OWNERS = 2  # labels to train on that have a key; one alone can only be learned by heart
STEPS = 200  # of L-BFGS
MOST_DENSE = 2_000  # labels whose inner products are kept, instead of a sparse matrix of their counts


class CountTable:
    """Which keys are columns, and how counts become numbers.

    Args:
        rows, keys: places among ``count`` items to train on, and the keys found there.
        count: these items.
        kind: "sums" takes counts as they are; "tf-idf" takes rare keys for more, and all items as equally large.
    """

    def __init__(self, rows: Ids, keys: Keys, count: int, kind: Counted) -> None:
        self.kind = kind
        columns, places = np.unique(keys, return_inverse=True)
        pairs = np.unique(places * count + rows)  # a key in an item, once
        owners = np.bincount(pairs // count, minlength=len(columns))
        kept = owners >= FEWEST_OWNERS
        self.columns = columns[kept]
        self.weights = np.log(1.0 + count / owners[kept]) if kind == "tf-idf" else np.ones(kept.sum())
        self.scale = 1.0
        if kind == "sums":
            values = self.numbers(rows, keys, count).coalesce().values()
            self.scale = float((values.square().sum() / count).clamp_min(1e-12).rsqrt())

    def numbers(self, rows: Ids, keys: Keys, count: int) -> Tensor:
        """Numbers of ``count`` items as a sparse matrix ``[count, columns]``, of squared length 1 (on average)."""
        places = np.searchsorted(self.columns, keys).clip(max=max(len(self.columns) - 1, 0))
        known = self.columns[places] == keys if len(self.columns) else np.zeros(len(keys), bool)
        ids = torch.from_numpy(np.stack([rows[known], places[known]]))
        ones = torch.ones(ids.shape[1], dtype=torch.double)
        summed = torch.sparse_coo_tensor(ids, ones, (count, len(self.columns)), check_invariants=False).coalesce()
        ids, values = summed.indices(), summed.values()
        if self.kind == "tf-idf":
            values = values.log1p() * torch.from_numpy(self.weights)[ids[1]]
            lengths = values.new_zeros(count).index_add_(0, ids[0], values.square()).sqrt()
            values = values / lengths[ids[0]]
        return torch.sparse_coo_tensor(
            ids, values * self.scale, (count, len(self.columns)), check_invariants=False
        ).coalesce()


@dataclass(frozen=True)
class CountSettings:
    """Which counts, how far around an item, and the weight of the squared weights."""

    kind: Counted
    hops: int
    decay: float


class CountClassifier:
    """A softmax regression on counts, and one for every fold that is fitted without it.

    Args:
        task: what is classified; only labels to train on are read.
        fold: of these labels, ``[m]``.
        settings: which counts.
        surroundings: of the task, where they are at hand.
    """

    def __init__(
        self, task: Task, fold: Tensor, settings: CountSettings, surroundings: Surroundings | None = None
    ) -> None:
        self.task, self.fold, self.settings = task, fold, settings
        self.surroundings = surroundings or Surroundings(task, settings.hops)
        self.items, self.label = task.of_part(TRAIN)

    @classmethod
    def of(cls, task: Task, settings: Settings, fold: Tensor) -> CountClassifier | None:
        """What settings ask for; None: nothing is counted."""
        own = settings.classify
        if own.counts == "none":
            return None
        return cls(task, fold, CountSettings(own.counts, own.hops, own.counts_decay))

    @cached_property
    def table(self) -> CountTable:
        """Columns of the labels to train on."""
        return CountTable(*self.surroundings.of(self.items.numpy()), len(self.items), self.settings.kind)

    @cached_property
    def numbers(self) -> Tensor:
        """Those of the labels to train on, sparse ``[m, f]``."""
        return self._numbers(self.items.numpy())

    @cached_property
    def weights(self) -> tuple[Tensor, Tensor]:
        """Weights ``[f, C]`` and biases ``[C]``, fitted on all labels to train on."""
        return self._fitted(torch.ones_like(self.fold, dtype=torch.bool))

    @cached_property
    def unseen(self) -> Tensor:
        """Scores of the labels to train on, each by the regression that did not see its fold, ``[m, C]``."""
        found = torch.zeros(len(self.label), len(self.task.classes), dtype=torch.double)
        for number in range(int(self.fold.max()) + 1):
            own = self.fold == number
            weights, biases = self._fitted(~own)
            found[own] = (self.numbers @ weights + biases)[own]
        return found

    def scores(self, items: Tensor, without: int | None = None) -> Tensor:
        """Scores of items, ``[n, C]``; ``without`` is a fact that is not there."""
        weights, biases = self.weights
        return self._numbers(items.numpy(), without) @ weights + biases

    def _fitted(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.nonzero(seen)[:, 0]
        rows = self.numbers.index_select(0, places)
        return softmax_regression(rows, self.label[places], len(self.task.classes), self.settings.decay)

    def _numbers(self, items: Ids, without: int | None = None) -> Tensor:
        rows, keys = self.surroundings.of(items, without)
        return self.table.numbers(rows, keys, len(items))


def softmax_regression(rows: Tensor, label: Tensor, num_classes: int, decay: float) -> tuple[Tensor, Tensor]:
    """Fit weights ``[f, C]`` and biases ``[C]`` that minimize cross entropy + decay / 2 |weights|^2.

    Args:
        rows: numbers of the labelled items, sparse ``[m, f]``.
        label: their classes, ``[m]``.
        num_classes: C.
        decay: weight of the squared weights; with 0 there may be no minimum.
    """
    if rows.shape[0] < min(rows.shape[1], MOST_DENSE):
        # The best weights are a sum of rows, so that as many dimensions as there are rows hold them: many times faster.
        lengths, axes = torch.linalg.eigh(_inner_products(rows))
        kept = lengths > 1e-9 * lengths[-1]
        basis = rows.t() @ (axes[:, kept] * lengths[kept].rsqrt())  # [f, a], orthonormal columns
        weights, biases = _minimize(rows @ basis, label, num_classes, decay)
        return basis @ weights, biases
    return _minimize(rows, label, num_classes, decay)


def _inner_products(rows: Tensor) -> Tensor:
    """``[m, m]``, a few rows at a time so that no dense copy of all is made."""
    parts = torch.arange(rows.shape[0]).split(64)
    return torch.cat([rows @ rows.index_select(0, part).to_dense().t() for part in parts], 1)


def _minimize(rows: Tensor, label: Tensor, num_classes: int, decay: float) -> tuple[Tensor, Tensor]:
    turned = rows.t()
    weights = torch.zeros(rows.shape[1], num_classes, dtype=torch.double)
    biases = torch.zeros(num_classes, dtype=torch.double)
    truth = F.one_hot(label, num_classes).double()
    optimizer = torch.optim.LBFGS([weights, biases], max_iter=STEPS, line_search_fn="strong_wolfe")

    def closure() -> float:
        scores = rows @ weights + biases
        error = (F.softmax(scores, 1) - truth) / len(label)
        weights.grad = turned @ error + decay * weights
        biases.grad = error.sum(0)
        return float(F.cross_entropy(scores, label) + 0.5 * decay * weights.square().sum())

    with torch.no_grad():
        optimizer.step(closure)
    return weights, biases
