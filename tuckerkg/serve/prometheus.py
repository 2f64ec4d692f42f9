"""Counts and times for Prometheus, in a registry of the service's own.

Workers that serve together keep their numbers in files of one folder, as ``prometheus_client`` does where
PROMETHEUS_MULTIPROC_DIR names one: each of them then shows those of all.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
TIMES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class ServiceMetrics:
    """What ``/metrics`` shows. Paths are those of routes, so that no label of the graph becomes a series."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        names = ["method", "route"]
        self.requests = Counter("tuckerkg_requests", "Requests by status", [*names, "status"], registry=self.registry)
        self.seconds = Histogram("tuckerkg_seconds", "Time to answer", names, buckets=TIMES, registry=self.registry)
        self.in_flight = Gauge(
            "tuckerkg_in_flight", "Requests at work", registry=self.registry, multiprocess_mode="livesum"
        )
        self.workers = Gauge(
            "tuckerkg_workers", "Processes that answer", registry=self.registry, multiprocess_mode="livesum"
        )
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
        if FOLDER not in os.environ:
            return generate_latest(self.registry)
        everyone = CollectorRegistry()
        MultiProcessCollector(everyone)  # type: ignore[no-untyped-call]
        return generate_latest(everyone)
