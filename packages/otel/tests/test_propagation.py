"""Propagation: the trace comes in with the Task, is current in the run, and goes out again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import format_span_id, format_trace_id

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Job, Loop, MemoryStore, Principal, rerun, substrate
from agentic_kernel_engine.loop import AskUser, Context, FinalAnswer
from agentic_kernel_engine.seams import ScriptedPlanner
from agentic_kernel_otel import (
    ROOT,
    SPAN,
    TRACEPARENT,
    TRACESTATE,
    OTelObserver,
    traceparent,
    with_trace,
)

from .conftest import Telemetry, above, id_of, trace_of

NewTask = Callable[..., Task]
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def answering(otel: OTelObserver, *script: Any) -> Any:
    return otel.traced(Loop(ScriptedPlanner(*script), middleware=[otel.middleware]))


async def test_a_run_is_below_the_trace_that_came_in_with_its_task(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    otel = telemetry.observer()
    task = new_task(metadata={TRACEPARENT: PARENT, TRACESTATE: "acme=1"})
    async with Host(answering(otel, FinalAnswer(1)), observer=otel) as host:
        done = await host.run(task)
    run = telemetry.span("invoke_agent")
    assert format_trace_id(trace_of(run)) == "0af7651916cd43dd8448eb211c80319c"
    assert format_span_id(above(run)) == "b7ad6b7169203331"
    assert run.context is not None
    assert run.context.trace_state.get("acme") == "1"
    assert ROOT not in done.metadata


async def test_a_run_is_below_the_span_that_it_was_dispatched_in(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    otel, tracer = telemetry.observer(), telemetry.traces.get_tracer("test")
    loop = Loop(ScriptedPlanner(FinalAnswer(1)))
    async with Host(loop, observer=otel) as host:
        with tracer.start_as_current_span("request"):
            await host.run(new_task())
        await host.run(new_task())
    inside, outside = telemetry.spans("invoke_agent")
    assert above(inside) == id_of(telemetry.span("request"))
    assert outside.parent is None


@pytest.mark.parametrize("caller", ["metadata", "current span", "nobody"])
async def test_another_process_goes_on_in_the_same_trace(
    telemetry: Telemetry, new_task: NewTask, caller: str
) -> None:
    store, tracer = MemoryStore(), telemetry.traces.get_tracer("test")
    task = new_task(metadata={TRACEPARENT: PARENT} if caller == "metadata" else {})
    one, two = telemetry.observer(), telemetry.observer()
    script = (AskUser("Shall I?"), FinalAnswer("done"))
    async with Host(answering(one, *script), store, observer=one) as host:
        if caller == "current span":
            with tracer.start_as_current_span("request"):
                await host.dispatch(task)
        else:
            await host.dispatch(task)
        paused = await host.wait(task.id, TaskStatus.PAUSED)
    async with Host(answering(two, *script), store, observer=two) as host:
        await host.answer(task.id, "Yes.")
        done = await host.wait(task.id)
    first, second = telemetry.spans("invoke_agent")
    assert trace_of(first) == trace_of(second)
    assert above(second) == (above(first) or id_of(first))
    (link,) = second.links
    assert link.context.span_id == id_of(first)
    assert traceparent(paused) == _traceparent(first)
    assert traceparent(done) == _traceparent(second)


def _traceparent(span: Any) -> str:
    flags = f"{span.context.trace_flags:02x}"
    return f"00-{format_trace_id(trace_of(span))}-{format_span_id(id_of(span))}-{flags}"


async def test_where_a_task_is_in_its_trace_can_be_asked_for(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    otel, said = telemetry.observer(), []

    def planning(context: Context) -> Any:
        said.append(otel.traceparent(context.task.id))
        return FinalAnswer(1)

    async with Host(answering(otel, planning), observer=otel) as host:
        done = await host.run(new_task())
    assert said == [_traceparent(telemetry.span("invoke_agent"))]
    assert traceparent(done) == said[0]
    assert otel.traceparent(done.id) is None


def test_a_task_takes_the_current_trace_with_it(telemetry: Telemetry, new_task: NewTask) -> None:
    task = new_task(metadata={TRACEPARENT: PARENT, TRACESTATE: "acme=1", "acme/x": 1})
    assert with_trace(task) is task  # There is none.
    with telemetry.traces.get_tracer("test").start_as_current_span("request") as span:
        taken = with_trace(task)
    assert traceparent(taken) == _traceparent(span)
    assert taken.metadata == {"acme/x": 1, TRACEPARENT: _traceparent(span)}
    assert traceparent(new_task()) is None


@pytest.mark.parametrize(
    "odd", ["", "nonsense", "00-0-0-01", f"ff{PARENT[2:]}", "0" * 10_000, 7, None, [PARENT], {}]
)
async def test_what_is_no_trace_is_none(telemetry: Telemetry, new_task: NewTask, odd: Any) -> None:
    otel = telemetry.observer()
    metadata = {TRACEPARENT: odd, TRACESTATE: odd, SPAN: PARENT, ROOT: PARENT}
    async with Host(answering(otel, FinalAnswer(1)), observer=otel) as host:
        done = await host.run(new_task(metadata=metadata))
    assert done.status is TaskStatus.SUCCESS
    run = telemetry.span("invoke_agent")
    assert run.parent is None
    assert run.links == ()


async def test_a_task_that_is_done_again_is_no_later_part(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    otel = telemetry.observer()
    async with Host(answering(otel, FinalAnswer(1)), observer=otel) as host:
        done = await host.run(new_task())
        await host.run(rerun(done))
    first, again = telemetry.spans("invoke_agent")
    assert again.links == ()
    assert trace_of(again) != trace_of(first)


async def test_what_was_sampled_out_stays_so_in_another_process(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    store, task = MemoryStore(), new_task()
    off = TracerProvider(sampler=ParentBased(ALWAYS_OFF))
    one, two = OTelObserver(tracer_provider=off), telemetry.observer()
    script = (AskUser("Shall I?"), FinalAnswer("done"))
    async with Host(answering(one, *script), store, observer=one) as host:
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
    async with Host(answering(two, *script), store, observer=two) as host:
        await host.answer(task.id, "Yes.")
        assert (await host.wait(task.id)).status is TaskStatus.SUCCESS
    off.shutdown()
    assert telemetry.spans() == []


async def test_without_an_sdk_nothing_is_noted(new_task: NewTask) -> None:
    otel = OTelObserver(tracer_provider=trace.NoOpTracerProvider())
    async with Host(answering(otel, FinalAnswer(1)), observer=otel) as host:
        done = await host.run(new_task())
    assert set(done.metadata) == {"engine/stop_reason"}


async def test_a_traced_substrate_has_every_port_of_the_one_inside() -> None:
    """So a Host does the same with it: for whom it acts, which limits it keeps, what it reads."""
    ports = [
        each
        for each in vars(substrate).values()
        if getattr(each, "_is_protocol", False) and each.__module__ == substrate.__name__
    ]
    ann = Principal("ann", "acme")
    inside = Loop(ScriptedPlanner(FinalAnswer(1)), principal=ann)
    traced = OTelObserver().traced(inside)
    named = {name for port in ports for name in vars(port) if name[0] != "_"}
    assert {"execute", "accept", "principal", "limit_names", "meters", "reads"} <= named
    for name in named - {"on_killed"}:
        there = getattr(inside, name)
        assert callable(there) or getattr(traced, name) == there, name
        assert hasattr(traced, name), name
    async with Host(traced) as host:
        task = Task.new(summary="", instructions="", runtime_kind="loop")
        await host.run(task, limits={"max_cost": 1.0})
        assert (await host.record(task.id)).realm == "acme"


def test_a_misspelled_method_of_the_traced_substrate_is_logged(
    telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    class Misspelled:
        async def execute(self, job: Job) -> Any:
            return None

        async def acept(self, task: Task) -> None: ...

    with caplog.at_level(logging.WARNING):
        telemetry.observer().traced(Misspelled())
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the method Misspelled.acept is never called" in caplog.text
