"""Spans of requests, where they are installed and wanted."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from tuckerkg.serve.app import make_app
from tuckerkg.serve.middleware import Guard
from tuckerkg.serve.state import RunSource, Service
from tuckerkg.serve.watching.tracing import Tracing, tracing

TRACE = "0af7651916cd43dd8448eb211c80319c"


async def answered(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_without_being_asked_for_nothing_is_traced(monkeypatch):
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER"):
        monkeypatch.delenv(name, raising=False)
    with tracing().request("GET", "/", {}) as span:
        assert span is None


def test_a_request_is_a_span_that_goes_on_from_the_callers(monkeypatch):
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(memory))
    guard = Guard(answered)
    guard.tracing = Tracing(provider.get_tracer("a test"))

    async def send(message):
        pass

    headers = [(b"host", b"127.0.0.1"), (b"traceparent", f"00-{TRACE}-b7ad6b7169203331-01".encode())]
    scope = {"type": "http", "method": "GET", "path": "/health", "headers": headers}
    asyncio.run(guard(scope, None, send))
    write, span = memory.get_finished_spans()
    assert (write.name, write.parent.span_id) == ("write", span.context.span_id)
    assert span.name == "GET /health"
    assert f"{span.context.trace_id:032x}" == TRACE
    assert span.attributes["http.response.status_code"] == 200


def test_the_parts_of_a_request_are_spans_below_it(toy_run):
    """The wait for its turn, the product, the answer's JSON and its way out, one after the other."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(memory))
    made = Tracing(provider.get_tracer("a test"))
    ready = threading.Event()
    service = Service([RunSource("toy", toy_run.path, lambda version: toy_run)], on_ready=ready.set)
    guard = make_app(service)
    guard.tracing = service.scheduler.tracing = made

    async def asked(body):
        await service.start()
        await asyncio.to_thread(ready.wait, 60)
        data = json.dumps(body).encode()
        parts = [{"type": "http.request", "body": data, "more_body": False}]

        async def receive():
            if not parts:
                await asyncio.sleep(3_600)  # the client waits for its answer
            return parts.pop()

        async def send(message):
            pass

        headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
        headers.append((b"content-length", str(len(data)).encode()))
        path = "/api/v1/predict"
        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
        await guard(scope | {"headers": headers, "client": ("127.0.0.1", 1)}, receive, send)
        await service.stop()

    asyncio.run(asked({"head": "e000", "relation": "plus1"}))
    *parts, request = memory.get_finished_spans()
    assert request.name == "POST /api/v1/predict"
    assert request.attributes["http.response.status_code"] == 200
    assert [part.name for part in parts] == ["queue", "product", "json", "write"]
    assert {part.parent.span_id for part in parts} == {request.context.span_id}
    assert all(part.start_time <= part.end_time for part in parts)
    assert [part.start_time for part in parts] == sorted(part.start_time for part in parts)
    assert parts[1].attributes["questions"] == 1
    assert parts[3].attributes["bytes"] > 0
