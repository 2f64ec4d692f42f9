"""A small world of places, their countries and their friends, and scorers that know it more or less well."""

from __future__ import annotations

import numpy as np
import torch

N = 300


class Capitals:
    """Every place has one country (relation 0) and some friends (1); the scorer is noisy and knows what it has seen.

    The world holds facts of which ``train``, ``valid`` and ``test`` are random parts; other ``noise`` makes another
    scorer of the same world.
    """

    def __init__(self, seed: int = 0, noise: int = 0) -> None:
        random = np.random.default_rng(seed)
        countries = random.integers(0, 10, N - 10)
        places = np.arange(10, N)
        one = np.stack([places, np.zeros_like(places), countries], 1)
        ends = random.integers(10, N, (2000, 2))
        many = np.unique(np.stack([ends[:, 0], np.ones(2000, dtype=np.int64), ends[:, 1]], 1), axis=0)
        self.world = np.concatenate([one, many])[random.permutation(len(one) + len(many))]
        count = len(self.world)
        self.valid, self.test, self.train = np.split(self.world, [count // 10, count // 5])
        self.num_entities, self.num_relations = N, 2
        noisy = np.random.default_rng([seed, noise]) if noise else random
        self.table = torch.from_numpy(noisy.standard_normal((N, 4, N))).float()
        for rows, size in ((self.world, 3.0), (self.train, 4.0)):
            self.table[rows[:, 0], rows[:, 1], rows[:, 2]] += size
            self.table[rows[:, 2], rows[:, 1] + 2, rows[:, 0]] += size

    def scores(self, heads: torch.Tensor, relation_ids: torch.Tensor) -> torch.Tensor:
        return self.table[heads, relation_ids]
