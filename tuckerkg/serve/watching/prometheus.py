"""Counts and times for Prometheus, in a registry of the service's own.

Workers that serve together keep their numbers in files of one folder, as ``prometheus_client`` does where
PROMETHEUS_MULTIPROC_DIR names one: each of them then shows those of all.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from tuckerkg import __version__

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
TIMES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServiceMetrics:
    """What ``/metrics`` shows. Paths are those of routes, so that no label of the graph becomes a series."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        own: Any = {"registry": self.registry}
        live: Any = {"registry": self.registry, "multiprocess_mode": "livesum"}
        names = ["method", "route"]
        self.requests = Counter("tuckerkg_http_requests", "Requests by status", [*names, "status"], **own)
        self.seconds = Histogram(
            "tuckerkg_http_request_duration_seconds", "Time to answer", names, buckets=TIMES, **own
        )
        self.in_flight = Gauge("tuckerkg_in_flight", "Requests at work", **live)
        self.workers = Gauge("tuckerkg_workers", "Processes that answer", **live)
        self.questions = Counter("tuckerkg_questions", "Questions answered", **own)
        self.batches = Counter("tuckerkg_batches", "Products that small questions took", **own)
        self.batch_size = Histogram("tuckerkg_batch_size", "Questions of a product", buckets=SIZES, **own)
        self.cost = Counter("tuckerkg_cost_seconds", "Computing that requests were charged for, by estimate", **own)
        self.refused = Counter("tuckerkg_refused", "Requests that were refused, by code", ["code"], **own)
        self.queue_length = Gauge("tuckerkg_queue_length", "Requests that wait", ["lane"], **live)
        self.queue_wait = Histogram(
            "tuckerkg_queue_wait_seconds", "Time that requests waited", ["lane"], buckets=TIMES, **own
        )
        self.held = Gauge("tuckerkg_held_bytes", "Bytes of answers that clients have not read", **live)
        self.runs = Gauge(
            "tuckerkg_run_info",
            "Runs that are served",
            ["run", "version", "checkpoint"],
            registry=self.registry,
            multiprocess_mode="livemax",
        )
        self.build = Gauge(
            "tuckerkg_build_info", "The package", ["version"], registry=self.registry, multiprocess_mode="livemax"
        )
        self.build.labels(__version__).set(1)
        if FOLDER not in os.environ:  # of one process; of several the supervisor of the system has them
            ProcessCollector(registry=self.registry)

    def observe(self, scope: MutableMapping[str, Any], status: int, seconds: float) -> None:
        """One request is over."""
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in ("GET", "POST", "DELETE") else "other"
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(method, route).observe(seconds)

    def text(self) -> bytes:
        """In Prometheus's format."""
        if FOLDER not in os.environ:
            return generate_latest(self.registry)
        everyone = CollectorRegistry()
        MultiProcessCollector(everyone)  # type: ignore[no-untyped-call]
        return generate_latest(everyone)
