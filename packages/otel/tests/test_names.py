"""The names of a run's Agent and of the model that it asks, on spans and metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, InMemoryObserver, Loop, MemoryStore, tool
from agentic_kernel_engine.loop import (
    AskUser,
    Context,
    FinalAnswer,
    Plan,
    PlannerError,
    ToolCall,
    Usage,
)
from agentic_kernel_engine.seams import ScriptedPlanner
from agentic_kernel_engine.seams.middlewares import Fallback, Retry

from .conftest import Telemetry, attributes

NewTask = Callable[..., Task]
MODEL = "gen_ai.request.model"
AGENT = "gen_ai.agent.name"


class Named(ScriptedPlanner):
    """A planner that tells which model it asks."""

    model = "m"


@tool(effect="none")
def look() -> int:
    """Look."""
    return 1


def answer(action: Any, model: str = "m-2026") -> Plan:
    return Plan((action,), usage=Usage(10, 2), model=model)


@pytest.mark.parametrize("alone", [True, False], ids=["observer alone", "with middleware"])
async def test_spans_and_metrics_name_the_agent_and_the_model_that_was_asked(
    telemetry: Telemetry, new_task: NewTask, alone: bool
) -> None:
    otel = telemetry.observer()
    planner = Named(answer(ToolCall("look")), answer(FinalAnswer("done")))
    loop = Loop(planner, [look], middleware=[] if alone else [otel.middleware])
    async with Host(loop, observer=otel) as host:
        await host.run(new_task(agent_name="shop/clerk"))
    assert sorted(span.name for span in telemetry.spans()) == [
        "chat m", "chat m", "execute_tool look", "invoke_agent shop/clerk", "plan shop/clerk",
        "plan shop/clerk",
    ]  # fmt: skip
    for span in telemetry.spans():
        told = attributes(span)
        assert told.get(AGENT) == (None if span.name == "chat m" else "shop/clerk")
        assert told.get(MODEL) == ("m" if span.name == "chat m" else None)
    assert {attributes(span)["gen_ai.response.model"] for span in telemetry.spans("chat")} == {
        "m-2026"
    }
    for metric in ("gen_ai.client.token.usage", "gen_ai.client.operation.duration"):
        assert {labels[MODEL] for labels, _ in telemetry.points(metric)} == {"m"}
    ((labels, _),) = telemetry.points("gen_ai.invoke_agent.duration")
    assert labels[AGENT] == "shop/clerk"


async def test_a_run_that_goes_on_with_another_observer_names_them_too(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    store, task = MemoryStore(), new_task(agent_name="shop/clerk")
    async with Host(Loop(Named(AskUser("Which?"))), store) as host:
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
    planner = Named(None, answer(FinalAnswer("done")))
    async with Host(Loop(planner), store, observer=telemetry.observer()) as host:
        await host.resume(task.id)
        assert (await host.wait(task.id)).result == "done"
    assert attributes(telemetry.span("invoke_agent shop/clerk"))[AGENT] == "shop/clerk"
    assert attributes(telemetry.span("chat m"))[MODEL] == "m"


@pytest.mark.parametrize("alone", [True, False], ids=["observer alone", "with middleware"])
async def test_the_answer_of_a_fallback_does_not_name_the_model_of_the_first_planner(
    telemetry: Telemetry, new_task: NewTask, alone: bool
) -> None:
    class Other(Named):
        model = "other"

    otel = telemetry.observer()
    busy = PlannerError("acme/busy", "busy")
    planner = Named(busy, answer(FinalAnswer("done")))
    other = Other(answer(ToolCall("look"), "other-2026"))
    middleware: list[Any] = [Fallback(other)]
    loop = Loop(planner, [look], middleware=[*middleware, *([] if alone else [otel.middleware])])
    async with Host(loop, observer=otel) as host:
        assert (await host.run(new_task())).result == "done"
    # No event names the planner of a fallback; the middleware sees it.
    first, second = telemetry.spans("chat")
    assert first.name == ("chat other-2026" if alone else "chat other")
    assert attributes(first).get(MODEL) == (None if alone else "other")
    assert (second.name, attributes(second)[MODEL]) == ("chat m", "m")


async def test_a_call_that_is_made_again_asks_the_same_model(
    telemetry: Telemetry, new_task: NewTask
) -> None:
    class Faltering:
        model = "m"

        async def plan(self, context: Context) -> Plan:
            if not context.failures:
                raise PlannerError("acme/busy", "busy")
            return answer(FinalAnswer("done"))

    retry = Retry(["acme/busy"], times=1, first=0, longest=0)
    async with Host(Loop(Faltering(), middleware=[retry]), observer=telemetry.observer()) as host:
        assert (await host.run(new_task())).result == "done"
    assert attributes(telemetry.span("chat m"))[MODEL] == "m"


async def test_what_is_told_of_a_run_is_not_stored_and_not_told_without_a_name(
    new_task: NewTask,
) -> None:
    for planner, agent, data in (
        (Named(FinalAnswer(1)), "shop/clerk", {"agent": "shop/clerk", "model": "m"}),
        (Named(FinalAnswer(1)), None, {"model": "m"}),
        (ScriptedPlanner(FinalAnswer(1)), "shop/clerk", {"agent": "shop/clerk"}),
        (ScriptedPlanner(FinalAnswer(1)), None, None),
    ):
        seen = InMemoryObserver()
        async with Host(Loop(planner), observer=seen) as host:
            task = await host.run(new_task(agent_name=agent))
            stored = [event.type async for event in host.stream(task.id)]
        begun = [event for _, event in seen.events if event.type == "run.begun"]
        assert [dict(event.data) for event in begun] == ([] if data is None else [data])
        assert {event.id for event in begun} <= {None}
        assert "run.begun" not in stored
