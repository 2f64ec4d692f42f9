"""The service with difficult clients: one that asks for as much as it may, some that do not read, and a switch of
version under load.

Each part starts a service of its own on the run and gives rows for ``benchmarks.load``, which writes them.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np

from tuckerkg.storage.run_folder import RunFolder

SECONDS = 20.0  # that the mean neighbour asks
HEAVY_CONNECTIONS = 4  # of the mean neighbour
NOT_READING = 20  # clients
UNREAD_SECONDS = 40.0  # after which all of them must be cut off
SWITCHES = 4
LOAD_CLIENTS = 16


class Names:
    """Labels of a run, and random questions about it."""

    def __init__(self, run: Path) -> None:
        folder = RunFolder.open(run)
        self.entities, self.relations, self.test = folder.entities(), folder.relations(), folder.split("test")
        self.random = np.random.default_rng(0)

    def small(self) -> dict[str, Any]:
        """A question as people ask it."""
        head, relation, _ = self.test[self.random.integers(len(self.test))].tolist()
        return {"head": self.entities[head], "relation": self.relations[relation], "k": 10}

    def heavy(self, count: int) -> dict[str, Any]:
        """Questions over all relations of an entity, for as many answers as there may be."""
        heads = self.random.integers(len(self.entities), size=count).tolist()
        return {
            "questions": [{"head": self.entities[head], "k": 1_000, "known": True, "typed": False} for head in heads]
        }


def request(path: str, body: dict[str, Any], token: str | None = None) -> bytes:
    """A request as bytes."""
    data = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(data)}", *([f"Authorization: Bearer {token}"] if token else [])]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """A status and a body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    lines = head.lower().split("\r\n")
    length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
    return int(head.split()[1]), await reader.readexactly(length)


@contextmanager
def tokens_of(*names: str) -> Any:
    """A file of tokens, and the token of each name."""
    made = {name: f"token-of-{name}-0123456789" for name in names}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tokens.toml"
        roles = 'roles = ["read", "decide", "train"]'
        file.write_text("".join(f'[[token]]\nname = "{name}"\n{roles}\ntoken = "{made[name]}"\n' for name in made))
        yield file, made


def heaviest(port: int, names: Names, token: str) -> tuple[int, float]:
    """How many of the heaviest questions one request may hold, and how long they take alone."""
    for count in (256, 128, 64, 48, 32, 24, 20, 16, 12, 8, 4, 2, 1):
        connection = HTTPConnection("127.0.0.1", port, timeout=120)
        clock = time.perf_counter()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        connection.request("POST", "/api/v1/predict/batch", json.dumps(names.heavy(count)), headers)
        status = connection.getresponse()
        status.read()
        connection.close()
        if status.status == 200:
            return count, time.perf_counter() - clock
    raise SystemExit("no heavy batch is answered")


async def mean_neighbour(port: int, names: Names, tokens: dict[str, str], count: int) -> dict[str, Any]:
    """Small questions of one client, alone and beside another that sends the heaviest batches without pause."""
    times: list[float] = []
    statuses: Counter[int] = Counter()
    heavy: Counter[int] = Counter()
    end = 0.0

    async def kind() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            clock = time.perf_counter()
            writer.write(request("/api/v1/predict", names.small(), tokens["kind"]))
            status, _ = await answer(reader)
            times.append(time.perf_counter() - clock)
            statuses[status] += 1
        writer.close()

    async def mean() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            writer.write(request("/api/v1/predict/batch", names.heavy(count), tokens["mean"]))
            try:
                status, _ = await asyncio.wait_for(answer(reader), end + 60.0 - time.perf_counter())
            except (OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                status = 0
            heavy[status] += 1
            if status != 200:
                await asyncio.sleep(0.01)
        writer.close()

    end = time.perf_counter() + SECONDS / 4
    await kind()
    alone, times = 1_000 * np.array(times), []
    end = time.perf_counter() + SECONDS
    neighbours = [asyncio.create_task(mean()) for _ in range(HEAVY_CONNECTIONS)]
    await asyncio.sleep(1.0)
    await kind()
    for each in neighbours:
        each.cancel()
    await asyncio.gather(*neighbours, return_exceptions=True)
    beside = 1_000 * np.array(times)
    return {
        "questions_of_a_heavy_batch": count,
        "connections_with_heavy_batches": HEAVY_CONNECTIONS,
        "heavy_statuses": {str(status): number for status, number in sorted(heavy.items())},
        "small": {
            "alone": _times(alone),
            "beside": _times(beside),
            "failed": sum(number for status, number in statuses.items() if status != 200),
        },
    }


def _times(milliseconds: np.ndarray) -> dict[str, float]:
    p50, p99 = np.quantile(milliseconds, [0.5, 0.99]).tolist()
    return {"requests": len(milliseconds), "p50_ms": p50, "p99_ms": p99, "most_ms": float(milliseconds.max())}


def not_reading(port: int, names: Names, tokens: dict[str, str], count: int, memory_mb: Any) -> dict[str, Any]:
    """Clients that ask for the heaviest batches and read nothing: what they cost, and when they are cut off."""
    before = memory_mb()
    sockets, cut = [], 0
    for number in range(NOT_READING):
        mine = socket.socket()
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        mine.connect(("127.0.0.1", port))
        mine.sendall(request("/api/v1/predict/batch", names.heavy(count), tokens[f"client{number}"]))
        mine.setblocking(False)
        sockets.append(mine)
    start, most = time.perf_counter(), 0.0
    while time.perf_counter() - start < UNREAD_SECONDS + 60.0:
        most = max(most, memory_mb() - before)
        cut = sum(_is_cut(each) for each in sockets)
        if cut == len(sockets):
            break
        time.sleep(0.1)
    took = time.perf_counter() - start
    for each in sockets:
        each.close()
    time.sleep(2.0)
    return {
        "clients": NOT_READING,
        "most_mb": most,
        "mb_afterwards": memory_mb() - before,
        "cut_off_or_refused": cut,
        "seconds": took,
    }


def _is_cut(mine: socket.socket) -> bool:
    """Whether the connection is gone, or all that was sent is a refusal."""
    error = mine.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    try:
        peeked = mine.recv(20, socket.MSG_PEEK)
    except BlockingIOError:
        peeked = None
    except OSError:
        return True
    return bool(error) or peeked == b"" or (peeked is not None and b" 200" not in peeked) or _reset(mine)


def _reset(mine: socket.socket) -> bool:
    import select

    poll = select.poll()
    poll.register(mine, select.POLLERR | select.POLLHUP)
    return bool(poll.poll(0))


async def switching(port: int, run: Path, question: dict[str, Any], tail: str) -> dict[str, Any]:
    """Questions whose answer depends on the version, while facts are added and the version is switched."""
    counts: Counter[str] = Counter()
    versions: Counter[int] = Counter()
    going = True
    body = request("/api/v1/predict", question | {"known": True, "typed": False, "k": 1_000})
    small = request("/api/v1/score", {"facts": [question | {"tail": tail}]})

    async def one(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while going:
            writer.write(small if number % 4 else body)
            try:
                status, text = await answer(reader)
            except (OSError, asyncio.IncompleteReadError):
                counts["lost"] += 1
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                continue
            if status != 200:
                counts[f"status {status}"] += 1
                continue
            said = json.loads(text)
            rows = [said["results"][0]["fact"]] if "results" in said else said["answers"]
            mine = [row["known"] for row in rows if row["tail_label"] == tail]
            version = said["run"]["version"]
            versions[version] += 1
            counts["mixed" if mine and mine[0] != (version == 2) else "right"] += 1
        writer.close()

    clients = [asyncio.create_task(one(number)) for number in range(LOAD_CLIENTS)]
    await asyncio.sleep(2.0)
    fact = run / "one.tsv"
    fact.write_text(f"{question['head']}\t{question['relation']}\t{tail}\n", encoding="utf-8")
    program = [sys.executable, "-m", "tuckerkg", "add", str(run), str(fact)]
    added = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.DEVNULL)
    if await added.wait():
        raise SystemExit("the fact could not be added")
    end = time.perf_counter() + 120.0
    while not versions[2] and time.perf_counter() < end:
        await asyncio.sleep(0.1)
    for number in range(SWITCHES):
        await asyncio.to_thread(_switch, port, run.name, 1 + number % 2)
        await asyncio.sleep(1.0)
    going = False
    await asyncio.gather(*clients)
    return {
        "clients": LOAD_CLIENTS,
        "switches": 1 + SWITCHES,
        "answers": dict(sorted((f"version {version}", number) for version, number in versions.items())),
        "lost": counts["lost"],
        "refused": sum(number for name, number in counts.items() if name.startswith("status")),
        "mixed": counts["mixed"],
    }


def _switch(port: int, name: str, version: int) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", f"/api/v1/runs/{name}/switch?version={version}")
    found = connection.getresponse()
    said = found.read()
    connection.close()
    if found.status != 200:
        raise SystemExit(f"the version was not switched: {said.decode()}")


def measure(run: Path, start: Any, memory_mb: Any) -> dict[str, Any]:
    """All three; ``start(run, *options)`` gives a process and its port, ``memory_mb(process id)`` what it holds."""
    names = Names(run)
    clients = [f"client{number}" for number in range(NOT_READING)]
    found: dict[str, Any] = {}
    with tokens_of("kind", "mean", *clients) as (file, tokens):
        process, port = start(run, "--token-file", str(file))
        with ended(process):
            count, seconds = heaviest(port, names, tokens["mean"])
            found["mean_neighbour"] = {
                "seconds_of_a_heavy_batch_alone": seconds,
                **asyncio.run(mean_neighbour(port, names, tokens, count)),
            }
            print(json.dumps(found), flush=True)
            time.sleep(5.0)
            found["not_reading"] = not_reading(port, names, tokens, count, lambda: memory_mb(process.pid))
            print(json.dumps(found["not_reading"]), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / run.resolve().name
        shutil.copytree(run, copy, ignore=shutil.ignore_patterns("versions"))
        question, tail = _unknown_fact(names, copy)
        process, port = start(copy, "--allow-training", "--limit", "budget=100000")
        with ended(process):
            found["switch"] = asyncio.run(switching(port, copy, question, tail))
    return found


def _unknown_fact(names: Names, run: Path) -> tuple[dict[str, Any], str]:
    """A question and an answer to it that no split holds."""
    folder = RunFolder.open(run)
    head, relation, _ = names.test[0].tolist()
    rows = np.concatenate([folder.split(name) for name in ("train", "valid", "test")])
    known = set(rows[(rows[:, 0] == head) & (rows[:, 1] == relation), 2].tolist())
    tail = next(number for number in range(len(names.entities)) if number not in known and number != head)
    return {"head": names.entities[head], "relation": names.relations[relation]}, names.entities[tail]


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Any:
    """End a service at the end of the block."""
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
