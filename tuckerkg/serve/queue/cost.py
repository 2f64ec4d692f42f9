"""What a request costs, before it is computed: seconds, by the number of questions and what one takes here."""

from __future__ import annotations

from collections.abc import Sequence

from tuckerkg.serve.engine.engine import Engine
from tuckerkg.serve.schemas.asked import Asked

EDGE_SECONDS = 0.3  # to score again without an edge, where scores depend on edges; until one was measured
PATH_SECONDS = 0.1  # to look for paths
REASON_SECONDS = 0.05


def of_question(engine: Engine, asked: Asked) -> float:
    """A question for missing links."""
    return engine.links.questions_of(asked, asked.joined) * engine.links.slices.seconds


def of_questions(engine: Engine, many: Sequence[Asked]) -> float:
    """Several of them."""
    return sum(of_question(engine, asked) for asked in many)


def of_facts(engine: Engine, count: int) -> float:
    """Facts to weigh: each answers two questions."""
    return 2 * count * engine.links.slices.seconds


def of_explanation(engine: Engine, k: int) -> float:
    """An explanation with so many edges."""
    edges = (k + 3) * EDGE_SECONDS if engine.explaining.explainer.uses_messages else 0.0
    return edges + PATH_SECONDS + 16 * engine.links.slices.seconds


def of_reasons(count: int) -> float:
    """Reasons in one line."""
    return count * REASON_SECONDS
