"""OpenTelemetry: what an observed step costs, against the same spans and metrics by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from figure import Figure
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler
from opentelemetry.trace import SpanKind, Tracer

from agentic_kernel import Task
from agentic_kernel_engine import Event
from agentic_kernel_engine.loop import Context, Observation, Plan, ToolCall, Usage
from agentic_kernel_engine.principal import NOBODY
from agentic_kernel_engine.seams import Invocation, ToolContext, tool
from agentic_kernel_otel import OTelObserver

STEPS = 50
ROUNDS = 40
PLAN = Plan((ToolCall("add", {"a": 1, "b": 2}, "call_1"),), usage=Usage(100, 20), model="small")
OBSERVED = Observation(3, call="call_1", tool="add")
MADE = {
    "actions": [{"type": "tool_call", "tool": "add", "arguments": {"a": 1}, "id": "call_1"}],
    "usage": {"input_tokens": 100, "output_tokens": 20}, "model": "small",
}  # fmt: skip
SEEN = {"observations": [{"output": 3, "call": "call_1", "tool": "add"}], "goals": []}


def measure() -> list[Figure]:
    """The figures of the observer."""
    return [_figure("sampled in", ALWAYS_ON), _figure("sampled out", ALWAYS_OFF)]


@tool(effect="none")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Nowhere(SpanExporter):
    """A backend that takes everything at once."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def _figure(name: str, sampler: Sampler) -> Figure:
    traces = TracerProvider(sampler=sampler)
    traces.add_span_processor(BatchSpanProcessor(Nowhere(), schedule_delay_millis=50))
    ours_metrics, limit_metrics = (MeterProvider([InMemoryMetricReader()]) for _ in range(2))
    otel = OTelObserver(tracer_provider=traces, meter_provider=ours_metrics, provider="bench")
    by_hand = ByHand(traces.get_tracer("bench"), limit_metrics.get_meter("bench"))
    ids = (f"task {n}" for n in range(10**9))
    contestants: list[Callable[[], None]] = [
        lambda: _complete(_observed(otel, next(ids))),
        lambda: by_hand.run(next(ids)),
    ]
    best = [float("inf")] * 2
    for _ in range(ROUNDS):
        for index, contestant in enumerate(contestants):
            began = time.process_time()
            contestant()
            best[index] = min(best[index], (time.process_time() - began) / STEPS)
    for provider in (traces, ours_metrics, limit_metrics):
        provider.shutdown()
    ours, limit = best
    return Figure(
        name=f"one observed step with a call of a tool, {name}, against the SDK",
        ours=ours / limit, unit="×", limit=1, bar=1.3,
        limit_is=f"the same spans and metrics by hand, {limit * 1e6:.0f} µs",
    )  # fmt: skip


def _complete(steps: Any) -> None:
    """Run what never waits."""
    try:
        steps.send(None)
    except StopIteration:
        return
    raise AssertionError("a hook waited")


async def _observed(otel: OTelObserver, task_id: str) -> None:
    """All that the observer and its middleware are told in one run."""
    task = Task.new(id=task_id, summary="", instructions="", runtime_kind="bench")
    context = Context(task, 0, [], [], [], None, NOBODY, {}, (), (), None, "")  # type: ignore[arg-type]
    told = ToolContext(task_id, 0, 0, "", NOBODY, lambda report: None)
    call = Invocation(add, {"a": 1, "b": 2}, PLAN.actions[0], told)  # type: ignore[arg-type]
    middleware = otel.middleware
    otel.observe(task_id, Event("task.dispatched", {"by": "host:1"}))
    for _ in range(STEPS):
        await middleware.before_model(context)
        await middleware.after_model(context, PLAN)
        await middleware.before_tool(call)
        await middleware.after_tool(call, OBSERVED)
        otel.observe(task_id, Event("plan.made", MADE))
        otel.observe(task_id, Event("plan.decided", {"decisions": [{"verdict": "allow"}]}))
        otel.observe(task_id, Event("step.observed", SEEN))
    otel.observe(task_id, Event("task.completed", {"by": "host:1"}))


class ByHand:
    """The same spans with the same attributes, and the same metrics, written to the SDK."""

    def __init__(self, tracer: Tracer, meter: Meter) -> None:
        self._tracer = tracer
        self._tokens = meter.create_histogram("gen_ai.client.token.usage")
        self._chat = meter.create_histogram("gen_ai.client.operation.duration")
        self._tool = meter.create_histogram("gen_ai.execute_tool.duration")
        self._agent = meter.create_histogram("gen_ai.invoke_agent.duration")
        self._running = meter.create_up_down_counter("agentic_kernel.tasks.running")
        self._entered = meter.create_counter("agentic_kernel.tasks")

    def run(self, task_id: str) -> None:
        began = time.time_ns()
        self._entered.add(1, {"agentic_kernel.task.status": "running"})
        self._running.add(1)
        root = self._tracer.start_span(
            "invoke_agent", contexts.Context(), attributes={
                "gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "bench",
                "agentic_kernel.task.id": task_id, "gen_ai.conversation.id": task_id,
                "agentic_kernel.task.kind": "bench",
            }, start_time=began,
        )  # fmt: skip
        around = trace.set_span_in_context(root, contexts.Context())
        for _ in range(STEPS):
            self.step(around)
        ended = time.time_ns()
        if root.is_recording():
            root.add_event("agentic_kernel.task.completed", {"agentic_kernel.by": "host:1"}, ended)
            root.set_attribute("agentic_kernel.task.status", "success")
        root.end(ended)
        self._entered.add(1, {"agentic_kernel.task.status": "success"})
        self._running.add(-1)
        self._agent.record((ended - began) / 1e9, {})

    def step(self, around: contexts.Context) -> None:
        start = self._tracer.start_span
        began = time.time_ns()
        plan = start(
            "plan", around, SpanKind.INTERNAL,
            {"gen_ai.operation.name": "plan", "agentic_kernel.step": 0}, start_time=began,
        )  # fmt: skip
        below = trace.set_span_in_context(plan, around)
        chat = start(
            "chat", below, SpanKind.CLIENT,
            {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "bench"}, start_time=began,
        )  # fmt: skip
        contexts.attach(trace.set_span_in_context(chat, below))
        ended = time.time_ns()
        if chat.is_recording():
            chat.update_name("chat small")
            chat.set_attributes(
                {
                    "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20,
                    "gen_ai.response.model": "small",
                }
            )  # fmt: skip
        labels = {
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "bench",
            "gen_ai.response.model": "small",
        }  # fmt: skip
        self._tokens.record(100, {**labels, "gen_ai.token.type": "input"})
        self._tokens.record(20, {**labels, "gen_ai.token.type": "output"})
        chat.end(ended)
        self._chat.record((ended - began) / 1e9, labels)
        plan.end(ended)
        contexts.attach(around)
        began = time.time_ns()
        span = start(
            "execute_tool add", around, SpanKind.INTERNAL,
            {
                "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add",
                "gen_ai.tool.type": "function", "gen_ai.tool.call.id": "call_1",
                "agentic_kernel.tool.effect": "none",
            }, start_time=began,
        )  # fmt: skip
        contexts.attach(trace.set_span_in_context(span, around))
        ended = time.time_ns()
        span.end(ended)
        self._tool.record(
            (ended - began) / 1e9, {"gen_ai.tool.name": "add", "gen_ai.tool.type": "function"}
        )
        contexts.attach(around)
