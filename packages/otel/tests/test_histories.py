"""Whatever it is told, in whatever order: every span that begins ends, and nothing is kept."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.context import Context as Around
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from agentic_kernel import Task
from agentic_kernel_engine import Event
from agentic_kernel_engine.loop import Context, Observation, Plan, ToolCall
from agentic_kernel_engine.principal import NOBODY
from agentic_kernel_engine.seams import Invocation, ToolContext, tool
from agentic_kernel_otel import OTelObserver, trails

from .conftest import Telemetry, attributes

AT = datetime(2026, 1, 2, tzinfo=UTC)
OBSERVED = {"observations": [{"tool": "look", "error": "handler_error"}, {"tool": "look"}]}
EVENTS: dict[str, dict[str, Any]] = {
    "task.dispatched": {"by": "host:1"},
    "task.resumed": {"by": "host"},
    "task.claimed": {"by": "host"},
    "task.pause_requested": {"by": "host"},
    "task.pause_withdrawn": {"by": "host"},
    "task.paused": {"by": "host:1", "reason": "requested"},
    "task.released": {"by": "host:1"},
    "run.begun": {"agent": "acme/clerk", "model": "m-1"},
    "run.delta": {"text": "a"},
    "run.waits": {"kind": "approval"},
    "run.cut": {"text": "a"},
    "run.stopped": {"reason": "final", "usage": {"input_tokens": 1}, "steps": 1},
    "plan.made": {"actions": [{"type": "tool_call", "tool": "look"}]},
    "plan.failed": {"then": "fail", "code": "acme/broken"},
    "plan.decided": {"decisions": [{"verdict": "deny"}]},
    "effects.prepared": {"keys": {}},
    "step.observed": OBSERVED,
    "child.spawned": {"child": "task 1"},
    "acme.custom": {"by": "somebody"},
}
HOOKS = ("enter", "leave", "before_model", "after_model", "before_tool", "after_tool")
ENDS = ("task.completed", "task.failed", "task.killed")
IDS = [f"task {n}" for n in range(3)]


@tool(effect="none")
def look() -> int:
    """Look."""
    return 1


class Open(SpanProcessor):
    """The spans that have begun and not ended."""

    def __init__(self) -> None:
        self.spans: dict[int, str] = {}

    def on_start(self, span: Span, parent_context: Around | None = None) -> None:
        self.spans[span.get_span_context().span_id] = span.name

    def on_end(self, span: ReadableSpan) -> None:
        assert span.context is not None
        del self.spans[span.context.span_id]


class Told:
    """An observer that is told things, and its telemetry."""

    def __init__(self) -> None:
        self.open = Open()
        self.traces = TracerProvider()
        self.traces.add_span_processor(self.open)
        self._reader = InMemoryMetricReader()
        self._metrics = MeterProvider([self._reader])
        self.otel = OTelObserver(tracer_provider=self.traces, meter_provider=self._metrics)
        self._entered: dict[str, Any] = {}

    async def tell(self, task_id: str, what: str) -> None:
        if what not in HOOKS:
            data = EVENTS.get(what, {"by": "host:1", "code": "acme/x", "message": "m"})
            self.otel.observe(task_id, Event(what, data, AT))
            return
        task = Task.new(id=task_id, summary="", instructions="", runtime_kind="loop")
        call = ToolCall("look")
        context: Any = Context(task, 0, [], [], [], None, NOBODY, {}, (), (), None, "")  # type: ignore[arg-type]
        told = ToolContext(task_id, 0, 0, "", NOBODY, lambda report: None)
        invocation, middleware = Invocation(look, {}, call, told), self.otel.middleware
        match what:
            case "enter":
                self._entered[task_id] = self.otel._tracing.enter(task)[0]
            case "leave" if task_id in self._entered:
                self.otel._tracing.left(task_id, self._entered[task_id])
            case "before_model":
                await middleware.before_model(context)
            case "after_model":
                await middleware.after_model(context, Plan((call,)))
            case "before_tool":
                await middleware.before_tool(invocation)
            case "after_tool":
                await middleware.after_tool(invocation, Observation(1, tool="look"))

    def running(self) -> float:
        data = self._reader.get_metrics_data()
        assert data is not None
        points = [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics if metric.name == "agentic_kernel.tasks.running"
            for point in metric.data.data_points
        ]  # fmt: skip
        return sum(getattr(point, "value", 0) for point in points)

    def close(self) -> None:
        self.traces.shutdown()
        self._metrics.shutdown()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(IDS), st.sampled_from([*EVENTS, *HOOKS, *ENDS]))),
    st.sampled_from(ENDS),
)
def test_once_every_task_has_ended_nothing_is_open(
    history: list[tuple[str, str]], end: str
) -> None:
    async def play() -> None:
        for task_id, what in history:
            await told.tell(task_id, what)
        for task_id in IDS:
            await told.tell(task_id, end)

    told = Told()
    asyncio.run(play())
    assert told.open.spans == {}
    assert len(told.otel._tracing.trails) == 0
    assert told.running() == 0
    told.close()


def test_of_too_many_tasks_the_first_is_forgotten(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trails, "MOST_TASKS", 2)
    otel = telemetry.observer()
    for task_id in IDS:
        otel.observe(task_id, Event("task.dispatched", {"by": "host:1"}, AT))
        otel.observe(task_id, Event("run.delta", {"text": "a"}, AT))
    (forgotten,) = telemetry.spans()
    assert attributes(forgotten)["agentic_kernel.task.id"] == "task 0"
    assert attributes(forgotten)["agentic_kernel.task.status"] == "lost"
