"""Paths of a graph from one entity to another, and how often a path of that kind leads to a fact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tuckerkg.graph.known_tails import KnownTails, rows_of
from tuckerkg.graph.strongest_paths import WeighedPath

LONGEST = 3  # relations on a path
MIDDLES = 400  # neighbours that a path of three may leave or reach by; those with the fewest neighbours come first
KINDS = 200  # kinds of path that are weighed
WALKS = 2_000  # random paths of a kind that are examined
WeighFunction = Callable[[KnownTails, tuple[int, ...], int], tuple[float, int]]
DOUBT = 10  # as many walks that fail are added to a kind's own before it is put into the order


@dataclass(frozen=True)
class Path:
    """A way through the graph: ``entity_ids [L + 1]``, ``relation_ids [L]`` below 2R, inverses in the second half.

    Of ``walks`` random paths of its kind (the same relations in that order), the share ``confidence`` leads from a head
    to a tail of the relation that is explained. ``share`` is its part of a score that came along paths.
    """

    entity_ids: tuple[int, ...]
    relation_ids: tuple[int, ...]
    confidence: float
    walks: int
    share: float | None = None


def carrying_paths(answers: KnownTails, found: list[WeighedPath], relation: int) -> list[Path]:
    """Paths that carried a score, each with how often a path of its kind leads to ``relation``."""
    return [
        Path(path.entity_ids, path.relation_ids, *path_confidence(answers, path.relation_ids, relation), path.share)
        for path in found
    ]


def supporting_paths(
    answers: KnownTails,
    head: int,
    relation: int,
    tail: int,
    count: int = 5,
    *,
    kinds: int = KINDS,
    weigh: WeighFunction | None = None,
) -> list[Path]:
    """The paths from head to tail whose kind leads most often to ``relation``; one of a kind, without that fact itself.

    Args:
        answers: those of the training triples and their inverses.
        count: how many paths.
        kinds: how many kinds are weighed, those of short paths first.
        weigh: gives the confidence and the walks of a kind, as ``path_confidence`` does, from what is known of it.
    """
    of_kind = weigh or path_confidence
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    for entity_ids, relation_ids in _paths(answers, head, tail):
        if relation_ids == (relation,) or len(found) == kinds:
            continue
        found.setdefault(relation_ids, entity_ids)
    weighed = [Path(entity_ids, kind, *of_kind(answers, kind, relation)) for kind, entity_ids in found.items()]
    weighed.sort(key=lambda path: (-path.confidence * path.walks / (path.walks + DOUBT), len(path.relation_ids)))
    return weighed[:count]


def path_confidence(answers: KnownTails, kind: tuple[int, ...], relation: int, seed: int = 0) -> tuple[float, int]:
    """The share of random walks along ``kind`` that end where ``relation`` leads from their start, and their number.

    A walk starts at a random edge of the first relation. One that comes to an entity twice is no path, and one that
    uses the explained edge itself, forwards or backwards, tells nothing: neither counts.
    """
    generator = torch.Generator().manual_seed(seed)
    half = answers.num_relations // 2
    asked = (answers.relation_ids == kind[0]).nonzero()[:, 0]  # (head, relation) pairs of the first relation
    counts = (answers.offsets[asked + 1] - answers.offsets[asked]).double()
    if counts.numel() == 0:
        return 0.0, 0
    starts = answers.heads[asked[torch.multinomial(counts, WALKS, replacement=True, generator=generator)]]
    places, walked = starts, torch.ones(WALKS, dtype=torch.bool)
    trail: list[tuple[Tensor, int, Tensor]] = []
    for step in kind:
        before = places
        places, could = _step(answers, places, step, generator)
        walked &= could
        for earlier, _, _ in trail:
            walked &= places != earlier
        walked &= places != before
        trail.append((before, step, places))
    for before, step, after in trail:
        if step == relation:
            walked &= ~((before == starts) & (after == places))
        elif step == (relation + half) % answers.num_relations:
            walked &= ~((after == starts) & (before == places))
    offsets, tails = answers.find(starts, torch.full_like(starts, relation))
    rows = rows_of(offsets)
    holds = torch.zeros(WALKS, dtype=torch.bool)
    holds[rows[tails == places[rows]]] = True
    walks = int(walked.sum())
    return (float((holds & walked).sum()) / walks if walks else 0.0), walks


def _step(answers: KnownTails, places: Tensor, relation: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A random neighbour along ``relation`` of each place, and which places have one."""
    offsets, tails = answers.find(places, torch.full_like(places, relation))
    counts = offsets[1:] - offsets[:-1]
    if tails.numel() == 0:
        return places, counts > 0
    draw = (torch.rand(len(places), generator=generator, dtype=torch.double) * counts).long()
    chosen = (offsets[:-1] + draw).clamp(max=tails.numel() - 1)
    return torch.where(counts > 0, tails[chosen], places), counts > 0


def _paths(answers: KnownTails, head: int, tail: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Paths of up to three relations, short ones first, as entity ids and relation ids. No entity stands twice."""
    half, total = answers.num_relations // 2, answers.num_relations
    leaving = _edges_of(answers, head)  # [n, 2] relation, neighbour
    reaching = _edges_of(answers, tail)
    reaching = np.stack([(reaching[:, 0] + half) % total, reaching[:, 1]], 1)  # as seen on the way to the tail
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for relation, _ in leaving[leaving[:, 1] == tail]:
        found.append(((head, tail), (int(relation),)))
    into: dict[int, list[int]] = {}
    for relation, neighbour in reaching:
        into.setdefault(int(neighbour), []).append(int(relation))
    between = leaving[(leaving[:, 1] != tail) & (leaving[:, 1] != head)]
    for relation, middle in between:
        found += [((head, int(middle), tail), (int(relation), last)) for last in into.get(int(middle), ())]
    near = np.array([place for place in into if place not in (head, tail)], dtype=np.int64)
    for relation, first in _least_connected(answers, between):
        onward = _edges_of(answers, int(first))
        for second_relation, second in onward[np.isin(onward[:, 1], near)]:
            if second != first:
                way = (head, int(first), int(second), tail)
                found += [(way, (int(relation), int(second_relation), last)) for last in into[int(second)]]
    return found


def _least_connected(answers: KnownTails, edges: np.ndarray) -> np.ndarray:
    """At most ``MIDDLES`` of ``edges [n, 2]`` (relation, neighbour): a hub connects anything with anything."""
    if len(edges) <= MIDDLES:
        return edges
    degrees = np.array([len(_edges_of(answers, int(entity))) for entity in edges[:, 1]])
    return np.asarray(edges[np.argsort(degrees, kind="stable")[:MIDDLES]])


def _edges_of(answers: KnownTails, entity: int) -> np.ndarray:
    """(relation, neighbour) of the edges that leave ``entity``, ``[n, 2]``."""
    first, last = (int(torch.searchsorted(answers.keys, key * answers.num_relations)) for key in (entity, entity + 1))
    offsets, tails = answers.select(torch.arange(first, last))
    relation_ids = answers.relation_ids[first:last][rows_of(offsets)]
    return torch.stack([relation_ids, tails], 1).numpy()
