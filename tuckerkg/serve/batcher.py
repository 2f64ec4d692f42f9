"""Questions of many clients on one matrix product: what comes in while one batch is computed makes up the next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tuckerkg.inference.answers.predictions import Prediction
from tuckerkg.serve.engine import Engine
from tuckerkg.serve.prometheus import ServiceMetrics
from tuckerkg.serve.schemas import Asked

MOST = 256  # questions of one product


class Batcher:
    """Hands questions to the engine, in one thread; nobody waits for a batch to fill up."""

    def __init__(self, engine: Engine, metrics: ServiceMetrics) -> None:
        self.engine, self.metrics = engine, metrics
        self._waiting: asyncio.Queue[tuple[Asked, asyncio.Future[list[Prediction]]]] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="predict")
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to answer."""
        self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Ends it; what is waiting gets no answer."""
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def ask(self, many: Sequence[Asked]) -> list[list[Prediction]]:
        """Answers to questions whose names are known, in their order."""
        loop = asyncio.get_running_loop()
        futures = []
        for asked in many:
            future: asyncio.Future[list[Prediction]] = loop.create_future()
            self._waiting.put_nowait((asked, future))
            futures.append(future)
        try:
            return await asyncio.gather(*futures)
        finally:
            for future in futures:  # of a client that has gone, or waited too long
                future.cancel()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < MOST and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            batch = [(asked, future) for asked, future in batch if not future.done()]
            if not batch:
                continue
            self.metrics.batches.inc()
            self.metrics.questions.inc(len(batch))
            try:
                found = await loop.run_in_executor(self._thread, self.engine.answer, [asked for asked, _ in batch])
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), answers in zip(batch, found, strict=True):
                if not future.done():
                    future.set_result(answers)
