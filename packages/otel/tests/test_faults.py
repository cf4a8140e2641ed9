"""Faults: whatever becomes of the telemetry, the run is the same."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult

from agentic_kernel import Task
from agentic_kernel_engine import Host, Loop, tool
from agentic_kernel_engine.loop import FinalAnswer, ToolCall
from agentic_kernel_engine.seams import ScriptedPlanner
from agentic_kernel_otel import OTelObserver

NewTask = Callable[..., Task]


@tool(effect="write")
def write(text: str) -> str:
    """Write."""
    return text


class Raising(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise RuntimeError("the exporter is broken")


class RaisingProcessor(SpanProcessor):
    def __init__(self, *when: str) -> None:
        self._when = when

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if "start" in self._when:
            raise RuntimeError("the processor is broken at the start")

    def on_end(self, span: ReadableSpan) -> None:
        if "end" in self._when:
            raise RuntimeError("the processor is broken at the end")


class RaisingSampler(Sampler):
    def should_sample(self, *_: Any, **__: Any) -> SamplingResult:
        raise RuntimeError("the sampler is broken")

    def get_description(self) -> str:
        return "raises"


def broken(name: str) -> TracerProvider:
    if name == "sampler":
        return TracerProvider(sampler=RaisingSampler())
    provider = TracerProvider()
    provider.add_span_processor(
        SimpleSpanProcessor(Raising()) if name == "exporter" else RaisingProcessor(*name.split())
    )
    return provider


async def _run(otel: OTelObserver | None, task: Task) -> tuple[Task, list[str]]:
    """The Task in the end, and the types of its events."""
    loop: Any = Loop(
        ScriptedPlanner(ToolCall("write", {"text": "a"}), FinalAnswer("done")), [write],
        middleware=[otel.middleware] if otel else [],
    )  # fmt: skip
    async with Host(otel.traced(loop) if otel else loop, observer=otel) as host:
        done = await host.run(task)
        return done, [event.type async for event in host.stream(done.id)]


@pytest.mark.parametrize("name", ["exporter", "start", "end", "start end", "sampler"])
async def test_what_raises_is_reported_and_changes_nothing(
    new_task: NewTask, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    _, expected = await _run(None, new_task())
    provider = broken(name)
    with caplog.at_level(logging.ERROR):
        done, types = await _run(OTelObserver(tracer_provider=provider), new_task())
    provider.shutdown()
    assert done.result == "done"
    assert types == expected
    assert "is broken" in caplog.text


class Blocking(SpanExporter):
    """A backend that answers nobody until it is let go."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.let_go = threading.Event()
        self.exported = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.asked.set()
        self.let_go.wait()
        self.exported += len(spans)
        return SpanExportResult.SUCCESS


async def test_a_backend_that_does_not_answer_holds_no_run_up(new_task: NewTask) -> None:
    exporter, provider = Blocking(), TracerProvider()
    provider.add_span_processor(
        BatchSpanProcessor(exporter, max_queue_size=8, max_export_batch_size=1)
    )
    otel = OTelObserver(tracer_provider=provider)
    try:
        await _run(otel, new_task())
        assert exporter.asked.wait(timeout=30)
        for _ in range(10):  # More than the queue holds: what is too much is dropped.
            done, _ = await _run(otel, new_task())
            assert done.result == "done"
        assert exporter.exported == 0
    finally:
        exporter.let_go.set()
        provider.shutdown()
    assert exporter.exported > 0


async def test_metrics_that_raise_change_nothing(
    new_task: NewTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = MeterProvider()
    otel = OTelObserver(meter_provider=provider)

    def failing(*_: Any, **__: Any) -> None:
        raise RuntimeError("the meter is broken")

    for name in ("answered", "called", "ended", "began", "entered"):
        monkeypatch.setattr(otel._tracing.means.instruments, name, failing)
    done, _ = await _run(otel, new_task())
    provider.shutdown()
    assert done.result == "done"


async def test_tasks_that_have_ended_leave_nothing_behind(new_task: NewTask) -> None:
    otel = OTelObserver()
    loop = Loop(ScriptedPlanner(FinalAnswer(1)))
    async with Host(otel.traced(loop), observer=otel) as host:
        for _ in range(20):
            await host.run(new_task())
    assert len(otel._tracing.trails) == 0
