"""What a request costs, before it is computed: seconds, by the number of questions and what one takes here."""

from __future__ import annotations

from collections.abc import Sequence

from tuckerkg.serve.engine.engine import Engine
from tuckerkg.serve.engine.listing import MOST_REASONS
from tuckerkg.serve.schemas.asked import Asked

GRADIENT_EDGES = 4  # a gradient takes as long as so many edges
PATH_SECONDS = 0.1  # to look for paths
REASON_SECONDS = 0.1


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
    return (k + 2 + GRADIENT_EDGES) * engine.explaining.edge_seconds + PATH_SECONDS + 16 * engine.links.slices.seconds


def of_reasons(count: int) -> float:
    """Reasons in one line."""
    return min(count, MOST_REASONS) * REASON_SECONDS
