"""A receiver of OTLP, of the official services, over HTTP or gRPC; it keeps what arrives.

`with Receiver.over("http") as receiver` serves on a free port of the loopback interface.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Literal

import grpc  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

Wire = Literal["http", "grpc"]
PATIENCE: Final = 30.0
"""Seconds after which what has not arrived counts as lost."""


@dataclass(frozen=True)
class Span:
    """A span as it arrived."""

    name: str
    trace: str
    id: str
    parent: str
    began: int
    ended: int
    attributes: dict[str, Any]
    links: list[tuple[str, str, str]]
    """Trace, span, and which kind of link."""
    events: list[str]
    process: int
    error: bool


@dataclass(frozen=True)
class Log:
    """A log record as it arrived."""

    name: str
    trace: str
    span: str
    attributes: dict[str, Any]


@dataclass
class Receiver:
    """What arrived."""

    endpoint: str = ""
    spans: list[Span] = field(default_factory=list)
    logs: list[Log] = field(default_factory=list)
    services: set[str] = field(default_factory=set)
    """The names of the services that sent spans."""
    metrics: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By the name of the metric, the labels of its points."""
    _news: threading.Condition = field(default_factory=threading.Condition)

    @staticmethod
    @contextmanager
    def over(wire: Wire) -> Iterator[Receiver]:
        """A receiver that serves on a free port."""
        receiver = Receiver()
        with (_http if wire == "http" else _grpc)(receiver) as endpoint:
            receiver.endpoint = endpoint
            yield receiver

    def wait(self, until: Callable[[Receiver], object]) -> None:
        """Wait for what is on its way.

        Raises:
            TimeoutError: It did not come.
        """
        with self._news:
            if not self._news.wait_for(lambda: until(self), PATIENCE):
                names = [span.name for span in self.spans]
                raise TimeoutError(f"it did not arrive; what did: {names} {sorted(self.metrics)}")

    def take(self, request: Any) -> None:
        """Keep what one request brings."""
        with self._news:
            for resource in getattr(request, "resource_spans", ()):
                told = _plain(resource.resource.attributes)
                self.services.add(str(told.get("service.name")))
                process = told.get("process.pid", 0)
                for scope in resource.scope_spans:
                    self.spans += [_span(span, process) for span in scope.spans]
            for resource in getattr(request, "resource_logs", ()):
                for scope in resource.scope_logs:
                    self.logs += [_log(log) for log in scope.log_records]
            for resource in getattr(request, "resource_metrics", ()):
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        points = getattr(metric, metric.WhichOneof("data")).data_points
                        kept = self.metrics.setdefault(metric.name, [])
                        kept += [_plain(point.attributes) for point in points]
            self._news.notify_all()


def _span(span: Any, process: int) -> Span:
    return Span(
        span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(),
        span.start_time_unix_nano, span.end_time_unix_nano, _plain(span.attributes),
        [
            (link.trace_id.hex(), link.span_id.hex(), _plain(link.attributes).get(
                "agentic_kernel.link", ""
            ))
            for link in span.links
        ],
        [event.name for event in span.events], process, span.status.code == 2,
    )  # fmt: skip


def _log(log: Any) -> Log:
    return Log(log.event_name, log.trace_id.hex(), log.span_id.hex(), _plain(log.attributes))


def _plain(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return None if kind is None else getattr(value, kind)


_PATHS: Final[dict[str, tuple[Any, Any]]] = {
    "/v1/traces": (
        trace_service_pb2.ExportTraceServiceRequest,
        trace_service_pb2.ExportTraceServiceResponse,
    ),
    "/v1/metrics": (
        metrics_service_pb2.ExportMetricsServiceRequest,
        metrics_service_pb2.ExportMetricsServiceResponse,
    ),
    "/v1/logs": (
        logs_service_pb2.ExportLogsServiceRequest,
        logs_service_pb2.ExportLogsServiceResponse,
    ),
}


@contextmanager
def _http(receiver: Receiver) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request, response = _PATHS[self.path]
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.take(request.FromString(body))
            said = response().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def _grpc(receiver: Receiver) -> Iterator[str]:
    def taking(response: Any) -> Callable[[Any, Any], Any]:
        def export(request: Any, context: Any) -> Any:
            receiver.take(request)
            return response()

        return export

    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        added: Sequence[tuple[Any, Any, Any]] = (
            (
                trace_service_pb2_grpc.add_TraceServiceServicer_to_server,
                trace_service_pb2_grpc.TraceServiceServicer,
                trace_service_pb2.ExportTraceServiceResponse,
            ),
            (
                metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server,
                metrics_service_pb2_grpc.MetricsServiceServicer,
                metrics_service_pb2.ExportMetricsServiceResponse,
            ),
            (
                logs_service_pb2_grpc.add_LogsServiceServicer_to_server,
                logs_service_pb2_grpc.LogsServiceServicer,
                logs_service_pb2.ExportLogsServiceResponse,
            ),
        )
        for add, servicer, response in added:
            service = servicer()
            service.Export = taking(response)
            add(service, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.stop(1).wait()
