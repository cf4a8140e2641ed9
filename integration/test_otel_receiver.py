"""Spans, metrics and logs of a run reach a receiver of the official services, over both wires."""

from __future__ import annotations

import asyncio

import pytest

from agentic_kernel import Task
from agentic_kernel_engine import Host, Loop, tool
from agentic_kernel_engine.loop import Plan, PlannerError, ToolCall, Usage
from agentic_kernel_engine.seams import ScriptedPlanner
from agentic_kernel_otel import OTelObserver

from .otel_receiver import Receiver, Wire
from .otel_worker import Telemetry


@tool(effect="none")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def _run(otel: OTelObserver) -> None:
    planner = ScriptedPlanner(
        Plan((ToolCall("add", {"a": 1, "b": 2}),), usage=Usage(10, 2), model="scripted-1"),
        PlannerError("scripted/broken", "the model is gone"),
    )
    loop = Loop(planner, [add], middleware=[otel.middleware])
    task = Task.new(id="sum", summary="", instructions="Add.", runtime_kind="loop")
    async with Host(otel.traced(loop), observer=otel) as host:
        await host.run(task)


@pytest.mark.parametrize("wire", ["http", "grpc"])
def test_a_run_arrives(wire: Wire) -> None:
    with Receiver.over(wire) as receiver:
        telemetry = Telemetry(wire, receiver.endpoint)
        asyncio.run(_run(telemetry.observer()))
        telemetry.close()
        receiver.wait(lambda arrived: len(arrived.spans) >= 6 and arrived.logs and arrived.metrics)
    spans = {span.id: span for span in receiver.spans}
    shape = [(span.name, getattr(spans.get(span.parent), "name", None)) for span in spans.values()]
    assert sorted(shape, key=str) == sorted(
        [
            ("invoke_agent", None),
            ("plan", "invoke_agent"),
            ("chat scripted-1", "plan"),
            ("execute_tool add", "invoke_agent"),
            ("plan", "invoke_agent"),
            ("chat", "plan"),
        ],
        key=str,
    )
    assert len({span.trace for span in spans.values()}) == 1
    (run,) = [span for span in spans.values() if span.name == "invoke_agent"]
    assert run.error
    assert run.attributes["error.type"] == "scripted/broken"
    (failed,) = [log for log in receiver.logs if log.name == "agentic_kernel.task.failed"]
    assert (failed.trace, failed.span) == (run.trace, run.id)
    assert set(receiver.metrics) == {
        "agentic_kernel.failures",
        "agentic_kernel.tasks",
        "agentic_kernel.tasks.running",
        "gen_ai.client.operation.duration",
        "gen_ai.client.token.usage",
        "gen_ai.execute_tool.duration",
        "gen_ai.invoke_agent.duration",
    }
