"""Figures for Prometheus: requests by route and status, and what engine and store hold."""

from __future__ import annotations

import time
from collections.abc import Iterator

from flask import Flask, Response, g, request
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from remory_service.runtime import Runtime
from remory_service.store import memories, transcripts

disable_created_metrics()

_BUCKETS = (0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)


class Metrics:
    """One application's registry."""

    def __init__(self, app: Flask, runtime: Runtime):
        self._registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter("remory_http_requests", "Requests answered.", labels, registry=self._registry)
        self._seconds = Histogram(
            "remory_http_request_seconds",
            "Time to the last byte of the answer.",
            ("route",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._registry.register(_Figures(runtime))
        app.before_request(self._begin)
        app.after_request(self._end)

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)

    def _begin(self) -> None:
        g.began = time.monotonic()

    def _end(self, response: Response) -> Response:
        # The rule and never the path: a path holds handles, and anybody can make up new ones.
        route = request.url_rule.rule if request.url_rule else "unknown"
        method, began = request.method if request.url_rule else "any", g.began
        self._requests.labels(method, route, response.status_code).inc()
        response.call_on_close(lambda: self._seconds.labels(route).observe(time.monotonic() - began))
        return response


class _Figures:
    """Collects what engine and store hold at the moment of asking."""

    def __init__(self, runtime: Runtime):
        self._runtime = runtime

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "remory_ready", "1 when the actor answers.", float(self._runtime.status()[0] == "ready")
        )
        for name, value in self._runtime.stats().items():
            yield GaugeMetricFamily(f"remory_engine_{name}", f"The engine's {name.replace('_', ' ')}.", value)
        handles, size = memories.totals()
        yield GaugeMetricFamily("remory_store_handles", "Stored handles.", handles)
        yield GaugeMetricFamily("remory_store_rows_bytes", "Bytes of stored rows.", size)
        yield GaugeMetricFamily("remory_store_transcript_bytes", "Bytes of collected transcripts.", transcripts.total())
