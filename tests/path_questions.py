"""Path models of any weights, questions, and the model's equations as a loop, for several tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from graphs import random_triples

from tuckerkg.kernels.questions.graph import Questions
from tuckerkg.nn.paths import PathModel

Edge = tuple[int, int, int]  # source, relation below 2R, target
LAYER_NORM_EPSILON = 1e-5


def path_model(num_entities: int, num_relations: int, seed: int = 0, dtype=torch.float64, **options) -> PathModel:
    """Weights that are all at work: gates, gains and shifts too."""
    torch.manual_seed(seed)
    model = PathModel(num_entities, num_relations, **{"width": 8, "layers": 3, "power": 0.5} | options).to(dtype)
    with torch.no_grad():
        for name, size in (("gate", 0.3), ("gain", 0.3), ("shift", 0.2), ("bias", 0.3)):
            getattr(model, name).add_(size * torch.randn_like(getattr(model, name)))
        if model.core == "question":
            model.tucker_core.add_(torch.randn_like(model.tucker_core) / model.width)
    return model


def asking(rows: Sequence[tuple[int, int, Sequence[int], Sequence[int]]], seed: int = 0) -> Questions:
    """Questions from (head, relation, answers, other known answers)."""
    heads, relations, tails, known = zip(*rows, strict=True)
    return Questions(
        np.array(heads, np.int64),
        np.array(relations, np.int64),
        np.cumsum([0, *map(len, tails)]),
        np.array([tail for some in tails for tail in some], np.int64),
        np.cumsum([0, *map(len, known)]),
        np.array([tail for some in known for tail in some], np.int64),
        seed,
    )


def questions_about(triples: np.ndarray, num_relations: int, count: int = 10, seed: int = 0) -> Questions:
    """Random facts, asked for their tail or head, with one or two answers each; other known answers are left out."""
    random = np.random.default_rng(seed)
    rows = []
    for head, relation, tail in triples[random.permutation(len(triples))[:count]].tolist():
        asked = (tail, relation + num_relations) if random.random() < 0.5 else (head, relation)
        known = [v for u, r, v in edges_of(triples, num_relations) if (u, r) == asked]
        taken = 1 + (random.random() < 0.5)
        rows.append((*asked, known[:taken], known[taken:]))
    return asking(rows, seed)


def edges_of(triples: np.ndarray, num_relations: int) -> list[Edge]:
    """Every fact as an edge, and back."""
    there = [(h, r, t) for h, r, t in triples.tolist()]
    return there + [(t, r + num_relations, h) for h, r, t in there]


def without_hidden(triples: np.ndarray, num_relations: int, questions: Questions, row: int, hide: str) -> np.ndarray:
    """The facts that one training question may use."""
    head, relation = int(questions.heads[row]), int(questions.relations[row])
    answers = set(questions.answers(row).tolist())
    kept = []
    for h, r, t in triples.tolist():
        if hide == "pair":
            hidden = (h == head and t in answers) or (t == head and h in answers)
        elif relation < num_relations:
            hidden = (h, r) == (head, relation) and t in answers
        else:
            hidden = (t, r) == (head, relation - num_relations) and h in answers
        if not hidden:
            kept.append((h, r, t))
    return np.array(kept, np.int64).reshape(-1, 3)


def naive_scores(
    model: PathModel,
    edges: list[Edge],
    head: int,
    asked: int,
    num_entities: int,
    factors: dict[tuple[int, Edge], float] | None = None,
) -> np.ndarray:
    """Scores of one question, by the equations of ``nn/paths.py`` one after the other.

    ``factors`` multiply the message of an edge in a layer.
    """
    given = {name: tensor.detach().double().numpy() for name, tensor in model.named_parameters()}
    d, query = model.width, given["queries"][asked]
    states = {head: query}  # entities that were reached; the others are 0
    for layer in range(model.layers):
        arrived: dict[int, list[np.ndarray]] = {entity: [] for entity in states}
        used = {relation for _, relation, _ in edges}
        vectors = {relation: naive_relation(model, given, layer, relation, query) for relation in used}
        for source, relation, target in edges:
            if source in states:
                factor = (factors or {}).get((layer, (source, relation, target)), 1.0)
                message = factor * naive_message(model, given, layer, states[source], vectors[relation])
                arrived.setdefault(target, []).append(message)
        w_a, w_x, w_n, w_0 = (given["mix"][layer][k * d : (k + 1) * d].T for k in range(4))
        gate = np.array([1 + sum(given["gate"][layer][i, k] * query[k] for k in range(d)) for i in range(d)])
        after = {}
        for entity, messages in arrived.items():
            degree = sum(target == entity for _, _, target in edges)
            summed, top, bottom = np.zeros(d), np.zeros(d), np.zeros(d)
            for feature in range(d):
                numbers = [message[feature] for message in messages]
                if numbers:
                    summed[feature] = max(degree, 1) ** -model.power * sum(numbers)
                    top[feature], bottom[feature] = max(numbers), min(numbers)
            if entity == head:
                summed = summed + query
            before = states.get(entity, np.zeros(d))
            value = w_a @ (gate * summed) + w_x @ top + w_n @ bottom + w_0 @ before + given["bias"][layer]
            value = (value - value.mean()) / np.sqrt(value.var() + LAYER_NORM_EPSILON)
            value = given["gain"][layer] * value + given["shift"][layer]
            after[entity] = before + np.maximum(value, 0)
        states = after
    scores = np.empty(num_entities)
    for entity in range(num_entities):
        hidden = given["up"].T @ states.get(entity, np.zeros(d)) + given["up_query"].T @ query + given["up_bias"]
        scores[entity] = given["down"] @ np.maximum(hidden, 0)
    return scores


def naive_relation(model: PathModel, given: dict, layer: int, relation: int, query: np.ndarray) -> np.ndarray:
    vector = given["relations"][layer][relation]
    if model.core != "question":
        return vector
    return vector + naive_core(given["tucker_core"][layer], given["features"][layer][relation], query)


def naive_message(model: PathModel, given: dict, layer: int, state: np.ndarray, vector: np.ndarray) -> np.ndarray:
    if model.core == "tucker":
        return naive_core(given["tucker_core"][layer], state, vector)  # Eq. (3)
    return state * vector  # Eq. (7)


def naive_core(core: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    product = np.zeros(core.shape[2])
    for i in range(core.shape[0]):
        for k in range(core.shape[1]):
            for j in range(core.shape[2]):
                product[j] += core[i, k, j] * first[i] * second[k]
    return product


def naive_loss(model: PathModel, triples: np.ndarray, questions: Questions, hide: str, num_entities: int) -> float:
    """Mean over questions of the mean over answers of -log softmax, other known answers left out."""
    values = []
    for row, (head, asked) in enumerate(zip(questions.heads.tolist(), questions.relations.tolist(), strict=True)):
        kept = without_hidden(triples, model.num_relations, questions, row, hide)
        scores = naive_scores(model, edges_of(kept, model.num_relations), head, asked, num_entities)
        answers, others = questions.answers(row).tolist(), questions.other_answers(row).tolist()
        values.append(
            np.mean(
                [
                    -np.log(
                        np.exp(scores[answer])
                        / sum(
                            np.exp(scores[entity])
                            for entity in range(num_entities)
                            if entity == answer or (entity not in answers and entity not in others)
                        )
                    )
                    for answer in answers
                ]
            )
        )
    return float(np.mean(values))


def small_graph(seed: int, num_entities: int = 9, num_relations: int = 3, facts: int = 16) -> np.ndarray:
    """Random facts with a loop; the last two entities have no edge."""
    triples = random_triples(seed, num_entities - 2, num_relations, facts)
    return np.unique(np.concatenate([triples, [[0, 0, 0]]]), axis=0)


N, R = 9, 3
CLOSE = {"rtol": 1e-10, "atol": 1e-10}
GRAPHS = {
    "random": small_graph(1),
    "dense": random_triples(2, N, R, 120),
    "one relation": random_triples(3, N, 1, 14),
    "one fact": np.array([[2, 0, 5]]),
    "loops alone": np.array([[2, 0, 2], [2, 1, 2], [3, 1, 3]]),
    "star": np.array([[0, 0, leaf] for leaf in range(1, N)]),
    "ring": np.array([[i, 0, (i + 1) % N] for i in range(N)]),
    "complete": np.array([[i, 1, j] for i in range(5) for j in range(5) if i != j]),
    # So many edges at 0 that the search asks the entities that are left for neighbours, not the other way round.
    "crowd": np.array(
        [[i, r, j] for i in range(6) for j in range(6) for r in range(R)] + [[0, 0, 6], [0, 1, 6], [6, 1, 7], [7, 2, 8]]
    ),
}


def every_question(num_entities: int = N, num_relations: int = R) -> tuple[torch.Tensor, torch.Tensor]:
    pairs = torch.cartesian_prod(torch.arange(num_entities), torch.arange(2 * num_relations))
    return pairs[:, 0].contiguous(), pairs[:, 1].contiguous()


def gradients(model: PathModel, value: torch.Tensor) -> dict[str, torch.Tensor]:
    names, tensors = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(value, tensors), strict=True))


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], **tolerance) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.allclose(found[name], tensor, **(tolerance or CLOSE)), name
