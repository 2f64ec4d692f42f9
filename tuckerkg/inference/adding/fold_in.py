"""Rows for entities that a model was not trained with, fitted to their facts; nothing else changes.

A new entity starts at the mean of the entities in the same roles (heads of the same relations, tails of the
same relations). Then its row alone is trained, with the run's own loss: on the questions that it asks or answers, and
on random questions of the graph that it does not answer, so that it learns to be low there.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tuckerkg.batches.batch import Batch
from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.graph.known_tails import KnownTails, rows_of
from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.graph.row_groups import RowGroups
from tuckerkg.losses.objective import Objective
from tuckerkg.nn.contracts import Loss
from tuckerkg.nn.model import Model
from tuckerkg.types import ProgressFunction

STEPS = 100
RATE = 0.2  # of the deviation of the trained table
OWN, OTHERS = 1_024, 1_024  # questions of a step


def start_rows(entities: Tensor, triples: np.ndarray, num_trained: int, num_relations: int) -> Tensor:
    """The mean of trained entities in the same places, ``[n, d]`` for the ids from ``num_trained`` on.

    An entity in a role that no trained one has starts at the mean of all.
    """
    edges = torch.from_numpy(add_inverses(triples, num_relations))
    heads, places = edges[:, 0], edges[:, 1]  # an entity has role r as head of r, role r + R as its tail
    size = int(heads.max()) + 1
    pairs = torch.unique(places * size + heads)
    place_of, entity_of = pairs // size, pairs % size
    trained = entity_of < num_trained
    sums = entities.new_zeros(2 * num_relations, entities.shape[1])
    sums.index_add_(0, place_of[trained], entities[entity_of[trained]])
    counts = torch.bincount(place_of[trained], minlength=2 * num_relations).to(entities)
    means = sums / counts.clamp(min=1)[:, None]
    count = size - num_trained
    total, weight = entities.new_zeros(count, entities.shape[1]), entities.new_zeros(count)
    mine = ~trained & (counts[place_of] > 0)
    total.index_add_(0, entity_of[mine] - num_trained, means[place_of[mine]])
    weight.index_add_(0, entity_of[mine] - num_trained, torch.ones_like(entity_of[mine]).to(entities))
    mean = entities[:num_trained].mean(0)
    return torch.where(weight[:, None] > 0, total / weight.clamp(min=1)[:, None], mean)


def fold_in(
    model: Model,
    loss: Loss,
    triples: np.ndarray,
    num_trained: int,
    *,
    steps: int = STEPS,
    seed: int = 0,
    progress: ProgressFunction | None = None,
) -> None:
    """Train the rows from ``num_trained`` on in place; ``triples`` are all facts, old and added.

    The model's norms stay as they were trained, and its dropouts are off.
    """
    model.eval()
    graph = model.message_graph(triples)
    objective = Objective(loss)
    answers = KnownTails.of(torch.from_numpy(add_inverses(triples, model.num_relations)), 2 * model.num_relations)
    touched = (answers.heads >= num_trained).clone()
    touched[rows_of(answers.offsets)[answers.tails >= num_trained]] = True
    own, others = touched.nonzero()[:, 0], (~touched).nonzero()[:, 0]
    random = np.random.default_rng(seed)
    tables = [model.entities] if model.bias is None else [model.entities, model.bias]
    rows = [table.detach()[num_trained:].clone() for table in tables]
    rate = RATE * float(model.entities.detach()[:num_trained].std())
    optimizer = torch.optim.Adam(rows, lr=rate)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 0.5 * rate * (1 + np.cos(np.pi * step / steps))
        chosen = torch.cat([_some(own, OWN, random), _some(others, OTHERS, random)])
        value = objective(model, _batch(answers, chosen, graph).to(model.entities.device))
        for row, gradient in zip(rows, torch.autograd.grad(value, tables), strict=True):
            row.grad = gradient[num_trained:]
        optimizer.step()
        with torch.no_grad():
            for table, row in zip(tables, rows, strict=True):
                table[num_trained:] = row
        if progress is not None:
            progress(step + 1, steps)


def _some(places: Tensor, most: int, random: np.random.Generator) -> Tensor:
    if len(places) <= most:
        return places
    return places[torch.from_numpy(random.choice(len(places), most, replace=False))]


def _batch(answers: KnownTails, chosen: Tensor, graph: MessageGraph | None) -> Batch:
    offsets, tails = answers.select(chosen)
    relation_ids = answers.relation_ids[chosen]
    return Batch(graph, None, answers.heads[chosen], relation_ids, offsets, tails, RowGroups.of(relation_ids))
