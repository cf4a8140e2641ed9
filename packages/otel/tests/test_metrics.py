"""Metrics: tokens, durations, failures by code, latencies, Tasks by status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Event, EventId, Host, Job, Loop, tool
from agentic_kernel_engine.loop import Plan, PlannerError, ToolCall, Usage
from agentic_kernel_engine.seams import ScriptedPlanner
from agentic_kernel_otel.instruments import MOST_VALUES

from .conftest import Telemetry

NewTask = Callable[..., Task]


@tool(effect="none", inline=True)
def divide(by: int) -> float:
    """Divide one."""
    return 1 / by


@pytest.mark.parametrize("hooked", [True, False], ids=["with middleware", "observer alone"])
async def test_a_run_is_counted_and_timed(
    telemetry: Telemetry, new_task: NewTask, hooked: bool
) -> None:
    otel = telemetry.observer(provider="openai")
    script = (
        Plan((ToolCall("divide", {"by": 1}),), usage=Usage(100, 20), model="small"),
        Plan((ToolCall("divide", {"by": 0}),), usage=Usage(7, 3), model="small"),
        PlannerError("acme/overloaded", "later"),
    )
    middleware = [otel.middleware] if hooked else []
    loop = Loop(ScriptedPlanner(*script), [divide], middleware=middleware)
    async with Host(loop, observer=otel) as host:
        await host.run(new_task())
    chat = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai"}
    small = {**chat, "gen_ai.response.model": "small"}
    assert telemetry.points("gen_ai.client.token.usage") == [
        ({**small, "gen_ai.token.type": "input"}, 107),
        ({**small, "gen_ai.token.type": "output"}, 23),
    ]
    timed = [labels for labels, _ in telemetry.points("gen_ai.client.operation.duration")]
    assert timed == [small, {**chat, "error.type": "acme/overloaded"}]
    called = {"gen_ai.tool.name": "divide", "gen_ai.tool.type": "function"}
    tools = [labels for labels, _ in telemetry.points("gen_ai.execute_tool.duration")]
    assert tools == [called, {**called, "error.type": "handler_error"}]
    ((whole, seconds),) = telemetry.points("gen_ai.invoke_agent.duration")
    run = telemetry.span("invoke_agent")
    assert whole == {"error.type": "acme/overloaded"}
    assert seconds == pytest.approx(((run.end_time or 0) - (run.start_time or 0)) / 1e9)
    assert telemetry.points("agentic_kernel.failures") == [
        ({"gen_ai.operation.name": "execute_tool", "error.type": "handler_error"}, 1),
        ({"gen_ai.operation.name": "chat", "error.type": "acme/overloaded"}, 1),
        ({"gen_ai.operation.name": "invoke_agent", "error.type": "acme/overloaded"}, 1),
    ]
    assert telemetry.points("agentic_kernel.tasks") == [
        ({"agentic_kernel.task.status": "running"}, 1),
        ({"agentic_kernel.task.status": "failure"}, 1),
    ]


class Waiting:
    """Works from safe point to safe point until it is told to stop."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def execute(self, job: Job) -> Any:
        while True:
            self.begun.set()
            if not job.stopping:
                await job.news()
            await job.checkpoint(None)


async def test_what_runs_is_counted_and_a_pause_and_a_kill_are_timed(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    otel, substrate = telemetry.observer(), Waiting()
    async with Host(otel.traced(substrate), observer=otel) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        await substrate.begun.wait()
        assert telemetry.points("agentic_kernel.tasks.running") == [({}, 1)]
        await host.pause(id)
        await host.wait(id, TaskStatus.PAUSED)
        assert telemetry.points("agentic_kernel.tasks.running") == [({}, 0)]
        await host.resume(id)
        await host.kill(id)
    for metric in ("agentic_kernel.pause.duration", "agentic_kernel.kill.duration"):
        ((labels, seconds),) = telemetry.points(metric)
        assert labels == {}
        assert 0 <= seconds < 60
    assert telemetry.points("agentic_kernel.tasks.running") == [({}, 0)]


def test_a_pause_counts_from_its_request(telemetry: Telemetry) -> None:
    otel = telemetry.observer()
    asked = datetime.now(UTC) - timedelta(hours=1)
    otel.observe("task", Event("task.pause_requested", {"by": "host"}, asked, EventId(2, 0)))
    otel.observe("task", Event("task.paused", {"by": "other:1"}, datetime.now(UTC), EventId(3, 0)))
    ((_, seconds),) = telemetry.points("agentic_kernel.pause.duration")
    assert 3_600 <= seconds < 3_700


def test_no_label_takes_values_without_end(telemetry: Telemetry) -> None:
    otel = telemetry.observer()
    for n in range(2 * MOST_VALUES):
        failed = Event("task.failed", {"by": "host", "code": f"acme/{n}", "message": "m"})
        otel.observe(f"task {n}", failed)
    found = {labels["error.type"]: n for labels, n in telemetry.points("agentic_kernel.failures")}
    assert len(found) == MOST_VALUES + 1
    assert found["_OTHER"] == MOST_VALUES
