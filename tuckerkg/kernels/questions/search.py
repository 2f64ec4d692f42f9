"""Which entities a question's messages reach, and along which edges."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, inline="always")
def _is_hidden(target, source, relation, hidden, num_relations):
    """Whether (source, relation, target) is one of the facts ``hidden [k, 3]``, or its inverse; relation -1 is any."""
    for row in range(len(hidden)):
        head, own, tail = hidden[row]
        if source == head and target == tail and (own < 0 or relation == own):
            return True
        if source == tail and target == head and (own < 0 or relation == (own + num_relations) % (2 * num_relations)):
            return True
    return False


@njit(nogil=True)
def reach(edges, space, head, hidden, layers):
    """Breadth-first search along edges that are not hidden; the graph holds every edge in both directions."""
    place, order, counts, watched = space.place, space.order, space.counts, space.watched
    for row in range(len(hidden)):
        watched[hidden[row, 0]] = 1
        watched[hidden[row, 2]] = 1
    place[head], order[0], counts[0] = 0, head, 1
    found, start = 1, 0
    for layer in range(layers):
        end = found
        ahead = 0
        for position in range(start, end):
            ahead += edges.starts[order[position] + 1] - edges.starts[order[position]]
        if ahead > 4 * len(place):  # quicker to ask each entity that is not reached yet for a neighbour that is
            for entity in range(len(place)):
                if place[entity] < 0 and _meets(edges, space, entity, end, hidden):
                    place[entity], order[found] = found, entity
                    found += 1
        else:
            for position in range(start, end):
                found = _expand(edges, space, order[position], found, hidden)
        start = end
        counts[layer + 1] = found
    space.bases[0] = 0
    for level in range(layers + 1):
        space.bases[level + 1] = space.bases[level] + counts[level]


@njit(nogil=True, inline="always")
def _expand(edges, space, target, found, hidden):
    """Append the neighbours of ``target`` that are new to the order; returns how many it holds then."""
    place, order = space.place, space.order
    if not space.watched[target]:
        for edge in range(edges.starts[target], edges.starts[target + 1]):
            source = edges.sources[edge]
            if place[source] < 0:
                place[source], order[found] = found, source
                found += 1
        return found
    edge = edges.starts[target]
    for run in range(edges.run_starts[target], edges.run_starts[target + 1]):
        relation = edges.run_relations[run]
        while edge < edges.run_ends[run]:
            source = edges.sources[edge]
            if place[source] < 0 and not _is_hidden(target, source, relation, hidden, edges.num_relations):
                place[source], order[found] = found, source
                found += 1
            edge += 1
    return found


@njit(nogil=True, inline="always")
def _meets(edges, space, target, end, hidden):
    """Whether an edge that is not hidden joins ``target`` to one of the first ``end`` entities of the order."""
    place, limit = space.place, np.uint32(end)
    if not space.watched[target]:
        for edge in range(edges.starts[target], edges.starts[target + 1]):
            if np.uint32(place[edges.sources[edge]]) < limit:  # -1 is the largest number
                return True
        return False
    edge = edges.starts[target]
    for run in range(edges.run_starts[target], edges.run_starts[target + 1]):
        relation = edges.run_relations[run]
        while edge < edges.run_ends[run]:
            source = edges.sources[edge]
            if np.uint32(place[source]) < limit and not _is_hidden(
                target, source, relation, hidden, edges.num_relations
            ):
                return True
            edge += 1
    return False


@njit(nogil=True)
def forget(space, hidden, layers):
    """Make the search's arrays ready for the next question."""
    for position in range(space.counts[layers]):
        space.place[space.order[position]] = -1
    for row in range(len(hidden)):
        space.watched[hidden[row, 0]] = 0
        space.watched[hidden[row, 2]] = 0


@njit(nogil=True)
def localize(edges, space, hidden, layers, power):
    """In-edges of the reached entities from those that send, in local numbers; sums' scale ``degree ** -power``."""
    limit = np.uint32(space.counts[layers - 1])
    num_edges, runs = 0, 0
    for position in range(space.counts[layers]):
        target = space.order[position]
        space.run_starts[position] = runs
        first_edge, degree = edges.starts[target], edges.starts[target + 1] - edges.starts[target]
        outside = 0
        if space.watched[target]:
            outside = 1
        else:
            for place in range(degree):
                local = space.place[edges.sources[first_edge + place]]
                space.sources[num_edges + place] = local
                outside += np.uint32(local) >= limit  # -1 is the largest number
        if outside:
            num_edges, runs, degree = _filter(edges, space, target, hidden, limit, num_edges, runs)
        else:
            for run in range(edges.run_starts[target], edges.run_starts[target + 1]):
                space.relations[runs] = edges.run_relations[run]
                space.run_ends[runs] = edges.run_ends[run] - first_edge + num_edges
                runs += 1
            num_edges += degree
        space.scale[position] = _scale(degree, power)
    space.run_starts[space.counts[layers]] = runs


@njit(nogil=True, inline="always")
def _filter(edges, space, target, hidden, limit, num_edges, runs):
    """Append the in-edges of one entity without those that are hidden or come from too far.

    Returns:
        How many edges and runs there are then, and its degree without the hidden ones.
    """
    edge, degree = edges.starts[target], edges.starts[target + 1] - edges.starts[target]
    watched = space.watched[target]
    for run in range(edges.run_starts[target], edges.run_starts[target + 1]):
        first, relation = num_edges, edges.run_relations[run]
        while edge < edges.run_ends[run]:
            source = edges.sources[edge]
            space.sources[num_edges] = space.place[source]
            if watched and _is_hidden(target, source, relation, hidden, edges.num_relations):
                degree -= 1
            else:
                num_edges += np.uint32(space.place[source]) < limit
            edge += 1
        if num_edges > first:
            space.relations[runs], space.run_ends[runs] = relation, num_edges
            runs += 1
    return num_edges, runs, degree


@njit(nogil=True, inline="always")
def _scale(degree, power):
    """``degree ** -power``, without a logarithm for the usual powers."""
    if power == 0.0:
        return 1.0
    if power == 0.5:
        return 1.0 / np.sqrt(float(max(degree, 1)))
    return float(max(degree, 1)) ** -power
