"""How much computing each client has left: a bucket of seconds that fills up again."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from tuckerkg.serve.limits import Limits
from tuckerkg.serve.problems import Refused, later

MOST_CLIENTS = 10_000


class Budgets:
    """A bucket per client.

    Args:
        limits: how large it is, and how fast it fills.
        clock: seconds that only grow.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits, self.clock = limits, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # seconds left, and when

    def left(self, client: str) -> float:
        """Seconds of computing that a client has now."""
        now = self.clock()
        left, since = self._left.get(client, (self.limits.budget, now))
        return min(self.limits.budget, left + (now - since) * self.limits.budget_per_second)

    def spend(self, client: str, cost: float) -> None:
        """Take a request's cost.

        Raises:
            Refused: it costs more than any request may, or more than is left now.
        """
        limits = self.limits
        if cost > limits.request_cost:
            raise Refused(
                413,
                f"this would take about {cost:,.1f} seconds of computing, one request may take "
                f"{limits.request_cost:g}: ask fewer questions at once, or for fewer answers",
                "too-large",
            )
        left = self.left(client)
        if cost > left:
            wait = (cost - left) / limits.budget_per_second
            refused = later(
                429,
                f"this would take about {cost:,.1f} seconds of computing and {left:,.1f} are left of your "
                f"{limits.budget:g}: wait {math.ceil(wait)} seconds, or ask for less",
                "too-costly",
                wait,
            )
            refused.headers.update(self.headers(client))
            raise refused
        self._left[client] = (left - cost, self.clock())
        self._left.move_to_end(client)
        while len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)

    def give_back(self, client: str, cost: float) -> None:
        """What was taken for work that is not done after all."""
        self._left[client] = (min(self.limits.budget, self.left(client) + cost), self.clock())

    def headers(self, client: str) -> dict[str, str]:
        """What is left, in the fields that are being standardized for it."""
        limits, left = self.limits, self.left(client)
        full = math.ceil((limits.budget - left) / limits.budget_per_second)
        window = math.ceil(limits.budget / limits.budget_per_second)
        return {
            "ratelimit-policy": f'"cost";q={math.floor(limits.budget)};w={window}',
            "ratelimit": f'"cost";r={max(0, math.floor(left))};t={full}',
        }
