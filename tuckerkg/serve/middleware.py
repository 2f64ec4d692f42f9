"""Checks between the network and the application: who may ask, how much, for how long, and what an error reveals.

Pure ASGI. A request is refused before its body is parsed: a foreign Host or Origin, a missing token, a body that is not
plain JSON, too large or too slow. An exception inside becomes an id in the answer and a line in the log.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NoReturn

from fastapi.security import HTTPBearer
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuckerkg.errors import printable
from tuckerkg.serve import problems
from tuckerkg.serve.access import Access, Caller, WrongTokens
from tuckerkg.serve.limits import Limits
from tuckerkg.serve.problems import REQUEST_ID, UNEXPECTED, Refused, later
from tuckerkg.serve.watching.prometheus import ServiceMetrics
from tuckerkg.serve.watching.tracing import Tracing
from tuckerkg.types import LogFunction, ignore

LOOPBACK = ("localhost", "127.0.0.1", "::1")
CLOSED_PATHS = ("/api/", "/metrics")  # what a token is asked for
HEADERS = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}
DISCARDED_BODIES = 8  # of the largest size, and
DISCARDED_SECONDS = 1.0  # that a body which is too large is read for, unkept
# What a page of an allowed origin may send, and read of an answer.
ASKED_BY_PAGES = {
    "access-control-allow-methods": "GET, HEAD, POST, DELETE",
    "access-control-allow-headers": "authorization, content-type, accept, if-none-match, x-request-id, traceparent",
    "access-control-max-age": "600",
}
READ_BY_PAGES = "x-request-id, etag, location, retry-after, ratelimit, ratelimit-policy, content-disposition"
SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")

_log = logging.getLogger("tuckerkg.serve")


def logged(scope: Scope) -> str:
    """Write the current exception to the log and return the id that it has there."""
    number: str = scope.get("state", {}).get("id") or secrets.token_hex(8)
    _log.exception("request %s %s failed, id %s", scope["method"], printable(scope["path"]), number)
    return number


class Guard:
    """Middleware that checks a request before its body is parsed, and answers what it refuses with a problem.

    What Starlette, FastAPI and uvicorn have for this falls short of the service's rules. TrustedHostMiddleware answers
    in plain text with status 400 and looks at the first of several Host headers only; CORSMiddleware still runs a
    request from a foreign page and merely withholds headers. HTTPBearer as a dependency runs after the body was read;
    here it only reads the header, and comparing in constant time is ours. RequestBodyLimitMiddleware answers in plain
    text and leaves the rest of the body unread, so that a client that still sends sees a reset connection instead of
    the answer; nothing limits the time that a body takes to arrive, or refuses NaN and duplicate keys. uvicorn's
    ``limit_concurrency`` answers in plain text and counts idle connections as requests.

    Args:
        app: the application behind it.
        bodies: patterns of the paths that take a body by POST; no other request's body is read.
        streams: patterns of those whose body the application reads itself.
        deletes: patterns of the paths that take DELETE.
        hosts: the Host names that are served, in any case.
        origins: pages from elsewhere that may ask, by scheme, host and port.
        access: who may ask, and for what.
        limits: how much a client may ask.
        metrics: where requests are counted.
        tracing: makes spans of them.
        log: called with a line about each request that was refused or failed, with the id that the client has.
        access_log: called with what happened to every request.
    """

    def __init__(  # noqa: PLR0913  (by keyword only)
        self,
        app: ASGIApp,
        *,
        bodies: Iterable[str] = (),
        streams: Iterable[str] = (),
        deletes: Iterable[str] = (),
        hosts: Iterable[str] = LOOPBACK,
        origins: Iterable[str] = (),
        access: Access | None = None,
        limits: Limits = Limits(),  # noqa: B008  (frozen)
        metrics: ServiceMetrics | None = None,
        tracing: Tracing | None = None,
        log: LogFunction = ignore,
        access_log: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.log, self.access_log = log, access_log
        self.app = app
        self.bodies, self.streams, self.deletes = (_compiled(each) for each in (bodies, streams, deletes))
        self.hosts, self.origins = frozenset(host.lower() for host in hosts), frozenset(origins)
        self.wrong = WrongTokens()
        self.access, self.limits = access or Access(), limits
        self.metrics = metrics or ServiceMetrics()
        self.bearer = HTTPBearer(auto_error=False)
        self.in_flight = 0
        self.tracing = tracing or Tracing()
        self.draining = False  # the service ends: whoever is answered now is asked to close the connection

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass on what is none."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope["state"] = {**scope.get("state", {}), "id": _id_of(Headers(scope=scope))}
        answer = _Answer(send, self, state)
        clock = time.perf_counter()
        self.in_flight += 1
        self.metrics.in_flight.set(self.in_flight)
        try:
            headers = Headers(scope=scope)
            with self.tracing.request(scope["method"], scope["path"], headers) as span:
                await self._answer(scope, receive, answer)
                if span is not None:
                    span.set_attribute("http.route", getattr(scope.get("route"), "path", "other"))
                    span.set_attribute("http.response.status_code", answer.status)
        except Refused as refused:
            if not answer.status:  # else half an answer is out already, and the server closes the connection
                await problems.answer(refused, state["id"])(scope, receive, answer.send)
                state["code"] = refused.code
        except asyncio.CancelledError:
            raise
        except Exception:
            if not answer.status:  # else the application has answered and logged it
                await problems.answer(Refused(500, UNEXPECTED), logged(scope))(scope, receive, answer.send)
        finally:
            self.in_flight -= 1
            self.metrics.in_flight.set(self.in_flight)
            seconds = time.perf_counter() - clock
            self.metrics.observe(scope, answer.status, seconds)
            if "code" in state:
                self.metrics.refused.labels(state["code"]).inc()
            self._tell(scope, answer, seconds)

    def _tell(self, scope: Scope, answer: _Answer, seconds: float) -> None:
        """Who asked for what, and what became of it; the query and the body are not written down."""
        client = (scope.get("client") or ("-",))[0]
        state = scope["state"]
        if answer.status >= 400:
            what = f"{scope['method']} {scope['path']}"
            self.log(printable(f"{client} {what} {answer.status} {1000 * seconds:.1f} ms id {state['id']}"))
        if self.access_log is None:
            return
        caller: Caller | None = state.get("caller")
        self.access_log(
            {
                "time": datetime.now(UTC).timestamp(),
                "id": state["id"],
                "client": client,
                "who": None if caller is None else caller.name,
                "method": scope["method"],
                "route": getattr(scope.get("route"), "path", None),
                "path": scope["path"],
                "run": state.get("run"),
                "status": answer.status,
                "code": state.get("code"),
                "ms": round(1000 * seconds, 3),
                "bytes": answer.bytes,
                "questions": state.get("questions", 0),
                "cost": round(state.get("cost", 0.0), 6),
            }
        )

    async def _answer(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        headers = Headers(scope=scope)
        method, path = scope["method"], scope["path"]
        if method == "HEAD":  # as GET answers, whose routes need not know of it
            answer.only_head = True
        self._check_room(scope, headers)
        answer.origin = self._check_origin(headers, method)
        if answer.origin and method == "OPTIONS" and "access-control-request-method" in headers:
            await Response(None, 204, ASKED_BY_PAGES)(scope, receive, answer.send)
            return
        scope["state"]["caller"] = await self._caller(scope)
        if self.draining and path in ("/ready", "/readyz"):
            raise Refused(503, "the service is ending", "ending")
        if method == "POST" and _matches(self.bodies, path):
            receive = _replayed(await self._body(headers, receive), receive)
        elif not (method == "POST" and _matches(self.streams, path)):
            if method not in ("GET", "HEAD") and not (method == "DELETE" and _matches(self.deletes, path)):
                answer.closes = True  # nothing here takes such a request; if it has a body, nobody reads it
            receive = _replayed(b"", receive)
        if method == "HEAD":
            scope["method"] = "GET"
        # Nothing served is large; Starlette would answer a Range that makes no sense in plain text.
        scope["headers"] = [(name, value) for name, value in headers.raw if name != b"range"]
        if method == "POST" and "content-type" not in headers:
            scope["headers"].append((b"content-type", b"application/json"))  # of a body that says nothing
        await self.app(scope, receive, answer.send)

    def _check_room(self, scope: Scope, headers: Headers) -> None:
        if self.in_flight > self.limits.in_flight:
            raise Refused(503, f"{self.limits.in_flight} requests are at work already; try again", "overloaded")
        if len(scope.get("raw_path", b"") or b"") + len(scope.get("query_string", b"")) > self.limits.target_bytes:
            raise Refused(414, f"path and query may have {self.limits.target_bytes:,} bytes")
        if sum(len(name) + len(value) for name, value in headers.raw) > self.limits.head_bytes:
            raise Refused(431, f"the head may have {self.limits.head_bytes:,} bytes")

    def _check_origin(self, headers: Headers, method: str) -> str | None:
        """Refuse other hosts and pages; the origin of a page from elsewhere that may ask."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _host_name(hosts[0]) not in self.hosts:
            raise Refused(403, "this Host is not served; --allow-host names a further one", "host-not-served")
        ours = (f"http://{hosts[0]}", f"https://{hosts[0]}")
        origins = headers.getlist("origin")
        if len(origins) == 1 and origins[0] in self.origins:
            return origins[0]
        foreign = any(origin not in ours for origin in origins)
        followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        own = headers.get("sec-fetch-site", "none") in ("same-origin", "none")
        # A link on another page opens this one; what that page's scripts ask, or frame, is refused.
        if foreign or not (own or (followed and method in ("GET", "HEAD"))):
            raise Refused(403, "requests from other pages are not answered", "other-page")
        return None

    async def _caller(self, scope: Scope) -> Caller:
        address = (scope.get("client") or ("-",))[0]
        if not scope["path"].startswith(CLOSED_PATHS):
            return Caller(address, None, ())
        given = await self.bearer(Request(scope))
        found = self.access.caller(None if given is None else given.credentials, address)
        if found is None:
            if given is not None:
                await self._let_wait(address)
            raise Refused(401, "a token is needed: Authorization: Bearer TOKEN", "token-needed")
        found.need("read")
        return found

    async def _let_wait(self, address: str) -> None:
        """Who sends one wrong token after another gets its answers later. Raises Refused."""
        seconds = self.wrong.begin(address)
        if seconds is None:
            raise later(429, "many wrong tokens came from your address: wait", "wrong-tokens", 5.0)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.wrong.end(address)

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        if any(coding != "identity" for coding in headers.getlist("content-encoding")):
            raise Refused(415, "a compressed body is not read")
        is_empty = "transfer-encoding" not in headers and headers.get("content-length", "0").strip("0") == ""
        if is_empty and "content-type" not in headers:
            return b"{}"  # nothing is said: every field as it is by default
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

    def __init__(self, send: Send, guard: Guard, state: dict[str, Any]) -> None:
        self._send, self._guard, self._state = send, guard, state
        self.status = self.bytes = 0
        self.begun = 0.0
        self.closes = False  # the connection ends with this answer
        self.only_head = False  # no body is sent
        self.origin: str | None = None  # of a page from elsewhere that may read it

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message.setdefault("headers", [])
            headers = MutableHeaders(scope=message)
            headers[REQUEST_ID] = self._state["id"]
            self.begun = time.perf_counter()
            if "computed" in self._state:
                self._guard.tracing.part("json", self._state["computed"], self.begun)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if self.origin is not None:
                headers["access-control-allow-origin"] = self.origin
                headers["access-control-expose-headers"] = READ_BY_PAGES
            if self._guard.origins:
                headers.add_vary_header("Origin")
            if self._guard.draining or self.closes:
                headers.setdefault("connection", "close")
        elif self.only_head and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        self.bytes += len(message.get("body", b""))
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._guard.tracing.part("write", self.begun, time.perf_counter(), bytes=self.bytes)


def _id_of(headers: Headers) -> str:
    """The id that the client gave a request, where it is one; else a new one."""
    given = headers.get(REQUEST_ID, "")
    return given if SANE_ID.fullmatch(given) else secrets.token_hex(8)


def _compiled(patterns: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(each) for each in patterns)


def _matches(patterns: Sequence[re.Pattern[str]], path: str) -> bool:
    return any(each.fullmatch(path) for each in patterns)


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
