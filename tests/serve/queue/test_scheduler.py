"""Small requests pass large ones, clients take turns, and what nobody waits for ends."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tuckerkg.serve.limits import Limits
from tuckerkg.serve.problems import Refused
from tuckerkg.serve.queue.scheduler import Scheduler
from tuckerkg.serve.schemas.asked import Asked
from tuckerkg.serve.watching.prometheus import ServiceMetrics


def with_scheduler(program, trim=lambda: None, **limits):
    """What ``program`` makes of a scheduler that runs."""

    async def run():
        scheduler = Scheduler(Limits(**limits), ServiceMetrics(), trim=trim)
        await scheduler.start()
        try:
            return await program(scheduler)
        finally:
            await scheduler.stop()

    return asyncio.run(run())


class Slices:
    """Large work in slices, which writes down when each was computed."""

    def __init__(self, name: str, count: int, computed: list[str], seconds: float = 0.002) -> None:
        self.name, self.count, self.computed, self.seconds = name, count, computed, seconds

    def __call__(self, pause):
        for _ in range(self.count):
            time.sleep(self.seconds)
            self.computed.append(self.name)
            pause()
        return self.name


def test_a_small_request_passes_a_large_one():
    computed: list[str] = []

    async def program(scheduler):
        large = asyncio.ensure_future(scheduler.large("a", Slices("large", 100, computed)))
        while not computed:
            await asyncio.sleep(0.001)
        assert await scheduler.soon("b", 0.01, lambda: computed.append("small") or "done") == "done"
        assert not large.done()
        assert await large == "large"

    with_scheduler(program)
    assert 0 < computed.index("small") < 100


def test_clients_take_turns_however_many_requests_one_has():
    computed: list[str] = []

    async def program(scheduler):
        mean = [asyncio.ensure_future(scheduler.large("mean", Slices("mean", 60, computed))) for _ in range(8)]
        while len(computed) < 5:
            await asyncio.sleep(0.001)
        await scheduler.large("kind", Slices("kind", 30, computed))
        return [each.done() for each in mean]

    done = with_scheduler(program)
    assert sum(done) < 3  # 480 slices were asked for before these 30
    last = max(place for place, name in enumerate(computed) if name == "kind")
    assert computed[: last + 1].count("mean") < 120


def test_large_requests_compute_one_at_a_time():
    at_work, most, lock = 0, 0, threading.Lock()

    def work(pause):
        nonlocal at_work, most
        for _ in range(20):
            with lock:
                at_work += 1
                most = max(most, at_work)
            time.sleep(0.001)
            with lock:
                at_work -= 1
            pause()

    async def program(scheduler):
        await asyncio.gather(*(scheduler.large(name, work) for name in "abc"))

    with_scheduler(program)
    assert most == 1


def test_work_ends_when_nobody_waits_for_it():
    computed: list[str] = []

    async def program(scheduler):
        gone = asyncio.ensure_future(scheduler.large("a", Slices("gone", 10_000, computed)))
        while not computed:
            await asyncio.sleep(0.001)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        assert await scheduler.large("b", Slices("next", 2, computed)) == "next"
        await asyncio.sleep(0.05)
        return len(computed)

    counted = with_scheduler(program)
    assert computed.count("gone") < 1_000
    assert len(computed) == counted  # nothing goes on


def test_more_large_requests_than_may_wait_are_turned_away():
    going = threading.Event()

    async def program(scheduler):
        asked = [asyncio.ensure_future(scheduler.large("a", lambda pause: going.wait(10))) for _ in range(5)]
        await asyncio.sleep(0.05)
        with pytest.raises(Refused) as refused:
            await scheduler.large("a", lambda pause: None)
        going.set()
        await asyncio.gather(*asked)
        return refused.value

    refused = with_scheduler(program, waiting=3, large_at_once=3)
    assert (refused.status, refused.code) == (429, "too-many")
    assert "retry-after" in refused.headers


def test_an_error_reaches_who_asked_and_nobody_else():
    def fail(pause=None):
        raise ValueError("this one")

    async def program(scheduler):
        found = await asyncio.gather(
            scheduler.large("a", fail),
            scheduler.soon("a", 0.0, fail),
            scheduler.soon("a", 0.0, lambda: 1),
            return_exceptions=True,
        )
        return [str(each) for each in found]

    assert with_scheduler(program) == ["this one", "this one", "1"]


def test_small_questions_of_one_engine_make_up_one_product():
    batches: list[list[str]] = []
    going = threading.Event()

    class Links:
        def answer(self, questions):
            batches.append([each.head for each in questions])
            return [[{"tail": each.head}] for each in questions]

    class Engine:
        links = Links()

    async def program(scheduler):
        engine = Engine()
        first = asyncio.ensure_future(scheduler.soon("a", 0.0, lambda: going.wait(10)))
        await asyncio.sleep(0.02)
        many = [Asked(head=f"mean{number}", relation="r") for number in range(300)]
        mean = asyncio.ensure_future(scheduler.ask("mean", engine, many, [0.001] * 300))
        await asyncio.sleep(0.02)
        kind = asyncio.ensure_future(scheduler.ask("kind", engine, [Asked(head="kind", relation="r")], [0.001]))
        await asyncio.sleep(0.02)
        going.set()
        answers = await kind
        await asyncio.gather(first, mean)
        return answers

    assert with_scheduler(program) == [[{"tail": "kind"}]]
    assert "kind" in batches[0]  # though 300 of another client came before it
    assert 1 < len(batches[0]) < 300


def test_memory_is_given_back_once_no_large_request_is_left():
    trimmed: list[int] = []
    computed: list[str] = []

    async def program(scheduler):
        await asyncio.gather(*(scheduler.large(name, Slices(name, 3, computed)) for name in "abcdef"))
        await asyncio.sleep(0)

    with_scheduler(program, trim=lambda: trimmed.append(len(computed)))
    assert trimmed == [18]
