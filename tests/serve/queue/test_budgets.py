"""What each client may still have computed, and bytes that it has not read."""

from __future__ import annotations

import pytest
from prometheus_client import Gauge

from tuckerkg.serve.limits import Limits
from tuckerkg.serve.problems import Refused
from tuckerkg.serve.queue.budgets import Budgets
from tuckerkg.serve.queue.held import Held


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def budgets(clock):
    return Budgets(Limits(budget=10.0, budget_per_second=0.5, request_cost=8.0), lambda: clock[0])


def test_a_budget_is_used_up_and_comes_back(budgets, clock):
    budgets.spend("a", 8.0)
    with pytest.raises(Refused) as refused:
        budgets.spend("a", 3.0)
    assert (refused.value.status, refused.value.code) == (429, "too-costly")
    assert refused.value.headers["retry-after"] == "2"  # one second of computing at half a second per second
    assert refused.value.more["retry_after"] == 2
    assert refused.value.headers["ratelimit"] == '"cost";r=2;t=16'
    budgets.spend("b", 8.0)  # another's is its own
    clock[0] = 2.0
    budgets.spend("a", 3.0)
    assert budgets.left("a") == pytest.approx(0.0)
    clock[0] = 1_000.0
    assert budgets.left("a") == 10.0


def test_what_no_request_may_cost_is_too_large_however_much_is_left(budgets):
    with pytest.raises(Refused) as refused:
        budgets.spend("a", 8.1)
    assert (refused.value.status, refused.value.code) == (413, "too-large")
    assert budgets.left("a") == 10.0


def test_who_does_not_read_holds_little_and_others_have_room():
    held = Held(100, Gauge("held", "in a test", registry=None))
    assert held.take("a", 80)
    assert not held.take("a", 30)
    assert [held.take(name, 90) for name in "bcd"] == [True, True, False]  # three times as much for all
    assert not held.take("b", 20)
    for name, size in (("a", 80), ("b", 90), ("c", 90)):
        held.give_back(name, size)
    assert held.total == 0
    assert held.take("a", 500)  # one answer has room in any case
    assert not held.take("b", 1)
