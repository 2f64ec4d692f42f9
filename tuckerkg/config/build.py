"""Model, scorer, objective and batches from settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tuckerkg.batches.batch import Batches, TrainingGraph
from tuckerkg.batches.questions import QuestionBatches
from tuckerkg.config.registry import find_component
from tuckerkg.config.settings import Component, Settings
from tuckerkg.errors import SettingsError
from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.kernels.questions.graph import QuestionGraph
from tuckerkg.losses.objective import Minimized, Objective, QuestionObjective
from tuckerkg.losses.regularizers import REGULARIZERS, Regularizer
from tuckerkg.nn.contracts import Decoder, Encoder, Loss, Scorer
from tuckerkg.nn.embedding_scorer import EmbeddingScorer
from tuckerkg.nn.model import Model
from tuckerkg.nn.path_scorer import PathScorer
from tuckerkg.nn.paths import PathModel

AnyModel = Model | PathModel


def build_model(settings: Settings, num_entities: int, num_relations: int) -> AnyModel:
    """Build the model that ``settings`` describe, initialized from torch's current random state.

    Raises:
        SettingsError: the widths do not fit the components, or one of these lacks a part of its contract; or they
            describe a blend, which has no model of its own.
    """
    if settings.kind == "blend":
        raise SettingsError(
            "kind: a blend is made of trained runs and has nothing to train itself; "
            "train its members, then blend them again: tuckerkg blend RUN RUN --out NEW"
        )
    if settings.kind in ("nodes", "graphs"):
        raise SettingsError(f"kind: {settings.kind} are put into classes by `tuckerkg classify`, which needs labels")
    if settings.kind == "paths":
        paths = settings.paths
        return PathModel(
            num_entities, num_relations, width=paths.width, layers=paths.layers, power=paths.power, core=paths.core
        )
    return build_embedding_model(settings, num_entities, num_relations)


def build_encoder(settings: Settings, num_relations: int) -> Encoder:
    """Build the encoder alone; ``num_relations`` counts inverses.

    Raises:
        SettingsError: the widths do not fit it, or it lacks a part of its contract.
    """
    try:
        made: Encoder = _make(
            "encoder", settings.encoder, settings.model.dim, settings.model.relation_dim, num_relations
        )
    except ValueError as error:
        raise SettingsError(str(error)) from error
    _check(made, settings.encoder, ("out_dim", "out_relation_dim", "uses_graph", "normalize", "order", "depth"))
    return made


def build_embedding_model(settings: Settings, num_entities: int, num_relations: int) -> Model:
    """Build tables, encoder and decoder; raises as ``build_model`` does."""
    dim, relation_dim = settings.model.dim, settings.model.relation_dim
    encoder = build_encoder(settings, 2 * num_relations)
    try:
        decoder: Decoder = _make("decoder", settings.decoder, encoder.out_dim, encoder.out_relation_dim)
        _check(decoder, settings.decoder, ("query", "comparison", "magnitudes"))
    except ValueError as error:
        raise SettingsError(str(error)) from error
    decoder.set_precision(settings.train.precision)
    return Model(
        num_entities,
        num_relations,
        dim,
        relation_dim,
        encoder,
        decoder,
        init_std=settings.model.init_std,
        bias=settings.model.bias,
    )


def build_scorer(model: AnyModel, train: np.ndarray, graph: MessageGraph | QuestionGraph | None = None) -> Scorer:
    """Build what scores every entity with ``model``.

    Args:
        train: training triples ``[n, 3]``, the graph that is scored over.
        graph: what ``model.message_graph`` made of ``train``, where it is at hand.
    """
    if isinstance(model, PathModel):
        return PathScorer(model, train, graph if isinstance(graph, QuestionGraph) else None)
    return EmbeddingScorer(model, train, graph if isinstance(graph, MessageGraph) else None)


def build_training(settings: Settings, model: AnyModel, train: np.ndarray) -> tuple[Minimized, Batches]:
    """Build what a training step minimizes, and the batches of training triples ``[n, 3]``."""
    if isinstance(model, PathModel):
        paths = settings.paths
        sizes = model.num_entities, model.num_relations
        return build_question_objective(settings), QuestionBatches(
            train, *sizes, settings.train.seed, questions=paths.questions, answers=paths.answers
        )
    sought = build_objective(settings, model)
    return sought, build_batches(settings, model, sought.loss, train)


def build_question_objective(settings: Settings) -> QuestionObjective:
    """Build what a training step of a model that starts from the question minimizes."""
    return QuestionObjective(hide=settings.paths.hide, least_gradient=float(settings.paths.least_gradient))


def build_loss(settings: Settings) -> Loss:
    """Build the loss that ``settings`` describe."""
    loss: Loss = _make("loss", settings.loss)
    _check(loss, settings.loss, ("chunk", "marks_known", "correction"))
    return loss


def build_objective(settings: Settings, model: Model) -> Objective:
    """Build what a training step minimizes.

    Raises:
        SettingsError: a regularizer does not fit the model's decoder.
    """
    regularizers = []
    for name, weight in settings.regularizer.items():
        if not weight:
            continue
        kind = REGULARIZERS[name]
        if not isinstance(model.decoder, kind.needs):
            raise SettingsError(
                f"regularizer.{name}: the decoder {settings.decoder.name} lacks {kind.needs.__name__}, which it needs; "
                "set it to 0, or use another decoder, such as tucker"
            )
        make: Callable[..., Regularizer] = kind
        regularizers.append(make(weight, model.decoder))
    return Objective(build_loss(settings), regularizers, settings.train.precision)


def build_batches(settings: Settings, model: Model, loss: Loss, train: np.ndarray, *, messages: bool = True) -> Batches:
    """Build the batches that ``settings`` describe of training triples ``[n, 3]``; without messages if not asked to."""
    graph = TrainingGraph(
        train,
        model.num_entities,
        model.num_relations,
        settings.train.seed,
        normalize=model.encoder.normalize,
        order=model.encoder.order,
        uses_graph=model.encoder.uses_graph and messages,
        marks_known=loss.marks_known,
        phases=settings.phase,
    )
    batches: Batches = _make("batch", settings.batch, graph)
    return batches


def _make(section: str, component: Component, *arguments: object) -> Any:
    return find_component(section, component.name)(*arguments, **component.options)


def _check(made: object, component: Component, members: tuple[str, ...]) -> None:
    """Refuse a user's component that lacks a part of its contract, before training starts."""
    missing = [member for member in members if not hasattr(made, member)]
    if missing:
        raise SettingsError(
            f"{component.name}: lacks {', '.join(missing)}; subclass tuckerkg.Encoder, tuckerkg.Decoder or "
            "tuckerkg.Loss, whose documentation says what each is for"
        )
