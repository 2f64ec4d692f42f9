"""What the HTTP service refuses, and how it says so (B63-B72, S6, S7, S12, S13)."""

from __future__ import annotations

import asyncio
import json
import socket
import time

import pytest
from services import POSTED, running

from tuckerkg.errors import TuckerkgError
from tuckerkg.serve.client import Client, ServiceError
from tuckerkg.serve.limits import Limits
from tuckerkg.serve.middleware import Guard
from tuckerkg.serve.problems import Refused
from tuckerkg.serve.server import check_address
from tuckerkg.serve.state import Service


def is_problem(said: dict, status: int) -> bool:
    """Whether an answer has what RFC 9457 wants, a code and the request's id."""
    return {"type", "title", "status", "detail", "code", "instance"} <= set(said) and said["status"] == status


@pytest.mark.parametrize(
    "path",
    [
        "/../settings.json", "/%2e%2e/settings.json", "//etc/passwd", "/api/../../x", "/static/../x", "/static/",
        "/static/nothing", "/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd",
        "/static/%00", "/static/" + "x" * 300,
    ],
)  # fmt: skip
def test_b63_paths_lead_nowhere(service, path):
    status, text, _ = service.ask("GET", path)
    assert status == 404
    assert is_problem(json.loads(text), 404)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"head": "e000"',
        b"[" * 50_000,
        b'{"k": NaN, "head": "e000"}',
        b'{"head": "a", "head": "b"}',
        b"\xff",
    ],
    ids=["empty", "open", "cut", "deep", "nan", "twice", "bytes"],
)
def test_b64_what_is_not_json_is_refused(service, body):
    assert service.post("/api/v1/predict", body)[0] == 400


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_b64_b71_other_kinds_of_body_are_refused(service, kind):
    assert service.post("/api/v1/predict", {"head": "e000"}, Content_Type=kind)[0] == 415


@pytest.mark.parametrize("body", [None, b"x" * 10])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_a_method_that_a_route_does_not_have_is_refused_with_those_it_has(service, method, body):
    others = {"/api/v1/predict": "POST", "/api/v1/facts": "GET", "/ready": "GET"}.items()
    for path, allowed in [each for each in others if method not in each]:
        status, _, headers = service.ask(method, path, body)
        assert (status, headers["allow"]) == (405, allowed)
        assert method == "GET" or headers["connection"] == "close"


def test_b65_an_unknown_entity_gets_near_names(service, client):
    status, said = service.post("/api/v1/predict", {"head": "e0033", "relation": "plus1"})
    assert status == 404
    assert said["code"] == "unknown-name"
    assert "Nearest: 'e003'" in said["detail"]
    assert {"label": "e003", "title": "e003"} in said["near"]
    with pytest.raises(ServiceError, match="no relation 'plusx'"):
        client.predict(head="e003", relation="plusx")


@pytest.mark.parametrize("k", [0, -1, 10**9, "10", 1.5, None, True])
def test_b66_s12_k_is_a_whole_number_within_its_limits(service, k):
    assert service.post("/api/v1/predict", {"head": "e000", "relation": "plus1", "k": k})[0] == 422


def test_b67_s12_a_batch_over_its_limit_is_refused(service):
    question = {"head": "e000", "relation": "plus1", "k": 1}
    assert service.post("/api/v1/predict/batch", {"questions": [question] * 257})[0] == 422
    assert service.post("/api/v1/predict/batch", {"questions": []})[0] == 422


def test_b68_s12_a_body_over_its_limit_is_refused_before_it_is_parsed(service):
    assert service.post("/api/v1/predict", b"x" * ((1 << 20) + 1))[0] == 413
    assert service.post("/api/v1/predict", b"x" * (4 << 20))[0] == 413
    head = POSTED + b"Transfer-Encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    assert b" 413 " in service.raw(head + chunk * 17, seconds=5).split(b"\r\n")[0]
    assert service.post("/api/v1/predict", b"\x1f\x8b", Content_Encoding="gzip")[0] == 415


@pytest.mark.parametrize("label", ["\ud800", "a\x00b", "x" * 4_097, ""])
def test_b70_s12_names_that_cannot_be_are_refused(service, label):
    assert service.post("/api/v1/predict", {"head": label, "relation": "plus1"})[0] == 422


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "script"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"},
        {"Sec_Fetch_Site": "cross-site", "Origin": "http://evil.example", "Sec_Fetch_Mode": "navigate"},
    ],
    ids=str,
)
def test_b71_s7_foreign_pages_are_not_answered(service, headers):
    status, text, given = service.ask("GET", "/api/v1/run", **headers)
    assert status == 403
    assert "access-control-allow-origin" not in given
    assert b"toy" not in text


def test_a_link_on_another_page_opens_this_one(service):
    followed = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert service.ask("GET", "/", **followed)[0] == 200
    status, _, _ = service.ask("POST", "/api/v1/predict", b"{}", Content_Type="application/json", **followed)
    assert status == 403


@pytest.mark.parametrize("path", ["/", "/health", "/api/v1/run", "/static/app.js", "/metrics", "/nowhere"])
def test_head_is_answered_as_get_without_a_body(service, path):
    status, text, given = service.ask("HEAD", path)
    expected, body, _ = service.ask("GET", path)
    assert (status, text) == (expected, b"")
    assert given["content-type"]
    if path in ("/api/v1/run", "/static/app.js"):
        assert int(given["content-length"]) == len(body)


def test_the_own_page_may_ask(service):
    assert service.ask("GET", "/api/v1/run", Origin=service.address)[0] == 200


async def _ok(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def status_of(guard: Guard, *headers: tuple[bytes, bytes]) -> int:
    """The status of one request straight to a guard."""
    sent: list[dict] = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/api/x", "headers": list(headers)}
    asyncio.run(guard(scope, None, send))
    return sent[0]["status"]


def test_s7_further_hosts_are_served_in_any_case_and_one_at_a_time():
    guard = Guard(_ok, hosts=["Graph.Example.ORG", "::1"])
    for host in (b"graph.example.org", b"GRAPH.example.org:8000", b"[::1]:8000"):
        assert status_of(guard, (b"host", host)) == 200
    for host in (b"example.org", b"www.graph.example.org", b"graph.example.org.evil.example", b""):
        assert status_of(guard, (b"host", host)) == 403
    assert status_of(guard) == 403
    assert status_of(guard, (b"host", b"graph.example.org"), (b"host", b"evil.example")) == 403


def test_the_log_has_a_line_about_each_refusal_under_the_id_that_the_client_has():
    lines: list[str] = []
    guard = Guard(_ok, log=lines.append)
    assert status_of(guard, (b"host", b"127.0.0.1")) == 200
    assert lines == []
    sent: list[dict] = []

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/x\x1b[2J",
        "headers": [(b"host", b"evil.example")],
        "client": ("10.0.0.7", 1234),
    }
    asyncio.run(guard(scope, None, send))
    number = json.loads(sent[1]["body"])["instance"]
    assert dict(sent[0]["headers"])[b"x-request-id"].decode() == number
    (line,) = lines
    assert line.startswith("10.0.0.7 GET /api/x")
    assert " 403 " in line
    assert line.endswith(f"id {number}")
    assert "\x1b" not in line
    every: list[dict] = []
    assert status_of(Guard(_ok, log=lines.append, access_log=every.append), (b"host", b"127.0.0.1")) == 200
    assert (every[0]["status"], every[0]["path"]) == (200, "/api/x")
    assert len(lines) == 1


def asked_at_once(limits: Limits, requests: int) -> list[int]:
    """The statuses of requests to a route that takes a tenth of a second, all sent at the same time."""

    async def slow(scope, receive, send):
        await asyncio.sleep(0.1)
        await _ok(scope, receive, send)

    async def ask(guard: Guard) -> int:
        sent: list[dict] = []

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/api/x", "headers": [(b"host", b"127.0.0.1")]}
        await guard(scope, None, send)
        return sent[0]["status"]

    async def all_of_them() -> list[int]:
        guard = Guard(slow, limits=limits)
        return list(await asyncio.gather(*(ask(guard) for _ in range(requests))))

    return asyncio.run(all_of_them())


def test_s12_more_requests_at_once_than_allowed_are_turned_away():
    assert sorted(asked_at_once(Limits(in_flight=3), 5)) == [200, 200, 200, 503, 503]
    assert set(asked_at_once(Limits(in_flight=5), 5)) == {200}


def test_s12_an_answer_that_takes_too_long_is_given_up():
    service = Service([], limits=Limits(compute_seconds=0.05))
    with pytest.raises(Refused, match=r"no answer within 0\.05 seconds") as refused:
        asyncio.run(service.within_time(asyncio.sleep(30)))
    assert refused.value.status == 503


def test_b72_double_lengths_and_long_heads_are_refused(service):
    both = POSTED + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    assert b" 4" in service.raw(both, seconds=5).split(b"\r\n")[0]
    long = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n"
    assert b" 4" in service.raw(long, seconds=5).split(b"\r\n")[0]
    for path in ("/health", "/static/app.js"):
        assert service.ask("GET", path, Range="bytes=" + ",".join(["0-1"] * 1000))[0] == 200
    assert service.ask("GET", "/static/app.js", Range="bytes=nonsense")[0] == 200


@pytest.mark.parametrize(("size", "status"), [(20_000, 414), (60_000, 431)])
def test_b72_a_long_address_is_refused_as_such(service, size, status):
    line = b"GET /api/v1/entities?q=" + b"a" * size + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head, _, body = service.raw(line + b"Connection: close\r\n\r\n", seconds=5).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert is_problem(json.loads(body), status)


def chunked(extension: bytes) -> bytes:
    """A question in one chunk with an extension, on a connection that ends with the answer."""
    body = json.dumps({"head": "e000", "relation": "plus1"}).encode()
    head = POSTED + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + f"{len(body):x}".encode() + extension + b"\r\n" + body + b"\r\n0\r\n\r\n"


def test_b72_an_extension_of_a_chunk_may_be_short_and_no_longer_than_a_head(service):
    assert service.raw(chunked(b";name=value"), seconds=5).startswith(b"HTTP/1.1 200 ")
    assert service.raw(chunked(b";name=" + b"a" * 100_000), seconds=5).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "request_",
    [b"GET /health HTTP/1.1\nHost: 127.0.0.1\nConnection: close\n\n",
     b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\r\n b\r\nConnection: close\r\n\r\n"],
    ids=["bare LF", "folded"],
)  # fmt: skip
def test_b72_old_forms_of_a_head_mean_what_they_meant_or_are_refused(service, request_):
    """RFC 9112, 2.2 and 5.2: a bare LF may end a line, and folded lines are read as one, or refused."""
    status = service.raw(request_, seconds=5).split(b" ")[1]
    assert status in (b"200", b"400")


def test_b71_an_origin_of_another_scheme_is_foreign(service):
    own = f"127.0.0.1:{service.port}"
    for scheme, status in (("http", 200), ("ftp", 403), ("file", 403)):
        assert service.ask("GET", "/api/v1/run", Host=own, Origin=f"{scheme}://{own}")[0] == status


def test_s6_another_host_needs_a_token():
    check_address("127.0.0.1", None)
    check_address("::1", None)
    check_address("localhost", None)
    with pytest.raises(TuckerkgError, match="give a token too"):
        check_address("0.0.0.0", None)
    with pytest.raises(TuckerkgError, match="fewer than 16"):
        check_address("0.0.0.0", "short")
    check_address("0.0.0.0", "x" * 32)


def test_s13_an_error_has_an_id_and_tells_nothing(service):
    for status, said in (
        service.post("/api/v1/predict", {"head": "nobody", "relation": "plus1"}),
        service.post("/api/v1/predict", {"head": 1}),
        service.post("/api/v1/nothing", {}),
    ):
        assert status in (404, 422)
        assert is_problem(said, status)
        assert "Traceback" not in said["detail"]
        assert "/tmp" not in said["detail"]


def test_a_slow_head_is_cut_off_and_others_are_served(service):
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", service.port), timeout=30) as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\nHo")
        assert service.ask("GET", "/health")[0] == 200
        assert slow.recv(100) == b""  # closed
    assert time.monotonic() - start > 5


def test_a_token_is_asked_for_where_one_is_set(served_run):
    token = "t" * 32
    with running(served_run.path, token=token) as found:
        assert found.ask("GET", "/api/v1/run")[0] == 401
        assert found.ask("GET", "/metrics")[0] == 401
        for wrong in ("Bearer " + "x" * 32, "Bearer", "Bearer ", f"Basic {token}", token, "Bearer é"):
            status, said, headers = found.ask("GET", "/api/v1/run", Authorization=wrong)
            assert (status, headers["www-authenticate"]) == (401, 'Bearer realm="tuckerkg"')
            assert is_problem(json.loads(said), 401)
        assert found.ask("GET", "/api/v1/run", Authorization=f"bearer {token}")[0] == 200
        assert found.ask("GET", "/")[0] == 200
        assert found.ask("GET", "/ready")[0] == 200
        assert Client(found.address, token=token).about()["run"]["version"] == 1
