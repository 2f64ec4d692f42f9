"""Traces of requests for OpenTelemetry, where its SDK is installed and the environment says where they go.

A span per request, below the one that ``traceparent`` names, and in it one for each part of the work: the wait for its
turn, the product or the slices, the answer's JSON, and its way out. Without the SDK, or with neither
OTEL_EXPORTER_OTLP_ENDPOINT nor OTEL_TRACES_EXPORTER, nothing is done.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

WANTED = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")


class Tracing:
    """Makes spans; without a tracer it makes none.

    Args:
        tracer: of OpenTelemetry.
    """

    def __init__(self, tracer: Any = None) -> None:
        self._tracer = tracer

    @contextmanager
    def request(self, method: str, path: str, headers: Mapping[str, str]) -> Iterator[Any]:
        """A span around a request; None where there is none."""
        if self._tracer is None:
            yield None
            return
        from opentelemetry.propagate import extract  # noqa: PLC0415
        from opentelemetry.trace import SpanKind  # noqa: PLC0415

        above = extract({name.lower(): value for name, value in headers.items()})
        with self._tracer.start_as_current_span(f"{method} {path}", context=above, kind=SpanKind.SERVER) as span:
            yield span

    def part(self, name: str, began: float, ended: float, **attributes: int) -> None:
        """A part of the request that is at work here, from one moment of ``perf_counter`` to another."""
        if self._tracer is None:
            return
        # A span says when it began by the time of day; how long it is comes from ``perf_counter`` alone.
        day = time.time_ns() - time.perf_counter_ns()
        span = self._tracer.start_span(name, start_time=day + int(1e9 * began), attributes=attributes)
        span.end(day + int(1e9 * ended))


def tracing() -> Tracing:
    """Traces, where they are installed and wanted."""
    if not any(os.environ.get(name) for name in WANTED) or os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return Tracing()
    try:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        return Tracing()
    exporter = _exporter()
    if exporter is None:
        return Tracing()
    named = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "tuckerkg")})
    provider = TracerProvider(resource=named)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider.get_tracer("tuckerkg"))


def _exporter() -> Any:
    if os.environ.get("OTEL_TRACES_EXPORTER") == "console":
        import sys  # noqa: PLC0415

        from opentelemetry.sdk.trace.export import ConsoleSpanExporter  # noqa: PLC0415

        return ConsoleSpanExporter(out=sys.stderr)
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    except ImportError:
        return None
    return OTLPSpanExporter()
