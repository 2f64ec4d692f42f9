"""Messages that start from the question: a training step and answers, against plain PyTorch, PyG and what rows allow.

A limit is what must be done whatever the program: a row of the states is gathered for every edge that carries a
message, and every entity that is updated has its products. Gathering is measured in the same run, on the edges of the
same questions with nothing else around it; multiplications are counted, and take the time of as many in a product of
that width whose rows lie in the cache. The search for the edges, norms, maxima and the loss cost on top.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numba import njit
from torch import Tensor

from benchmarks.measure import Line, Measured, Work, alternate, once
from tuckerkg.batches.questions import QuestionBatches
from tuckerkg.data.load import load
from tuckerkg.graph.in_edges import InEdges
from tuckerkg.kernels.questions.graph import QuestionGraph, Questions
from tuckerkg.kernels.questions.vector_rows import Width, fill, lanes, store
from tuckerkg.kernels.questions.vector_rows import load as load_row
from tuckerkg.nn.paths import PathModel, hidden_edges

Stage = Literal["question-step", "question-answer"]
CASES = (("fb15k-237", 4), ("wn18rr", 6))
WIDTH = 32
QUESTIONS = 64  # of a step, and answered at once
FEW = 2  # of them, for what is too slow for all
ROWS = (64, 256, 1_024, 4_096)  # of the products whose best rate is the limit
LEAST_GRADIENT = 0.01  # the default of the settings
EPSILON = 1e-5  # of LayerNorm


def run(
    stage: Stage,
    peers: bool = True,
    cases: tuple[tuple[str, int], ...] = CASES,
    width: int = WIDTH,
    questions: int = QUESTIONS,
    threads: tuple[int, ...] = (1, 2),
) -> Iterator[Line]:
    before = torch.get_num_threads()
    try:
        for dataset, layers in cases:
            case = Case(dataset, layers, width, questions)
            for number in threads:
                if number <= (os.cpu_count() or 1):
                    torch.set_num_threads(number)
                    yield _one(stage, case, number, peers)
    finally:
        torch.set_num_threads(before)


class Case:
    """A dataset, a model with random weights, and random training questions."""

    def __init__(self, dataset: str, layers: int, width: int, questions: int) -> None:
        data = load(dataset)
        self.dataset = dataset
        torch.manual_seed(0)
        self.model = PathModel(len(data.entities), len(data.relations), width=width, layers=layers)
        sizes = len(data.entities), len(data.relations)
        batches = QuestionBatches(data.train, *sizes, 0, questions=questions, answers=0.0)
        batch = batches.batch(0)
        self.graph: QuestionGraph = batch.graph
        self.questions: Questions = batch.questions
        self.heads, self.relation_ids = batch.heads, torch.from_numpy(batch.questions.relations)
        self._messages: dict[bool, list[Messages]] = {}

    @property
    def count(self) -> int:
        return len(self.questions.heads)

    def one(self, row: int) -> Questions:
        """One of the questions on its own."""
        asked, answers, known = self.questions, self.questions.answers(row), self.questions.other_answers(row)
        return Questions(
            asked.heads[row : row + 1],
            asked.relations[row : row + 1],
            np.array([0, len(answers)]),
            answers,
            np.array([0, len(known)]),
            known,
            asked.seed,
        )

    def hidden(self, row: int) -> np.ndarray:
        """The edges that one of the questions must not use, ``[E]``."""
        return hidden_edges(self.graph.edges, self.one(row).hidden(False))

    def step(self, least: float = LEAST_GRADIENT) -> None:
        self.model.zero_grad()
        self.model.loss(self.graph, self.questions, hide="own", least_gradient=least).backward()

    def answer(self) -> None:
        self.model.scores(self.graph, self.heads, self.relation_ids)

    def messages(self, training: bool) -> list[Messages]:
        """What the questions send; found once. In training edges are hidden, and some gradients come back."""
        if training not in self._messages:
            random, nothing = np.random.default_rng(0), np.zeros(len(self.graph.edges.sources), dtype=bool)
            self._messages[training] = []
            for row in range(self.count):
                hidden = self.hidden(row) if training else nothing
                found = messages_of(self.graph.edges, int(self.questions.heads[row]), self.model.layers, hidden)
                self._messages[training].append(found)
                if training:
                    asked = self.heads[row : row + 1], self.relation_ids[row : row + 1]
                    shares = torch.softmax(self.model.scores(self.graph, *asked)[0].double(), 0).numpy()
                    kept = random.random(len(shares)) < shares / LEAST_GRADIENT  # as small gradients are rounded
                    kept[self.questions.answers(row)] = True
                    found.trace(kept)
        return self._messages[training]


def _one(stage: Stage, case: Case, threads: int, peers: bool) -> Line:
    training = stage == "question-step"
    works: dict[str, Work] = {"ours": case.step if training else case.answer}
    if training:
        works["exact"] = lambda: case.step(0.0)
    found = alternate(works)
    ours, model = found["ours"], case.model
    work = (
        f"{case.dataset}, {model.layers} layers, width {model.width}, {case.count} training questions, "
        f"{'loss and gradients' if training else 'scores of all entities'}, {threads} thread{'s' * (threads > 1)}"
    )
    line = Line(stage, work, ours.seconds, ours.peak_memory_mb, f"{case.count / ours.seconds:.1f} questions/s")
    if training:
        line.hold("every gradient", found["exact"], what="paths.least_gradient = 0")
    few = min(FEW, case.count)
    said = f"{few} of the questions, one by one, scaled to all"
    line.hold("plain PyTorch", _scaled(once(_each(few, _plain(case, training))), case.count / few), what=said)
    missing = ""
    if peers:
        try:
            asked = PyGScores(model, case.graph.edges)
        except ImportError:
            missing = "; PyG is not installed here (extra peers) and was left out"
        else:
            measured = _scaled(once(_each(few, _pyg(asked, case, training))), case.count / few)
            line.hold("PyG", measured, what=f"MessagePassing over all edges of reached entities, {said}")
    _hold_limits(line, case, training, threads)
    line.notes += missing
    return line


def _each(few: int, ask: Callable[[int], object]) -> Work:
    def work() -> None:
        for row in range(few):
            ask(row)

    return work


def _scaled(found: Measured, factor: float) -> Measured:
    return Measured(found.seconds * factor, found.all_seconds, found.peak_memory_mb)


def _plain(case: Case, training: bool) -> Callable[[int], object]:
    edges, model = case.graph.edges, case.model

    def ask(row: int) -> None:
        if training:
            model.zero_grad()
            model.plain_loss(edges, case.one(row), False).backward()
            return
        with torch.no_grad():
            model.plain_scores(edges, case.heads[row : row + 1], case.relation_ids[row : row + 1])

    return ask


# ---------------------------------------------------------------------------------------------------- PyG


class PyGScores:
    """The same model with PyG's message passing, one question at a time over the whole graph.

    Raises:
        ImportError: PyG is not installed.
    """

    def __init__(self, model: PathModel, edges: InEdges) -> None:
        self.model, self.layer = model, _pyg_layer()
        self.sources, self.relations, self.targets = torch.from_numpy(edges.triples()).unbind(1)

    def __call__(self, head: int, relation: int, hidden: np.ndarray | None = None) -> Tensor:
        """Scores of all entities, ``[N]``."""
        model, number = self.model, self.model.num_entities
        shown = torch.ones(len(self.sources), dtype=torch.bool) if hidden is None else torch.from_numpy(~hidden)
        sources, relations, targets = self.sources[shown], self.relations[shown], self.targets[shown]
        query, place = model.queries[relation], torch.tensor([head])
        tables = model.relation_tables(torch.tensor([relation]))[0]  # [L, 2R, d]
        scale = torch.bincount(targets, minlength=number).clamp(min=1).to(query.dtype) ** -model.power  # [N]
        states = query.new_zeros(number, model.width).index_put((place,), query[None])
        reached = torch.zeros(number, dtype=torch.bool)
        reached[head] = True
        for depth in range(model.layers):
            sends = reached[sources]
            edge_index = torch.stack([sources[sends], targets[sends]])
            weights = tables[depth][relations[sends]]
            summed, top, bottom = self.layer(states, weights, edge_index).chunk(3, 1)
            summed = (summed * scale[:, None]).index_put((place,), query[None], accumulate=True)
            inputs = torch.cat([summed * (1 + model.gate[depth] @ query), top, bottom, states], 1)  # [N, 4d]
            value = inputs @ model.mix[depth] + model.bias[depth]
            value = F.layer_norm(value, (model.width,), model.gain[depth], model.shift[depth], EPSILON)
            reached = reached.clone()
            reached[edge_index[1]] = True
            states = states + F.relu(value) * reached[:, None]
        asked = query @ model.up_query + model.up_bias
        return F.relu(states @ model.up + asked) @ model.down


def _pyg_layer() -> Any:
    from torch_geometric.nn import MessagePassing

    class Messages(MessagePassing):
        def __init__(self) -> None:
            super().__init__(aggr=["sum", "max", "min"])

        def forward(self, states: Tensor, weights: Tensor, edge_index: Tensor) -> Tensor:
            return self.propagate(edge_index, states=states, weights=weights)

        def message(self, states_j: Tensor, weights: Tensor) -> Tensor:
            return states_j * weights

    return Messages()


def _pyg(asked: PyGScores, case: Case, training: bool) -> Callable[[int], object]:
    def ask(row: int) -> None:
        head, relation = int(case.questions.heads[row]), int(case.questions.relations[row])
        if not training:
            with torch.no_grad():
                asked(head, relation)
            return
        case.model.zero_grad()
        scores, answers = asked(head, relation, case.hidden(row)), torch.from_numpy(case.questions.answers(row))
        others = scores.index_fill(0, torch.from_numpy(case.questions.other_answers(row)), -torch.inf)
        F.cross_entropy(others.expand(len(answers), -1), answers).backward()

    return ask


# ---------------------------------------------------------------------------------------------------- limits


@dataclass
class Messages:
    """What one question sends. Entities are numbered in the order in which they are reached, edges go by target."""

    order: np.ndarray  # [n] entities
    counts: list[int]  # [L + 1] entities reached within so many steps
    starts: np.ndarray  # [n + 1] int64, first edge of each target
    sources: np.ndarray  # [m] int32
    touched: list[np.ndarray]  # [L], targets of a layer that gradients come back to

    def edges(self, layer: int) -> int:
        """How many edges carry a message in a layer."""
        return int((self.sources < self.counts[layer]).sum())

    def trace(self, kept: np.ndarray) -> None:
        """Follow gradients from the entities marked in ``kept [N]`` down to the first layer."""
        marked = kept[self.order]
        targets = np.repeat(np.arange(len(self.order)), np.diff(self.starts))
        self.touched = []
        for layer in range(len(self.counts) - 2, -1, -1):
            marked[self.counts[layer + 1] :] = False
            self.touched.insert(0, np.flatnonzero(marked))
            used = marked[targets] & (self.sources < self.counts[layer])
            marked[self.sources[used]] = True

    def traced(self, layer: int) -> int:
        """How many edges carry a gradient back in a layer."""
        targets = np.repeat(np.arange(len(self.order)), np.diff(self.starts))
        used = np.isin(targets, self.touched[layer]) & (self.sources < self.counts[layer])
        return int(used.sum())


def messages_of(edges: InEdges, head: int, layers: int, hidden: np.ndarray) -> Messages:
    """Search from ``head`` over the edges that are not hidden."""
    source, _, target = edges.triples()[~hidden].T
    place = np.full(edges.num_entities, -1)
    place[head], order, counts = 0, [np.array([head])], [1]
    for _ in range(layers):
        found = np.unique(target[(place[source] >= 0) & (place[target] < 0)])
        place[found] = counts[-1] + np.arange(len(found))
        order.append(found)
        counts.append(counts[-1] + len(found))
    used = (place[target] >= 0) & (place[source] >= 0) & (place[source] < counts[-2])
    by_target = np.argsort(place[target[used]], kind="stable")
    starts = np.zeros(counts[-1] + 1, np.int64)
    np.cumsum(np.bincount(place[target[used]], minlength=counts[-1]), out=starts[1:])
    return Messages(np.concatenate(order), counts, starts, place[source[used]][by_target].astype(np.int32), [])


@njit(nogil=True)  # type: ignore[untyped-decorator]
def gather_sums(width, table, sources, starts, sent, received, out):  # type: ignore[no-untyped-def]
    """The sum of the rows that every entity gets, and nothing else."""
    d = lanes(width)
    for target in range(received):
        total = fill(width, table, 0)
        for edge in range(starts[target], starts[target + 1]):
            source = sources[edge]
            if source < sent:
                total = total + load_row(width, table, source * d)
        store(out, target * d, total)


@njit(nogil=True)  # type: ignore[untyped-decorator]
def scatter_rows(width, table, sources, starts, sent, targets, above, out):  # type: ignore[no-untyped-def]
    """Each target's row times the source's, added to the source: one row read, one read and written per edge."""
    d = lanes(width)
    for target in targets:
        pull = load_row(width, above, target * d)
        for edge in range(starts[target], starts[target + 1]):
            source = sources[edge]
            if source < sent:
                at = source * d
                store(out, at, load_row(width, out, at) + pull * load_row(width, table, at))


def _hold_limits(line: Line, case: Case, training: bool, threads: int) -> None:
    asked, d, layers = case.messages(training), case.model.width, range(case.model.layers)
    edges = sum(each.edges(layer) for each in asked for layer in layers)
    updated = sum(count for each in asked for count in each.counts[1:])
    moved, scored = 4.0 * d * edges, sum(each.counts[-1] for each in asked)
    operations = 8.0 * d * d * updated + 4.0 * d * d * scored  # four matrices, and the first of the MLP
    said = f"{edges / len(asked):.0f} edges and {updated / len(asked):.0f} updates a question"
    if training:
        back = sum(each.traced(layer) for each in asked for layer in layers)
        touched = sum(len(targets) for each in asked for targets in each.touched)
        moved += 12.0 * d * back  # two rows read, one written
        operations += 16.0 * d * d * touched  # gradients of inputs and of matrices
        said += f", {back / len(asked):.0f} edges and {touched / len(asked):.0f} updates back"
    rows = alternate({"rows": _rows(asked, d, training, threads)})["rows"]
    line.hold("rows alone", rows, what=f"{moved / rows.seconds / 1e9:.1f} GB/s, the same edges")
    rate = product_rate(d, threads)
    products = Measured(operations / rate, [], 0.0)
    line.hold("products alone", products, what=f"{operations / 1e9:.2f} GFLOP at {rate / 1e9:.1f} GFLOP/s")
    share = (rows.seconds + products.seconds) / line.seconds
    line.notes = f"{said}; rows and products alone take {share:.0%} of our time"


def _rows(asked: list[Messages], d: int, training: bool, threads: int) -> Work:
    """Gather, and for a step scatter, the rows of all questions, each on one thread."""
    most, width = max(each.counts[-1] for each in asked), Width(d)
    tables = [[np.ones(most * d, np.float32) for _ in range(3)] for _ in asked[:threads]]

    def ask(place: int) -> None:
        table, out, above = tables[place]
        for each in asked[place :: len(tables)]:
            for layer in range(len(each.counts) - 1):
                sent, received = each.counts[layer], each.counts[layer + 1]
                gather_sums(width, table, each.sources, each.starts, sent, received, out)
                if training:
                    scatter_rows(width, table, each.sources, each.starts, sent, each.touched[layer], above, out)

    return _on_threads(len(tables), ask)


def product_rate(d: int, threads: int) -> float:
    """Floating-point operations a second of ``[n, 4d] @ [4d, d]``, one product per thread, at the best of several n."""
    best, before = 0.0, torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for number in ROWS:
            times = max(1, 200_000 // number)
            found = alternate({"product": _on_threads(threads, lambda _, n=number, k=times: _multiply(d, n, k))})
            best = max(best, 8.0 * number * d * d * times * threads / min(found["product"].all_seconds))
    finally:
        torch.set_num_threads(before)
    return best


def _multiply(d: int, number: int, times: int) -> None:
    left, right, out = torch.ones(number, 4 * d), torch.ones(4 * d, d), torch.empty(number, d)
    for _ in range(times):
        torch.mm(left, right, out=out)


def _on_threads(threads: int, ask: Callable[[int], object]) -> Work:
    def work() -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(ask, range(threads)))

    return work
