"""Metrics: the server's figures for Prometheus, in one process or in several that share a port.

Several processes write their figures into files of one folder (the library's multiprocess mode), so
that a scrape shows the sum, whichever process answers it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..caller import Authenticate

FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable that names the folder of several processes."""
PREFIX: Final = "agentic_kernel_server_"
HELP: Final[Mapping[str, str]] = {
    "requests": "Answered requests.",
    "request_seconds": "Durations of requests, without streams.",
    "requests_forwarded": "Requests that went to the process that owns their execution.",
    "executions_created": "Executions that were created.",
    "agent_streams": "Open streams of agents.",
    "runner_streams": "Open streams of runners.",
    "live_executions": "Executions that run in these processes.",
    "live_steps": "Remote steps that run in these processes.",
}
"""The server's own figures, and what each one is."""
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)
"""The upper ends of the buckets of durations, in seconds."""


class Metrics:
    """A `Measure` that Prometheus can read.

    Each name becomes a metric when it is first used. The names of its labels are those of the first
    use, and later uses have the same ones.
    """

    def __init__(self) -> None:
        self._several = FOLDER in os.environ
        self._registry = CollectorRegistry()
        if self._several:
            # The files are the registry: what is registered too would be counted twice.
            MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]
        self._made: dict[str, Any] = {}
        self._gauges: list[tuple[Gauge, Callable[[], float]]] = []

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        """Add to a counter."""
        self._metric(Counter, name, labels).inc(by)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Record a duration."""
        self._metric(Histogram, name, labels, buckets=BUCKETS).observe(seconds)

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Name a value that is read when the figures are asked for.

        Of several processes, the one that answers reads its own values, and `refresh` keeps those
        of the others fresh.
        """
        made = Gauge(
            PREFIX + name,
            _help(name),
            registry=None if self._several else self._registry,
            multiprocess_mode="livesum",
        )
        self._gauges.append((made, read))

    def refresh(self) -> None:
        """Read every gauge."""
        for gauge, read in self._gauges:
            gauge.set(read())

    def text(self) -> bytes:
        """The figures in Prometheus's text format."""
        self.refresh()
        return generate_latest(self._registry)

    def _metric(self, make: Any, name: str, labels: dict[str, str], **more: Any) -> Any:
        metric = self._made.get(name)
        if metric is None:
            metric = self._made[name] = make(
                PREFIX + name,
                _help(name),
                labelnames=tuple(sorted(labels)),
                registry=None if self._several else self._registry,
                **more,
            )
        return metric.labels(**labels) if labels else metric


def _help(name: str) -> str:
    return HELP.get(name, name.replace("_", " "))


def routes(metrics: Metrics, authenticate: Authenticate) -> Sequence[Route]:
    """The route ``/metrics``. The figures are about all tenants, so it asks for ``metrics``."""

    async def show(request: Request) -> Response:
        (await authenticate(request)).require("metrics")
        return Response(metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})

    return [Route("/metrics", show, methods=["GET"])]
