"""Spans of requests, where they are installed and wanted."""

from __future__ import annotations

import asyncio

import pytest

from tuckerkg.serve.middleware import Guard
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
    (span,) = memory.get_finished_spans()
    assert span.name == "GET /health"
    assert f"{span.context.trace_id:032x}" == TRACE
    assert span.attributes["http.response.status_code"] == 200
