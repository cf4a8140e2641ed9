"""Chats: the spans of a model's answers, in pieces, cut short, or not asked for at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Loop
from agentic_kernel_engine.loop import Context, FinalAnswer, Plan
from agentic_kernel_engine.seams import ScriptedPlanner, Streamed

from .conftest import Telemetry, attributes

NewTask = Callable[..., Task]


async def test_an_answer_in_pieces_says_when_its_first_one_came(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    otel = telemetry.observer()
    planner = ScriptedPlanner(Streamed("He", "llo", plan=FinalAnswer("Hello")))
    loop = Loop(planner, middleware=[otel.middleware])
    async with Host(otel.traced(loop), observer=otel) as host:
        await host.run(new_task())
    chat = telemetry.span("chat")
    assert attributes(chat)["gen_ai.request.stream"] is True
    first = attributes(chat)["gen_ai.response.time_to_first_chunk"]
    assert chat.start_time is not None
    assert chat.end_time is not None
    assert 0 <= first <= (chat.end_time - chat.start_time) / 1e9
    ((_, recorded),) = telemetry.points("gen_ai.client.operation.time_to_first_chunk")
    assert recorded == first


@pytest.mark.parametrize("alone", [True, False], ids=["observer alone", "with middleware"])
async def test_an_answer_that_a_pause_cuts_is_a_chat_that_is_not_finished(
    telemetry: Telemetry, new_task: NewTask, alone: bool
) -> None:
    otel, task = telemetry.observer(), new_task()

    async def pause() -> None:
        await host.pause(task.id)

    planner = ScriptedPlanner(Streamed("Hel", "lo", plan=FinalAnswer("Hello"), pause=pause))
    loop = Loop(planner, middleware=[] if alone else [otel.middleware])
    async with Host(loop, observer=otel) as host:
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
    chat = attributes(telemetry.span("chat"))
    assert chat["agentic_kernel.unfinished"] is True
    assert chat["gen_ai.request.stream"] is True
    assert attributes(telemetry.span("plan"))["agentic_kernel.unfinished"] is True
    assert "agentic_kernel.run.cut" in [e.name for e in telemetry.span("invoke_agent").events]


async def test_an_answer_of_middleware_is_no_chat(telemetry: Telemetry, new_task: NewTask) -> None:
    class Cached:
        async def before_model(self, context: Context) -> None:
            context.response = Plan((FinalAnswer("known"),))

    otel = telemetry.observer()
    loop = Loop(ScriptedPlanner(), middleware=[Cached(), otel.middleware])
    async with Host(otel.traced(loop), observer=otel) as host:
        await host.run(new_task())
    assert [span.name for span in telemetry.spans()] == ["invoke_agent", "plan"]
