"""Checks between the network and the application: who may ask, how much, for how long, and what an error reveals.

Pure ASGI. A request is refused before its body is parsed: a foreign Host or Origin, a missing token, a body that is not
plain JSON, too large or too slow. An exception inside becomes an id in the answer and a line in the log.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuckerkg.errors import printable
from tuckerkg.serve.prometheus import ServiceMetrics
from tuckerkg.types import LogFunction, ignore

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
# What a status asks of the client; after some the rest of a body may still be on its way, so the connection ends.
HEADERS_OF_STATUS = {
    401: {"www-authenticate": "Bearer"},
    503: {"retry-after": "1"},
    **{status: {"connection": "close"} for status in (400, 408, 413, 431)},
}

DISCARDED_BODIES = 8  # of the largest size, and
DISCARDED_SECONDS = 1.0  # that a body which is too large is read for, unkept
REQUEST_ID = "x-request-id"
UNEXPECTED = "something went wrong here; the log has it under this id"

_log = logging.getLogger("tuckerkg.serve")


@dataclass(frozen=True)
class RequestLimits:
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


def problem(status: int, reason: str, number: str | None = None) -> JSONResponse:
    """Make the answer that every error gets: a reason and an id, a new one unless the log has it already."""
    number = number or secrets.token_hex(8)
    headers = {**HEADERS_OF_STATUS.get(status, {}), REQUEST_ID: number}
    return JSONResponse({"error": reason, "id": number}, status, headers)


def _line(scope: Scope, answer: _Answer, seconds: float) -> str:
    """Who asked for what, and what became of it; the query and the body are not written down."""
    client = (scope.get("client") or ("-",))[0]
    known_as = f" id {answer.number}" if answer.number else ""
    what = f"{scope['method']} {scope['path']}"
    return printable(f"{client} {what} {answer.status} {1000 * seconds:.1f} ms{known_as}")


def logged(scope: Scope) -> str:
    """Write the current exception to the log and return the id that it has there."""
    number = secrets.token_hex(8)
    _log.exception("request %s %s failed, id %s", scope["method"], printable(scope["path"]), number)
    return number


class Guard:
    """Middleware that checks a request before its body is parsed, and answers what it refuses as JSON with an id.

    What Starlette, FastAPI and uvicorn have for this falls short of the service's rules. TrustedHostMiddleware answers
    in plain text with status 400 and looks at the first of several Host headers only; CORSMiddleware still runs a
    request from a foreign page and merely withholds headers. HTTPBearer as a dependency runs after the body was read;
    here it only reads the header, and comparing in constant time is ours. RequestBodyLimitMiddleware answers in plain
    text and leaves the rest of the body unread, so that a client that still sends sees a reset connection instead of
    the answer; nothing limits the time that a body takes to arrive, or refuses NaN and duplicate keys. uvicorn's
    ``limit_concurrency`` answers in plain text and counts idle connections as requests.

    Args:
        app: the application behind it.
        bodies: the paths that take a body by POST; no other request's body is read.
        hosts: the Host names that are served, in any case.
        token: what clients must send as Bearer token; None asks for none, which a loopback address allows.
        limits: how much a client may ask.
        metrics: where requests are counted.
        log: called with a line about each request that was refused or failed, with the id that the client has.
        log_all: ... and about every other one.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        bodies: Iterable[str],
        hosts: Iterable[str] = LOOPBACK,
        token: str | None = None,
        limits: RequestLimits = RequestLimits(),  # noqa: B008  (frozen)
        metrics: ServiceMetrics | None = None,
        log: LogFunction = ignore,
        log_all: bool = False,
    ) -> None:
        self.log, self.log_all = log, log_all
        self.app, self.bodies = app, frozenset(bodies)
        self.hosts = frozenset(host.lower() for host in hosts)
        self.token, self.limits = token, limits
        self.metrics = metrics or ServiceMetrics()
        self.bearer = HTTPBearer(auto_error=False)
        self.in_flight = 0
        self.draining = False  # the service ends: whoever is answered now is asked to close the connection

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass on what is none."""
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
            if not answer.status:  # else half an answer is out already, and the server closes the connection
                await problem(refused.status, refused.reason)(scope, receive, answer.send)
        except asyncio.CancelledError:
            raise
        except Exception:
            if not answer.status:  # else the application has answered and logged it
                await problem(500, UNEXPECTED, logged(scope))(scope, receive, answer.send)
        finally:
            self.in_flight -= 1
            self.metrics.in_flight.set(self.in_flight)
            seconds = time.perf_counter() - clock
            self.metrics.observe(scope, answer.status, seconds)
            if self.log_all or answer.status >= 400:
                self.log(_line(scope, answer, seconds))

    async def _answer(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        if self.in_flight > self.limits.in_flight:
            raise Refused(503, f"{self.limits.in_flight} requests are at work already; try again")
        headers = Headers(scope=scope)
        if sum(len(name) + len(value) for name, value in headers.raw) > self.limits.head_bytes:
            raise Refused(431, f"the head may have {self.limits.head_bytes:,} bytes")
        self._check_origin(headers, scope["method"])
        await self._check_token(scope)
        if self.draining and scope["path"] == "/ready":
            raise Refused(503, "the service is ending")
        body = b""
        if scope["method"] == "POST" and scope["path"] in self.bodies:
            body = await self._body(headers, receive)
        elif scope["method"] not in ("GET", "HEAD"):
            answer.closes = True  # nothing here takes such a request; if it has a body, nobody reads it
        elif scope["method"] == "HEAD":  # as GET answers, whose routes need not know of it
            scope["method"], answer.only_head = "GET", True
        # Nothing served is large; Starlette would answer a Range that makes no sense in plain text.
        scope["headers"] = [(name, value) for name, value in headers.raw if name != b"range"]
        await self.app(scope, _replayed(body, receive), answer.send)

    def _check_origin(self, headers: Headers, method: str) -> None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _host_name(hosts[0]) not in self.hosts:
            raise Refused(403, "this Host is not served")
        foreign = any(origin.partition("://")[2] != hosts[0] for origin in headers.getlist("origin"))
        followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        own = headers.get("sec-fetch-site", "none") in ("same-origin", "none")
        # A link on another page opens this one; what that page's scripts ask, or frame, is refused.
        if foreign or not (own or (followed and method in ("GET", "HEAD"))):
            raise Refused(403, "requests from other pages are not answered")

    async def _check_token(self, scope: Scope) -> None:
        if self.token is None or scope["path"] in OPEN_PATHS or not scope["path"].startswith(("/api/", "/metrics")):
            return
        given = await self.bearer(Request(scope))
        if given is None or not secrets.compare_digest(given.credentials.encode(), self.token.encode()):
            raise Refused(401, "a token is needed: Authorization: Bearer TOKEN")

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        if any(coding != "identity" for coding in headers.getlist("content-encoding")):
            raise Refused(415, "a compressed body is not read")
        kinds = headers.getlist("content-type")
        if len(kinds) != 1 or kinds[0].partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "the body must be application/json")
        if "transfer-encoding" in headers and "content-length" in headers:
            raise Refused(400, "Content-Length and Transfer-Encoding exclude each other")
        length = headers.get("content-length", "0")
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
        """Discard some of a body before refusing it: who still sends when the connection ends reads no answer."""
        discarded = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCARDED_SECONDS):
                while discarded < DISCARDED_BODIES * self.limits.body_bytes:
                    message = await receive()
                    discarded += len(message.get("body", b""))
                    if not message.get("more_body", False):
                        break
        raise Refused(413, f"the body may have {self.limits.body_bytes:,} bytes")


class _Answer:
    """Sends an answer with the guard's headers, and keeps its status once it is out."""

    def __init__(self, send: Send, guard: Guard) -> None:
        self._send, self._guard = send, guard
        self.status = 0
        self.number = ""  # the id of an error
        self.closes = False  # the connection ends with this answer
        self.only_head = False  # no body is sent

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message.setdefault("headers", [])
            headers = MutableHeaders(scope=message)
            self.number = headers.get(REQUEST_ID, "")
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if self._guard.draining or self.closes:
                headers.setdefault("connection", "close")
        elif self.only_head and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await self._send(message)


def _host_name(host: str) -> str:
    """Leave the port out: ``[::1]:8000`` becomes ``::1``."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Give the application the body that was read already, once; after it only a disconnection can come."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _check_json(body: bytes) -> None:
    """Refuse what is not plain JSON: cut off, nested without end, NaN, a key twice."""

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
