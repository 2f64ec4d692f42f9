"""How long an epoch takes on this machine."""

from __future__ import annotations

import time

import numpy as np
import torch

from tuckerkg.config.build import build_model, build_training
from tuckerkg.config.settings import Settings
from tuckerkg.data.dataset import Dataset
from tuckerkg.training.optim import ModelOptimizer

TIMED_STEPS = 3


def seconds_per_epoch(dataset: Dataset, settings: Settings) -> float:
    """Time a few steps, spread over training since later phases may cost more; the first one is not counted."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build_model(settings, len(dataset.entities), len(dataset.relations))
        optimizer = ModelOptimizer(model, settings.train.optimizer, settings.train.lr)
        objective, batches = build_training(settings, model, dataset.train)
        times = []
        last = batches.steps_per_epoch * max(1, int(settings.train.epochs)) - 1
        for step in (0, *np.linspace(0, last, TIMED_STEPS).astype(int).tolist()):
            began = time.perf_counter()
            optimizer.zero_grad()
            objective(model, batches.batch(step)).backward()
            optimizer.step()
            times.append(time.perf_counter() - began)
    return float(np.mean(times[1:])) * batches.steps_per_epoch
