"""TGCN that starts from the question: messages carry (s, q) from its head to every entity they reach.

For a question (s, q): ``h_s = e_q``, every other entity is 0. Then layer by layer, over the entities reached so far,

    w_rq = w_r + W_c x1 u_r x2 e_q                                         what a relation means to this question
    a_v  = c_v * sum over edges (u, r, v) of  h_u * w_rq + [v = s] e_q     Eq. (7), whose W_3 is W_a
    x_v, n_v = largest and smallest h_u * w_rq, feature by feature
    h_v <- h_v + relu(LayerNorm(W_a (g_q * a_v) + W_x x_v + W_n n_v + W_0 h_v + b)),     g_q = 1 + G e_q
    score(v) = MLP([h_v, e_q])

``c_v`` is the in-degree to the power -``power``. Entities that no message has reached stay 0 and share one score. The
core of a layer is one of three: "question" is the above; "cp" leaves ``w_rq = w_r``; "tucker" is Eq. (3) as printed,
the message ``W_c x1 h_u x2 w_r``, a matrix per relation.

No entity has a parameter: the same weights answer for entities and graphs that training never saw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from tuckerkg.autograd import Context, apply
from tuckerkg.graph.in_edges import InEdges, in_edges
from tuckerkg.kernels.questions.arrays import Shape, Weights
from tuckerkg.kernels.questions.forward import EPSILON
from tuckerkg.kernels.questions.graph import QuestionGraph, Questions
from tuckerkg.nn.model import ParameterCounts

Core = Literal["question", "cp", "tucker"]
Hide = Literal["own", "pair"]
TABLE_NUMBERS = 2**24  # of relations' vectors for several questions at once


class PathModel(nn.Module):
    """The weights of the model above, and its equations in plain PyTorch.

    On the CPU, ``scores`` and ``loss`` run compiled (``kernels/questions``), unless the core is "tucker".
    ``plain_scores`` is what that is tested against, and what runs on CUDA and with that core: it holds every message of
    a layer, ``[B, E, d]``.

    Args:
        num_entities: N of the graph that it is trained on; no parameter depends on it.
        num_relations: R, without inverses.
        width: features d, a power of two.
        layers: how many steps messages go.
        power: 0 sums messages, 1 takes their mean, 0.5 lies between.
        core: of the message, see the top of this module.
    """

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        width: int = 32,
        layers: int = 4,
        power: float = 0.5,
        core: Core = "question",
    ) -> None:
        super().__init__()
        self.num_entities, self.num_relations, self.core = num_entities, num_relations, core
        self.width, self.layers, self.power = width, layers, power
        d = width

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape))

        self.queries = empty(2 * num_relations, d)
        self.relations = empty(layers, 2 * num_relations, d)
        self.tucker_core = None if core == "cp" else empty(layers, d, d, d)  # relation, question or state, out
        self.features = empty(layers, 2 * num_relations, d) if core == "question" else None  # u_r
        self.mix = empty(layers, 4 * d, d)
        self.bias, self.gain, self.shift = empty(layers, d), empty(layers, d), empty(layers, d)
        self.gate = empty(layers, d, d)
        self.up, self.up_query, self.up_bias, self.down = empty(d, 2 * d), empty(d, 2 * d), empty(2 * d), empty(2 * d)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Relations normal with deviation 1; matrices uniform within one over the root of their inputs; gates open."""
        for table in (self.queries, self.relations):
            nn.init.normal_(table)
        for matrix, inputs in ((self.mix, 4 * self.width), (self.bias, 4 * self.width)):
            nn.init.uniform_(matrix, -1 / math.sqrt(inputs), 1 / math.sqrt(inputs))
        for matrix in (self.up, self.up_query, self.up_bias, self.down):
            nn.init.uniform_(matrix, -1 / math.sqrt(2 * self.width), 1 / math.sqrt(2 * self.width))
        nn.init.ones_(self.gain)
        nn.init.zeros_(self.shift)
        nn.init.zeros_(self.gate)
        if self.features is not None and self.tucker_core is not None:
            nn.init.normal_(self.features)
            nn.init.zeros_(self.tucker_core)  # begins as Eq. (7)
        elif self.tucker_core is not None:
            nn.init.normal_(self.tucker_core, std=1 / self.width)  # a message keeps the size of its source

    def counts(self) -> ParameterCounts:
        """Free parameters as the paper counts them: no entity has any, relations have several vectors."""
        tables = (self.queries, self.relations, self.features)
        relations = sum(table.numel() for table in tables if table is not None)
        others = sum(parameter.numel() for parameter in self.parameters()) - relations
        score = sum(part.numel() for part in (self.up, self.up_query, self.up_bias, self.down))
        return ParameterCounts(relations, others, others - score)

    def message_graph(self, train: np.ndarray) -> QuestionGraph:
        """The graph of ``train [n, 3]``, which questions are asked of."""
        return QuestionGraph(in_edges(train, self.num_entities, self.num_relations))

    @property
    def compiled(self) -> bool:
        """Whether the compiled kernel computes this model where it is."""
        return self.core != "tucker" and self.queries.device.type == "cpu"

    def scores(
        self,
        graph: QuestionGraph,
        heads: Tensor,
        relation_ids: Tensor,
        without: Sequence[np.ndarray] | None = None,
    ) -> Tensor:
        """Scores ``[B, N]`` of every entity as the answer to ``heads [B]``, ``relation_ids [B]``, without gradients.

        Args:
            without: facts ``[k, 3]`` that each question must not use.
        """
        if self.compiled:
            return torch.from_numpy(self._compiled_scores(graph, heads.cpu().numpy(), relation_ids.cpu(), without))
        device = self.queries.device
        hidden = None if without is None else _stacked([hidden_edges(graph.edges, facts) for facts in without], device)
        with torch.no_grad():
            return self.plain_scores(graph.edges, heads.to(device), relation_ids.to(device), hidden)

    def _compiled_scores(
        self, graph: QuestionGraph, heads: np.ndarray, relation_ids: Tensor, without: Sequence[np.ndarray] | None
    ) -> np.ndarray:
        kinds, tables = torch.unique(relation_ids, return_inverse=True)
        most = max(1, TABLE_NUMBERS // self.relations.numel())  # of the relations' tables in memory at once
        if self.core == "question" and len(kinds) > most:
            out = np.empty((len(heads), graph.edges.num_entities), self.queries.detach().numpy().dtype)
            for first in range(0, len(kinds), most):
                rows = torch.nonzero((tables >= first) & (tables < first + most)).flatten()
                own = None if without is None else [without[row] for row in rows.tolist()]
                out[rows.numpy()] = self._compiled_scores(graph, heads[rows.numpy()], relation_ids[rows], own)
            return out
        asked = heads.astype(np.int64), relation_ids.numpy().astype(np.int64)
        return graph.answer(self.shape, self.arrays(kinds), *asked, without, tables.numpy())

    def loss(self, graph: QuestionGraph, questions: Questions, *, hide: Hide, least_gradient: float = 0.0) -> Tensor:
        """Mean over questions of the softmax cross entropy of their answers, other known answers left out.

        Args:
            hide: which edges a question must not use.
            least_gradient: see ``QuestionGraph.train``; the plain version keeps every gradient.
        """
        whole_pair = hide == "pair"
        if self.compiled:
            relations = self._table_of_each(torch.from_numpy(questions.relations))
            tensors = [relations if name == "relations" else getattr(self, name) for name in Weights._fields]
            return _as_tensor(apply(_CompiledLoss, graph, self.shape, questions, whole_pair, least_gradient, *tensors))
        return self.plain_loss(graph.edges, questions, whole_pair)

    @property
    def shape(self) -> Shape:
        """What the kernel must know."""
        return Shape(self.width, self.layers, self.power)

    def relation_tables(self, kinds: Tensor) -> Tensor:
        """``w_rq`` of questions about ``kinds [K]``, ``[K, L, 2R, d]``; with another core ``[L, 2R, d]``."""
        if self.core != "question":
            return self.relations
        assert self.features is not None
        assert self.tucker_core is not None
        matrices = torch.einsum("qk,likj->qlij", self.queries[kinds.to(self.queries.device)], self.tucker_core)
        return self.relations + torch.einsum("lri,qlij->qlrj", self.features, matrices)

    def _table_of_each(self, relation_ids: Tensor) -> Tensor:
        """``relation_tables`` of every question ``[B, L, 2R, d]``, so that each has a gradient of its own."""
        kinds, places = torch.unique(relation_ids, return_inverse=True)
        tables = self.relation_tables(kinds)
        return tables[places] if self.core == "question" else tables

    @torch.no_grad()
    def arrays(self, kinds: Tensor) -> Weights:
        """What the kernel needs for questions about ``kinds [K]``; parameters of the CPU share their memory."""
        weights = {name: getattr(self, name) for name in Weights._fields}
        weights["relations"] = self.relation_tables(kinds)
        return Weights(**{name: tensor.detach().cpu().numpy().reshape(-1) for name, tensor in weights.items()})

    def plain_scores(self, edges: InEdges, heads: Tensor, relation_ids: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Scores ``[B, N]``. ``hidden [B, E]`` marks edges that a question must not use."""
        source, relation, target = torch.from_numpy(edges.triples()).to(heads.device).T
        number = edges.num_entities
        open_edges = torch.ones(len(heads), len(source), dtype=torch.bool, device=heads.device)
        if hidden is not None:
            open_edges = ~hidden
        rows = torch.arange(len(heads), device=heads.device)
        query = self.queries[relation_ids]  # [B, d]
        states = query.new_zeros(len(heads), number, self.width).index_put((rows, heads), query)
        reached = torch.zeros(len(heads), number, dtype=torch.bool, device=heads.device)
        reached[rows, heads] = True
        degree = torch.zeros(len(heads), number, dtype=query.dtype, device=heads.device)
        degree.index_add_(1, target, open_edges.to(query.dtype))
        scale = degree.clamp(min=1) ** -self.power
        tables = self._table_of_each(relation_ids)
        for layer in range(self.layers):
            sends = (open_edges & reached[:, source])[:, :, None]  # [B, E, 1]
            messages = self._messages(layer, states[:, source], relation, tables)
            summed = torch.zeros_like(states).index_add(1, target, messages * sends)
            summed = (summed * scale[:, :, None]).index_put((rows, heads), query, accumulate=True)
            top, bottom = (
                _extreme(messages.masked_fill(~sends, sign * math.inf), target, states, reduce)
                for sign, reduce in ((-1, "amax"), (1, "amin"))
            )
            gate = 1 + query @ self.gate[layer].T  # [B, d]
            inputs = torch.cat([summed * gate[:, None], top, bottom, states], 2)  # [B, N, 4d]
            value = inputs @ self.mix[layer] + self.bias[layer]
            value = nn.functional.layer_norm(value, (self.width,), self.gain[layer], self.shift[layer], EPSILON)
            reached = reached | (torch.zeros_like(degree).index_add_(1, target, sends[:, :, 0].to(query.dtype)) > 0)
            states = states + torch.relu(value) * reached[:, :, None]
        asked = query @ self.up_query + self.up_bias
        return torch.relu(states @ self.up + asked[:, None]) @ self.down

    def _messages(self, layer: int, sources: Tensor, relation: Tensor, tables: Tensor) -> Tensor:
        """``sources [B, E, d]``, ``relation [E]`` and what ``relation_tables`` has -> messages ``[B, E, d]``."""
        table = tables[..., layer, :, :]  # [2R, d] or [B, 2R, d]
        if self.core != "tucker":
            return sources * table[..., relation, :]  # Eq. (7)
        assert self.tucker_core is not None
        matrices = torch.einsum("rk,ikj->rij", table, self.tucker_core[layer])  # Eq. (3): W_c x2 e_r
        return torch.einsum("bei,eij->bej", sources, matrices[relation])

    def plain_loss(self, edges: InEdges, questions: Questions, whole_pair: bool) -> Tensor:
        """``loss`` in plain PyTorch."""
        device = self.queries.device
        facts = np.split(questions.hidden(whole_pair), questions.tail_starts[1:-1])
        hidden = _stacked([hidden_edges(edges, own) for own in facts], device)
        heads, relation_ids = torch.from_numpy(questions.heads), torch.from_numpy(questions.relations)
        scores = self.plain_scores(edges, heads.to(device), relation_ids.to(device), hidden)
        value = scores.new_zeros(())
        for row in range(len(heads)):
            tails = torch.from_numpy(questions.answers(row)).to(device)
            competes = torch.ones(edges.num_entities, dtype=torch.bool, device=device)
            competes[tails] = False
            competes[torch.from_numpy(questions.other_answers(row)).to(device)] = False
            others = torch.logsumexp(scores[row].masked_fill(~competes, -math.inf), 0)
            value = value + (torch.logaddexp(others, scores[row, tails]) - scores[row, tails]).mean()
        return value / len(heads)


class _CompiledLoss(torch.autograd.Function):
    """The kernel computes loss and gradients in one pass; backward only hands the gradients out."""

    @staticmethod
    def forward(
        ctx: Context,
        graph: QuestionGraph,
        shape: Shape,
        questions: Questions,
        whole_pair: bool,
        least: float,
        *tensors: Tensor,
    ) -> Tensor:
        weights = Weights(*(tensor.detach().numpy().reshape(-1) for tensor in tensors))
        value, grads = graph.train(shape, weights, questions, whole_pair=whole_pair, least=least)
        ctx.grads = [
            torch.from_numpy(gradient.reshape(tensor.shape)) for gradient, tensor in zip(grads, tensors, strict=True)
        ]
        return tensors[0].new_tensor(value)

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        return (None,) * 5 + tuple(gradient * gradients[0] for gradient in ctx.grads)


def _as_tensor(value: Any) -> Tensor:
    assert isinstance(value, Tensor)
    return value


def _extreme(messages: Tensor, target: Tensor, like: Tensor, reduce: str) -> Tensor:
    """The largest or smallest message of each entity ``[B, N, d]``, 0 where none arrives; equals share a gradient."""
    start = torch.full_like(like, -math.inf if reduce == "amax" else math.inf)
    index = target[None, :, None].expand(messages.shape)
    found = start.scatter_reduce(1, index, messages, reduce)
    return torch.where(torch.isinf(found), torch.zeros_like(found), found)


def hidden_edges(edges: InEdges, facts: np.ndarray) -> np.ndarray:
    """Which edges ``facts [k, 3]`` are, in either direction, ``[E]``; relation -1 is any."""
    source, relation, target = edges.triples().T
    found = np.zeros(len(source), dtype=bool)
    for head, own, tail in facts:
        inverse = (own + edges.num_relations) % (2 * edges.num_relations)
        found |= (source == head) & (target == tail) & ((own < 0) | (relation == own))
        found |= (source == tail) & (target == head) & ((own < 0) | (relation == inverse))
    return found


def _stacked(masks: list[np.ndarray], device: torch.device) -> Tensor:
    return torch.from_numpy(np.stack(masks)).to(device)
