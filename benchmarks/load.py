"""The service under load: latency and throughput for 1, 16 and 64 clients, memory over many requests, slow connections,
and what becomes of requests when it is told to end.

The service runs as a process of its own; this one makes the load on loopback. Prints a table and writes it as JSON.

    python -m benchmarks.load runs/fb15k-237 --out results/bench/load.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks import neighbours
from tuckerkg.storage.run_folder import RunFolder

SECONDS = 10.0  # of each row of the table
# The load is that of many clients, and comes from one address: its budget and its queue are those of many.
MANY = ("--limit", "budget=1000000000", "--limit", "waiting=1000")
CLIENTS = (1, 16, 64)


class Load:
    """Clients on keep-alive connections, each asking one question after another."""

    def __init__(self, port: int, questions: list[bytes]) -> None:
        self.port, self.questions = port, questions
        self.times: list[float] = []
        self.statuses: dict[int, int] = {}

    async def run(self, clients: int, seconds: float, requests: int | None = None) -> dict[str, float]:
        self.times, self.statuses = [], {}
        self.left = requests if requests is not None else 1 << 60
        start = time.perf_counter()
        await asyncio.gather(*(self._client(number, start + seconds) for number in range(clients)))
        took = time.perf_counter() - start
        times = 1_000 * np.array(self.times)
        return {
            "clients": clients,
            "requests": len(times),
            "per_second": len(times) / took,
            "p50_ms": float(np.quantile(times, 0.5)),
            "p99_ms": float(np.quantile(times, 0.99)),
            "failed": sum(count for status, count in self.statuses.items() if status != 200),
        }

    async def _client(self, number: int, end: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        place = number * 9_973
        while time.perf_counter() < end and self.left > 0:
            self.left -= 1
            place += 1
            clock = time.perf_counter()
            writer.write(self.questions[place % len(self.questions)])
            status, _ = await _read_answer(reader)
            self.times.append(time.perf_counter() - clock)
            self.statuses[status] = self.statuses.get(status, 0) + 1
        writer.close()

    async def until_told(self, clients: int, process: int, seconds: float = 3.0) -> dict[str, int]:
        """Ends the service by SIGTERM after ``seconds``; each client goes on until an answer closes its connection."""
        counts = {"answered": 0, "lost": 0, "told": 0}

        async def one(number: int) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            place, closes = number * 9_973, False
            try:
                while not closes:
                    place += 1
                    writer.write(self.questions[place % len(self.questions)])
                    status, closes = await _read_answer(reader)
                    counts["answered" if status == 200 else "lost"] += 1
                counts["told"] += 1
            except (OSError, asyncio.IncompleteReadError):
                counts["lost"] += 1
            writer.close()

        asyncio.get_running_loop().call_later(seconds, os.kill, process, signal.SIGTERM)
        await asyncio.gather(*(one(number) for number in range(clients)))
        return {"clients": clients, **counts}


async def _read_answer(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """Its status, and whether the connection ends with it."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    length = next(int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:"))
    await reader.readexactly(length)
    return int(lines[0].split()[1]), "connection: close" in [line.lower() for line in lines]


def questions_of(run: Path, joined: bool, count: int = 5_000) -> list[bytes]:
    """Requests for tails and heads of random test facts, as bytes to send."""
    folder = RunFolder.open(run)
    entities, relations, test = folder.entities(), folder.relations(), folder.split("test")
    random = np.random.default_rng(0)
    made = []
    for place, row in enumerate(random.integers(0, len(test), count)):
        head, relation, tail = test[row]
        asked = {"relation": relations[relation], "k": 10, "joined": joined}
        asked |= {"head": entities[head]} if place % 2 else {"tail": entities[tail]}
        body = json.dumps(asked).encode()
        lines = [
            "POST /api/v1/predict HTTP/1.1",
            "Host: 127.0.0.1",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        made.append("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    return made


def memory_mb(process: int) -> float:
    """What a process holds, in MiB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def start(run: Path, *options: str) -> tuple[subprocess.Popen[bytes], int]:
    """The service on a free port, ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "tuckerkg", "serve", str(run), "--port", str(port), *options])
    while process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as asking:
                asking.sendall(b"GET /ready HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                if b" 200 " in asking.recv(100):
                    return process, port
        except OSError:
            pass
        time.sleep(0.2)
    raise SystemExit("the service ended before it was ready")


async def slowly(port: int, count: int, seconds: float) -> None:
    """Connections that send a byte a second of a request that never ends."""

    async def one() -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                for byte in b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: " + b"a" * 1_000:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(1.0)
                    if time.perf_counter() > end:
                        break
                writer.close()
            except OSError:
                await asyncio.sleep(0.1)

    await asyncio.gather(*(one() for _ in range(count)))


async def measure(
    run: Path, process: int, port: int, *, requests: int, joined: bool, seconds: float
) -> dict[str, object]:
    """All rows, each over so many seconds."""
    load = Load(port, questions_of(run, joined))
    await load.run(1, 2.0)
    rows = [await load.run(clients, seconds) for clients in CLIENTS]
    alone = await load.run(16, seconds)
    slow = asyncio.create_task(slowly(port, 200, 3 * seconds))
    await asyncio.sleep(2.0)
    beside = await load.run(16, 2.5 * seconds)
    await slow
    await load.run(16, 600.0, requests=1_000)
    before = memory_mb(process)
    await load.run(16, 1_800.0, requests=requests - 1_000)
    after = memory_mb(process)
    ended = await load.until_told(16, process)
    return {
        "joined": joined,
        "rows": rows,
        "slow_connections": {"count": 200, "p99_ms_alone": alone["p99_ms"], "p99_ms_beside": beside["p99_ms"]},
        "memory": {"requests": requests, "mb_at_1000": before, "mb_at_end": after, "growth": after / before - 1.0},
        "sigterm": ended,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--requests", type=int, default=50_000, help="for the growth of memory")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each row")
    parser.add_argument("--not-joined", action="store_true", help="ask for probabilities of the question alone")
    parser.add_argument("--only", choices=("load", "neighbours"), help="one part")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    found: dict[str, object] = {"run": arguments.run.resolve().name}
    if arguments.only != "neighbours":
        process, port = start(arguments.run, *MANY)
        asked = {"requests": arguments.requests, "joined": not arguments.not_joined, "seconds": arguments.seconds}
        with neighbours.ended(process):
            found |= asyncio.run(measure(arguments.run, process.pid, port, **asked))
    if arguments.only != "load":
        found |= neighbours.measure(arguments.run, start, memory_mb)
    for row in found.get("rows", []):  # type: ignore[attr-defined]
        print("  ".join(f"{name} {value:,.1f}" for name, value in row.items()))
    print(json.dumps({name: value for name, value in found.items() if name != "rows"}, indent=1))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
