"""What stands between the network and the application: who may ask, how much, how long, and what an error tells.

Pure ASGI. A request is refused before its body is parsed: a foreign Host or Origin, a missing token, a body that is not
plain JSON, too large or too slow. Whatever goes wrong inside becomes an id in the answer and a line in the log.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from tuckerkg.errors import printable
from tuckerkg.serve.metrics import Metrics

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
OPEN_PATHS = ("/health", "/ready")  # without a token, for whoever watches the service
HEADERS = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}

THROWN_BODIES = 8  # of the largest size, and
THROWN_SECONDS = 1.0  # that a body which is too large is read for, unkept
UNEXPECTED = "something went wrong here; the log has it under this id"

_log = logging.getLogger("tuckerkg.serve")


@dataclass(frozen=True)
class Limits:
    """How much one client may ask of the service."""

    head_bytes: int = 16_384
    body_bytes: int = 1 << 20
    receive_seconds: float = 10.0
    compute_seconds: float = 60.0
    in_flight: int = 256


class Refused(Exception):
    """A request that is answered with a status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def logged(scope: Scope) -> str:
    """Writes the exception at hand to the log and gives the id that it stands under."""
    number = secrets.token_hex(8)
    _log.exception("request %s %s failed, id %s", scope["method"], printable(scope["path"]), number)
    return number


class Guard:
    """Wraps an application that takes a body by POST at the paths ``bodies``, and nowhere else.

    ``token`` None: none is asked for, which a loopback address allows.
    """

    def __init__(
        self,
        app: App,
        *,
        bodies: Iterable[str],
        hosts: Iterable[str] = LOOPBACK,
        token: str | None = None,
        limits: Limits = Limits(),  # noqa: B008  (frozen)
        metrics: Metrics | None = None,
    ) -> None:
        self.app, self.bodies, self.hosts = app, frozenset(bodies), frozenset(hosts)
        self.token, self.limits = token, limits
        self.metrics = metrics or Metrics()
        self.in_flight = 0
        self.draining = False  # the service ends: who is answered now is told to open no further request here

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, or passes on what is none."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _Answer(send, self)
        clock = time.perf_counter()
        self.in_flight += 1
        self.metrics.in_flight.set(self.in_flight)
        try:
            await self._answer(scope, receive, answer)
        except Refused as refused:
            await answer.problem(refused.status, refused.reason)
        except asyncio.CancelledError:
            raise
        except Exception:
            if not answer.status:  # else the application has answered and written it down
                await answer.problem(500, UNEXPECTED, logged(scope))
        finally:
            self.in_flight -= 1
            self.metrics.in_flight.set(self.in_flight)
            self.metrics.observe(scope, answer.status, time.perf_counter() - clock)

    async def _answer(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        if self.in_flight > self.limits.in_flight:
            raise Refused(503, f"{self.limits.in_flight} requests are at work already; try again")
        headers = _headers(scope)
        if sum(len(name) + len(value) for name, value in scope["headers"]) > self.limits.head_bytes:
            raise Refused(431, f"the head may have {self.limits.head_bytes:,} bytes")
        self._check_origin(headers)
        self._check_token(scope, headers)
        if self.draining and scope["path"] == "/ready":
            raise Refused(503, "the service is ending")
        body = b""
        if scope["method"] == "POST" and scope["path"] in self.bodies:
            body = await self._body(headers, receive)
        elif scope["method"] not in ("GET", "HEAD"):
            answer.closes = True  # nothing here takes such a request; if it has a body, nobody reads it
        await self.app(scope, _replayed(body, receive), answer.send)

    def _check_origin(self, headers: dict[str, list[str]]) -> None:
        hosts = headers.get("host", [])
        if len(hosts) != 1 or _host_name(hosts[0]) not in self.hosts:
            raise Refused(403, "this Host is not served")
        for origin in headers.get("origin", []):
            if origin.partition("://")[2] != hosts[0]:
                raise Refused(403, "requests from other pages are not answered")
        if headers.get("sec-fetch-site", ["none"])[0] not in ("same-origin", "none"):
            raise Refused(403, "requests from other pages are not answered")

    def _check_token(self, scope: Scope, headers: dict[str, list[str]]) -> None:
        if self.token is None or scope["path"] in OPEN_PATHS or not scope["path"].startswith(("/api/", "/metrics")):
            return
        given = headers.get("authorization", [""])[0]
        if not secrets.compare_digest(given.encode("utf-8", "replace"), f"Bearer {self.token}".encode()):
            raise Refused(401, "a token is needed: Authorization: Bearer TOKEN")

    async def _body(self, headers: dict[str, list[str]], receive: Receive) -> bytes:
        if headers.get("content-encoding", ["identity"]) != ["identity"]:
            raise Refused(415, "a compressed body is not read")
        kinds = headers.get("content-type", [""])
        if len(kinds) != 1 or kinds[0].partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "the body must be application/json")
        if "transfer-encoding" in headers and "content-length" in headers:
            raise Refused(400, "Content-Length and Transfer-Encoding exclude each other")
        length = headers.get("content-length", ["0"])[0]
        if length.isdigit() and int(length) > self.limits.body_bytes:
            await self._too_large(receive)
        try:
            async with asyncio.timeout(self.limits.receive_seconds):
                body = await self._received(receive)
        except TimeoutError:
            raise Refused(408, f"the body did not arrive within {self.limits.receive_seconds:g} seconds") from None
        _check_json(body)
        return body

    async def _received(self, receive: Receive) -> bytes:
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the client went away")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self.limits.body_bytes:
                await self._too_large(receive)
            if not message.get("more_body", False):
                return b"".join(parts)

    async def _too_large(self, receive: Receive) -> NoReturn:
        """Refuses a body after throwing some of it away: who still sends when the connection ends reads no answer."""
        thrown = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(THROWN_SECONDS):
                while thrown < THROWN_BODIES * self.limits.body_bytes:
                    message = await receive()
                    thrown += len(message.get("body", b""))
                    if not message.get("more_body", False):
                        break
        raise Refused(413, f"the body may have {self.limits.body_bytes:,} bytes")


class _Answer:
    """Sends an answer with the guard's headers, and knows how far it got."""

    def __init__(self, send: Send, guard: Guard) -> None:
        self._send, self._guard = send, guard
        self.status = 0
        self.closes = False  # the connection ends with this answer

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = {name.lower() for name, _ in message.get("headers", [])}
            extra = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in given]
            if (self._guard.draining or self.closes) and b"connection" not in given:
                extra.append((b"connection", b"close"))
            message = {**message, "headers": [*message.get("headers", []), *extra]}
        await self._send(message)

    async def problem(self, status: int, reason: str, number: str | None = None) -> None:
        if self.status:  # half an answer is out already; the server closes the connection
            return
        body = json.dumps({"error": reason, "id": number or secrets.token_hex(8)}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if status in (400, 408, 413, 431):
            headers.append((b"connection", b"close"))
        if status == 503:
            headers.append((b"retry-after", b"1"))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _host_name(host: str) -> str:
    """Without the port: ``[::1]:8000`` -> ``::1``."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, once; after it only a disconnection can come."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _check_json(body: bytes) -> None:
    """Refuses what is not plain JSON: cut off, nested without end, NaN, a key twice."""

    def no_constant(text: str) -> None:
        raise ValueError(f"{text} is not JSON")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key stands twice in one object")
        return found

    try:
        json.loads(body, parse_constant=no_constant, object_pairs_hook=once)
    except RecursionError:
        raise Refused(400, "the body is nested too deeply") from None
    except ValueError as error:
        raise Refused(400, f"the body is not JSON: {printable(str(error))[:200]}") from None
