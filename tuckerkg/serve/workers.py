"""Several processes that answer on one port, and the one that starts, watches and ends them.

They take connections from one socket that the watching process opened and keeps: what waits there is not lost with a
worker, as it would be where each has a socket of its own (SO_REUSEPORT). The first worker answers from the start, with
503 until it has loaded the run; it prepares what the others then find on disk, a mapped table and fitted
probabilities. The others, and any that is started again, take connections once they have loaded it.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from prometheus_client.multiprocess import mark_process_dead

from tuckerkg.serve.limits import Limits
from tuckerkg.serve.server import CannotListenError, Door, serve
from tuckerkg.serve.state import SHARED, RunSource
from tuckerkg.serve.watching.prometheus import FOLDER
from tuckerkg.types import LogFunction

WORKER = "TUCKERKG_WORKER"  # its number, and the descriptors that it was given
YOUNG = 10.0  # seconds; a worker that ends sooner is started again after a pause
PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)  # seconds before a young worker is started again, longer each time
END_SECONDS = 20.0  # for workers to finish what is at work
READY = b"."


def is_worker() -> bool:
    """Whether this process was started by ``supervise``."""
    return WORKER in os.environ


def work(
    sources: Sequence[RunSource],
    door: Door,
    log: LogFunction,
    limits: Limits,
    access_log: Callable[[dict[str, Any]], None] | None,
) -> int:
    """Serve as one of several workers; ends when the process that started it does."""
    number, listening, told, early = os.environ[WORKER].split(":")
    listener = socket.socket(fileno=int(listening))
    lifeline = socket.socket(fileno=int(told))
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    return serve(
        sources,
        door,
        listener=listener,
        late=early == "late",
        on_ready=lambda: lifeline.sendall(READY),
        limits=limits,
        log=lambda text: log(f"worker {number}: {text}"),
        access_log=access_log,
    )


def _end_with(lifeline: socket.socket) -> None:
    """Be asked to stop once nobody holds the other end."""
    lifeline.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)


def supervise(door: Door, count: int, arguments: list[str], log: LogFunction) -> int:
    """Start ``python -m tuckerkg`` with these arguments as ``count`` workers until a signal ends them.

    Returns:
        The exit status: 1 where the address is taken, or the run could not be loaded.

    Raises:
        TuckerkgError: the address needs a token.
    """
    try:
        listener = door.open()
    except CannotListenError as error:
        log(str(error))
        return 1
    with listener, tempfile.TemporaryDirectory(prefix="tuckerkg-metrics-") as metrics:
        return Workers(listener, count, arguments, Path(metrics), door.address, log).run()


class Worker:
    """A process, and the socket on which it says that it is ready."""

    def __init__(self, number: int, process: subprocess.Popen[bytes], told: socket.socket) -> None:
        self.number, self.process, self.told = number, process, told
        self.ready, self.started = False, time.monotonic()


class Workers:
    """The workers of one service."""

    def __init__(
        self, listener: socket.socket, count: int, arguments: list[str], metrics: Path, address: str, log: LogFunction
    ) -> None:
        self.listener, self.count, self.arguments, self.metrics = listener, count, arguments, metrics
        self.shared = metrics / "shared"  # where jobs are, and what all workers are to serve
        self.address, self.log = address, log
        self.living: dict[int, Worker] = {}
        self.due: dict[int, float] = {}  # when a worker is to be started again
        self.died_young = dict.fromkeys(range(1, count + 1), 0)
        self.stopping = False
        self.selector = selectors.DefaultSelector()

    def run(self) -> int:
        """Start them, start again those that die, and end all of them at a signal."""
        self._wake, woken = socket.socketpair()
        woken.setblocking(False)
        self._wake.setblocking(False)
        self.selector.register(woken, selectors.EVENT_READ)
        former = {number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)}
        former[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        wakes = signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        try:
            self._start(1)
            while not self.stopping:
                self._watch(woken)
                if not self.living and not self.due:  # the first one could not load the run, and has said why
                    return 1
            return self._end()
        finally:
            signal.set_wakeup_fd(wakes)
            for number, handler in former.items():
                signal.signal(number, handler)
            for worker in self.living.values():
                worker.process.kill()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.stopping = True

    def _start(self, number: int) -> None:
        self.due.pop(number, None)
        ours, theirs = socket.socketpair()
        early = "early" if number == 1 and not self.died_young[1] and not self.living else "late"
        passed = (self.listener.fileno(), theirs.fileno())
        threads = max(1, (os.cpu_count() or 1) // self.count)
        environment = {
            "OMP_NUM_THREADS": str(threads),  # workers share the cores
            **os.environ,
            WORKER: f"{number}:{passed[0]}:{passed[1]}:{early}",
            FOLDER: str(self.metrics),
            SHARED: str(self.shared),
        }
        command = [sys.executable, "-m", "tuckerkg", *self.arguments]
        with theirs:
            process = subprocess.Popen(command, env=environment, pass_fds=passed, start_new_session=True)
        self.living[number] = Worker(number, process, ours)
        self.selector.register(ours, selectors.EVENT_READ, number)

    def _watch(self, woken: socket.socket) -> None:
        """Wait for news of the workers, and act on it."""
        pause = min((moment - time.monotonic() for moment in self.due.values()), default=None)
        for key, _ in self.selector.select(None if pause is None else max(pause, 0.0)):
            if key.data is None:
                _drain(woken)
            elif key.data in self.living:
                self._hear(self.living[key.data])
        for worker in list(self.living.values()):
            if worker.process.poll() is not None:
                self._bury(worker)
        for number, moment in list(self.due.items()):
            if time.monotonic() >= moment and not self.stopping:
                self._start(number)

    def _hear(self, worker: Worker) -> None:
        """A worker is ready; or it has ended, which its process tells."""
        if worker.told.recv(1) != READY:
            self.selector.unregister(worker.told)
            return
        worker.ready = True
        if not self._all_started():
            self.log(f"ready: {self.address}")
            for number in range(2, self.count + 1):
                self._start(number)

    def _all_started(self) -> bool:
        return len(self.living) + len(self.due) == self.count

    def _bury(self, worker: Worker) -> None:
        del self.living[worker.number]
        if worker.told in self.selector.get_map():
            self.selector.unregister(worker.told)
        worker.told.close()
        mark_process_dead(worker.process.pid, str(self.metrics))  # type: ignore[no-untyped-call]
        if self.stopping or (not worker.ready and not self.living and not self.due):
            return
        young = time.monotonic() - worker.started < YOUNG
        failures = self.died_young[worker.number] = self.died_young[worker.number] + 1 if young else 0
        pause = PAUSES[min(failures, len(PAUSES)) - 1] if failures else 0.0
        self.due[worker.number] = time.monotonic() + pause
        when = f"in {pause:g} seconds" if pause else "now"
        self.log(f"worker {worker.number} {_how(worker.process.returncode)}; it is started again {when}")

    def _end(self) -> int:
        """Ask all to finish what is at work; those that do not are killed."""
        for worker in self.living.values():
            worker.process.terminate()
        end = time.monotonic() + END_SECONDS
        for worker in self.living.values():
            try:
                worker.process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.log(f"worker {worker.number} does not end and is killed")
                worker.process.kill()
                worker.process.wait()
        self.living.clear()
        return 0


def _drain(woken: socket.socket) -> None:
    try:
        while woken.recv(4096):
            pass
    except BlockingIOError:
        pass


def _how(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
