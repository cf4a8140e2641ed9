"""Traces: what spans a run leaves, where they belong, and what they are linked to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from agentic_kernel import Failure, Task, TaskStatus
from agentic_kernel_engine import Event, Host, Job, Loop, MemoryStore, TaskFailed, tool
from agentic_kernel_engine.loop import (
    ALLOW,
    Action,
    Context,
    Decision,
    Delegate,
    FinalAnswer,
    Plan,
    PlannerError,
    ToolCall,
    Usage,
    require_approval,
)
from agentic_kernel_engine.seams import ScriptedPlanner, Streamed
from agentic_kernel_otel import TRACEPARENT, OTelObserver

from .conftest import Telemetry, above, attributes, id_of, trace_of

NewTask = Callable[..., Task]


@tool(effect="read")
def look(number: int) -> int:
    """Look at a number."""
    return number


@tool(effect="write")
def pay(number: int) -> int:
    """Pay."""
    if number < 0:
        raise ValueError("it is too little")
    return number


class PayingIsAsked:
    async def authorize(self, action: Action, context: Context) -> Decision:
        paying = isinstance(action, ToolCall) and action.tool == "pay"
        return require_approval("it costs") if paying else ALLOW


LOOKING = Plan(
    (ToolCall("look", {"number": 1}, "call_1"),),
    usage=Usage(100, 20, 60, 5, 0.25),
    model="small-1",
)


def traced(otel: OTelObserver, *script: Any, **options: Any) -> Any:
    """A Loop that tells all that can be told."""
    planner = ScriptedPlanner(*script)
    return otel.traced(Loop(planner, [look, pay], middleware=[otel.middleware], **options))


async def test_a_run_is_one_trace_of_plans_chats_and_tools(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    otel = telemetry.observer(provider="openai")
    task = new_task(agent_name="shop/clerk")
    loop = traced(otel, LOOKING, FinalAnswer("one"))
    async with Host(loop, observer=otel) as host:
        await host.run(task)
    run = telemetry.span("invoke_agent")
    assert run.name == "invoke_agent shop/clerk"
    assert run.parent is None
    assert run.kind is SpanKind.INTERNAL
    assert {trace_of(span) for span in telemetry.spans()} == {trace_of(run)}
    assert attributes(run) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.agent.name": "shop/clerk",
        "gen_ai.conversation.id": task.id,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "agentic_kernel.task.id": task.id,
        "agentic_kernel.task.kind": "loop",
        "agentic_kernel.task.status": "success",
        "agentic_kernel.stop_reason": "final",
        "agentic_kernel.steps": 2,
    }
    plans, chats = telemetry.spans("plan"), telemetry.spans("chat")
    assert [above(plan) for plan in plans] == [id_of(run)] * 2
    assert [above(chat) for chat in chats] == [id_of(plan) for plan in plans]
    assert chats[0].name == "chat small-1"
    assert chats[0].kind is SpanKind.CLIENT
    assert attributes(chats[0]) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.response.model": "small-1",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "agentic_kernel.usage.cost": 0.25,
    }
    called = telemetry.span("execute_tool")
    assert called.name == "execute_tool look"
    assert above(called) == id_of(run)
    assert attributes(called) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call_1",
        "gen_ai.agent.name": "shop/clerk",
        "agentic_kernel.tool.effect": "read",
    }
    assert _ordered(plans[0], called, plans[1])


def _ordered(*spans: ReadableSpan) -> bool:
    times = [moment for span in spans for moment in (span.start_time or 0, span.end_time or 0)]
    return times == sorted(times)


async def test_an_observer_alone_tells_the_same_spans(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    otel = telemetry.observer()
    planner = ScriptedPlanner([LOOKING.actions[0], ToolCall("nothing", {})], FinalAnswer("one"))
    async with Host(Loop(planner, [look]), observer=otel) as host:
        await host.run(new_task())
    run = telemetry.span("invoke_agent")
    called = telemetry.span("execute_tool")  # There is no tool called "nothing".
    assert [above(span) for span in (*telemetry.spans("plan"), called)] == [id_of(run)] * 3
    assert len(telemetry.spans("chat")) == 2
    assert called.name == "execute_tool look"
    assert all(_within(span, run) for span in telemetry.spans())


def _within(span: ReadableSpan, other: ReadableSpan) -> bool:
    assert None not in (span.start_time, span.end_time, other.start_time, other.end_time)
    return other.start_time <= span.start_time <= span.end_time <= other.end_time  # type: ignore[operator]


@pytest.mark.parametrize("alone", [True, False], ids=["observer alone", "traced"])
async def test_each_part_of_a_paused_run_is_in_its_trace_and_linked_to_the_one_before(
    telemetry: Telemetry, new_task: NewTask, alone: bool
) -> None:
    otel = telemetry.observer()
    script = (ToolCall("pay", {"number": 1}), ToolCall("pay", {"number": 2}), FinalAnswer("paid"))
    loop: Any = Loop(ScriptedPlanner(*script), [pay], PayingIsAsked())
    if not alone:
        loop = traced(otel, *script, policy=PayingIsAsked())
    async with Host(loop, observer=otel) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        for _ in range(2):
            paused = await host.wait(id, TaskStatus.PAUSED)
            (request,) = paused.metadata["engine/waiting_for"]["requests"]
            await host.approve(id, request["digest"], by="ann")
        await host.wait(id)
    first, second, third = telemetry.spans("invoke_agent")
    assert first.parent is None
    assert above(second) == above(third) == id_of(first)
    for part, before in ((second, first), (third, second)):
        (link,) = part.links
        assert link.context.span_id == id_of(before)
        assert dict(link.attributes or {}) == {"agentic_kernel.link": "earlier"}
    assert [attributes(part)["agentic_kernel.task.status"] for part in (first, second, third)] == [
        "paused", "paused", "success",
    ]  # fmt: skip
    assert attributes(first)["agentic_kernel.waiting_for"] == "approval"
    assert [event.name for event in second.events] == [
        "agentic_kernel.approval.given",
        "agentic_kernel.plan.decided",
        "agentic_kernel.run.waits",
        "agentic_kernel.task.paused",
    ]
    assert [above(span) for span in telemetry.spans("execute_tool")] == [
        id_of(second),
        id_of(third),
    ]


async def test_a_child_has_a_trace_of_its_own_with_a_link_to_its_parent(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    otel = telemetry.observer()

    def plan(context: Context) -> Any:
        if context.task.summary == "child":
            return FinalAnswer("done")
        last = context.transcript[-1]
        if context.step == 0:
            return Delegate("spawn", summary="child", instructions="Help.")
        if context.step == 1:
            return Delegate("join", child=last.observations[0].output["child"])  # type: ignore[union-attr]
        return FinalAnswer("all done")

    async with Host(traced(otel, plan, plan, plan), observer=otel) as host:
        parent = await host.run(new_task())
    runs = {attributes(run)["agentic_kernel.task.id"]: run for run in telemetry.spans("invoke")}
    above_all = runs.pop(parent.id)
    (child,) = runs.values()
    assert child.parent is None
    assert trace_of(child) != trace_of(above_all)
    (link,) = child.links
    assert link.context.span_id == id_of(above_all)
    assert dict(link.attributes or {}) == {"agentic_kernel.link": "parent"}


async def test_what_runs_in_a_call_is_in_the_span_of_the_call(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    otel, seen = telemetry.observer(), {}

    def here(name: str) -> None:
        seen[name] = trace.get_current_span().get_span_context().span_id

    @tool(effect="none", inline=True)
    def first(number: int) -> int:
        """One of two."""
        here(f"first {number}")
        return number

    def planning(context: Context) -> Any:
        here(f"plan {context.step}")
        if context.step == 0:
            return [ToolCall("first", {"number": 1}), ToolCall("first", {"number": 2})]
        return FinalAnswer(None)

    class Between:
        async def authorize(self, action: Action, context: Context) -> Decision:
            here("policy")
            return ALLOW

    planner = ScriptedPlanner(planning, planning)
    loop = Loop(planner, [first], Between(), middleware=[otel.middleware])
    async with Host(otel.traced(loop), observer=otel) as host:
        await host.run(new_task())
    chats = [id_of(chat) for chat in telemetry.spans("chat")]
    tools = {id_of(call) for call in telemetry.spans("execute_tool")}
    assert [seen["plan 0"], seen["plan 1"]] == chats
    assert {seen["first 1"], seen["first 2"]} == tools
    assert seen["policy"] == id_of(telemetry.span("invoke_agent"))


async def test_a_tool_that_fails_and_a_run_that_fails_say_so(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    otel = telemetry.observer()
    loop = traced(
        otel, ToolCall("pay", {"number": -1}), PlannerError("acme/overloaded", "come back later")
    )
    async with Host(loop, observer=otel) as host:
        await host.run(new_task())
    called, run = telemetry.span("execute_tool"), telemetry.span("invoke_agent")
    assert attributes(called)["error.type"] == "handler_error"
    assert called.status.status_code is StatusCode.ERROR
    assert attributes(run)["error.type"] == "acme/overloaded"
    assert run.status.status_code is StatusCode.ERROR
    assert run.status.description is None
    assert attributes(telemetry.spans("chat")[1])["error.type"] == "acme/overloaded"
    assert attributes(telemetry.spans("plan")[1])["error.type"] == "acme/overloaded"


async def test_a_substrate_that_is_no_loop_is_one_span(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    class Failing:
        async def execute(self, job: Job) -> Any:
            raise TaskFailed("acme/broken", "no luck")

    otel = telemetry.observer()
    async with Host(Failing(), observer=otel) as host:
        await host.run(new_task())
    (run,) = telemetry.spans()
    assert run.name == "invoke_agent"
    assert attributes(run)["error.type"] == "acme/broken"


async def test_a_kill_ends_every_open_span(telemetry: Telemetry, new_task: NewTask) -> None:
    otel, reached = telemetry.observer(), _Reached()
    async with Host(traced(otel, reached.planning()), observer=otel) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        await reached.event.wait()
        await host.kill(id)
    run, chat = telemetry.span("invoke_agent"), telemetry.span("chat")
    assert attributes(run)["agentic_kernel.task.status"] == "cancelled"
    assert attributes(chat)["agentic_kernel.unfinished"] is True
    assert attributes(telemetry.span("plan"))["agentic_kernel.unfinished"] is True
    assert run.status.status_code is StatusCode.UNSET


async def test_a_run_whose_task_was_ended_by_another_host_ends_as_well(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    otel, reached, store = telemetry.observer(), _Reached(), MemoryStore()
    loop = traced(otel, reached.planning())
    async with Host(loop, store, observer=otel, interval=0.01) as host, Host(store=store) as other:
        id = (await host.dispatch(new_task())).snapshot.id
        await reached.event.wait()
        await other.fail(id, Failure("acme/enough", "it takes too long"))
        await host.wait(id)
    assert attributes(telemetry.span("invoke_agent"))["agentic_kernel.task.status"] == "lost"


async def test_a_run_that_another_host_takes_up_is_the_next_part(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    store, one, two = MemoryStore(), telemetry.observer(), telemetry.observer()

    class Patient:
        """Works until its Host leaves, and is done where it is taken up."""

        begun = asyncio.Event()

        async def execute(self, job: Job) -> Any:
            if job.state is not None:
                return "done"
            self.begun.set()
            while True:
                await job.news()
                await job.checkpoint({"left": True})

    async with Host(one.traced(Patient()), store, observer=one, grace=30) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        await Patient.begun.wait()
    async with Host(two.traced(Patient()), store, observer=two, interval=0.01) as host:
        await host.wait(id)
    first, second = telemetry.spans("invoke_agent")
    assert attributes(first)["agentic_kernel.task.status"] == "running"
    assert attributes(second)["agentic_kernel.task.status"] == "success"
    assert [link.context.span_id for link in second.links] == [id_of(first)]


async def test_what_is_asked_of_a_run_before_it_is_entered_takes_nothing_from_it(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    otel = telemetry.observer()
    task = new_task(agent_name="shop/clerk", metadata={TRACEPARENT: f"00-{'a' * 32}-{'b' * 16}-01"})
    async with Host(traced(otel, FinalAnswer(1)), observer=otel) as host:
        otel.observe(task.id, Event("task.dispatched", {"by": f"{host.name}:1"}))
        otel.observe(task.id, Event("task.pause_requested", {"by": host.name}))
        await host.run(task)
    run = telemetry.span("invoke_agent")
    assert run.name == "invoke_agent shop/clerk"
    assert f"{above(run):016x}" == "b" * 16


async def test_a_control_plane_makes_no_span(telemetry: Telemetry, new_task: NewTask) -> None:
    store, otel = MemoryStore(), telemetry.observer()
    loop = Loop(ScriptedPlanner(ToolCall("pay", {"number": 1})), [pay], PayingIsAsked())
    async with Host(loop, store) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        await host.wait(id, TaskStatus.PAUSED)
    async with Host(store=store, observer=otel) as other:
        await other.resume(id)
        await other.pause(id)
        await other.kill(id)
    assert telemetry.spans() == []
    statuses = {labels["agentic_kernel.task.status"] for labels, _ in
                telemetry.points("agentic_kernel.tasks")}  # fmt: skip
    assert statuses == {"running", "paused", "cancelled"}


class _Reached:
    """Says when a model is being asked, and then never answers."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self._never = asyncio.Event()

    async def _hold(self) -> None:
        self.event.set()
        await self._never.wait()

    def planning(self) -> Streamed:
        return Streamed("never", plan=FinalAnswer(None), pause=self._hold)
