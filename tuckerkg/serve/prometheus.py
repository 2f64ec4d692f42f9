"""Counts and times for Prometheus, in a registry of the service's own."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

TIMES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class ServiceMetrics:
    """What ``/metrics`` shows. Paths are those of routes, so that no label of the graph becomes a series."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        names = ["method", "route"]
        self.requests = Counter("tuckerkg_requests", "Requests by status", [*names, "status"], registry=self.registry)
        self.seconds = Histogram("tuckerkg_seconds", "Time to answer", names, buckets=TIMES, registry=self.registry)
        self.in_flight = Gauge("tuckerkg_in_flight", "Requests at work", registry=self.registry)
        self.questions = Counter("tuckerkg_questions", "Questions answered", registry=self.registry)
        self.batches = Counter("tuckerkg_batches", "Matrix products they took", registry=self.registry)

    def observe(self, scope: MutableMapping[str, Any], status: int, seconds: float) -> None:
        """One request is over."""
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in ("GET", "POST", "HEAD") else "other"
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(method, route).observe(seconds)

    def text(self) -> bytes:
        """In Prometheus's format."""
        return generate_latest(self.registry)
