"""The real SDK, with exporters that keep what they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    InMemoryMetricReader,
    NumberDataPoint,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentic_kernel import Task
from agentic_kernel_otel import OTelObserver


class Telemetry:
    """All that was exported."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._logs = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
        self._reader = InMemoryMetricReader()
        self.traces = TracerProvider()
        self.traces.add_span_processor(SimpleSpanProcessor(self._spans))
        self.metrics = MeterProvider([self._reader])
        self.loggers = LoggerProvider()
        self.loggers.add_log_record_processor(SimpleLogRecordProcessor(self._logs))

    def observer(self, **options: Any) -> OTelObserver:
        """An observer that tells these providers."""
        return OTelObserver(
            tracer_provider=self.traces,
            meter_provider=self.metrics,
            logger_provider=self.loggers,
            **options,
        )

    def spans(self, begins: str = "") -> list[ReadableSpan]:
        """Spans by the beginning of their names, in the order in which they began."""
        found = [s for s in self._spans.get_finished_spans() if s.name.startswith(begins)]
        return sorted(found, key=lambda span: span.start_time or 0)

    def span(self, begins: str) -> ReadableSpan:
        """The one span whose name begins so."""
        (found,) = self.spans(begins)
        return found

    def logs(self) -> Sequence[ReadableLogRecord]:
        return self._logs.get_finished_logs()

    def points(self, metric: str) -> list[tuple[dict[str, Any], float]]:
        """Labels, and the sum, of one metric."""
        data = self._reader.get_metrics_data()
        found: list[tuple[dict[str, Any], float]] = []
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for each in scope.metrics:
                    if each.name != metric:
                        continue
                    for point in each.data.data_points:
                        value = point.sum if isinstance(point, HistogramDataPoint) else None
                        if isinstance(point, NumberDataPoint):
                            value = point.value
                        assert value is not None
                        found.append((dict(point.attributes or {}), value))
        return found

    def everything(self) -> str:
        """All texts that were exported, to look for what must not be among them."""
        spans = [span.to_json() for span in self._spans.get_finished_spans()]
        logs = [log.to_json() for log in self.logs()]
        data = self._reader.get_metrics_data()
        return "\n".join([*spans, *logs, data.to_json() if data is not None else ""])

    def close(self) -> None:
        self.traces.shutdown()
        self.metrics.shutdown()
        self.loggers.shutdown()


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    telemetry = Telemetry()
    yield telemetry
    telemetry.close()


@pytest.fixture
def new_task() -> Callable[..., Task]:
    def new_task(**fields: Any) -> Task:
        given = {"summary": "", "instructions": "Do it.", "runtime_kind": "loop", **fields}
        return Task.new(**given)

    return new_task


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def above(span: ReadableSpan) -> int:
    """The id of the span above; 0 for a root."""
    return 0 if span.parent is None else span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.trace_id)
