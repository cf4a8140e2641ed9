"""A value that cannot be stored is refused at the door of every call, and ends nothing."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine import MemoryStore
from agentic_kernel_server import wire
from agentic_kernel_server.routes import ROUTES

from .serving import serving
from .test_late_ends import World, following


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


BAD = {
    "NUL": {"a": "x\0y"},
    "NUL in a key": {"a\0b": 1},
    "a large number": 10**40,
    "too deep": nested(wire.LEVELS + 1),
}
CARRIERS: dict[str, tuple[type[msgspec.Struct], dict[str, Any]]] = {
    "input": (wire.CreateExecution, {"agent_id": "a"}),
    "payload": (wire.SignalBody, {"signal_type": "s"}),
    "arguments": (wire.IntentBody, {"type": "invoke_tool"}),
    "output": (wire.IntentBody, {"type": "complete"}),
    "data": (wire.StepResultBody,
             {"execution_id": "e", "session_id": "s", "step_id": "x", "success": True}),
}  # fmt: skip


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
@pytest.mark.parametrize("field", CARRIERS)
def test_a_value_that_cannot_be_stored_is_named(field: str, value: Any) -> None:
    kind, more = CARRIERS[field]
    body = msgspec.convert({**more, field: value}, kind)
    with pytest.raises(InvalidValue, match=field):
        wire.check_body(body)


@pytest.mark.parametrize("field", CARRIERS)
def test_the_deepest_value_passes(field: str) -> None:
    kind, more = CARRIERS[field]
    wire.check_body(msgspec.convert({**more, field: nested(wire.LEVELS)}, kind))


BODIES = sorted(
    {each.body for each in ROUTES if each.body is not None} | {wire.IntentBody},
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
def test_every_field_of_a_body_that_takes_any_value_is_checked(kind: type[Any]) -> None:
    fields = msgspec.structs.fields(kind)
    given = {each.name: "x" if each.type is str else True for each in fields if each.required}
    for each in fields:
        if each.type is Any:
            with pytest.raises(InvalidValue, match=each.name):
                wire.check_body(kind(**{**given, each.name: "\0"}))


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
async def test_a_bad_value_ends_neither_an_execution_nor_a_step(value: Any) -> None:
    async with AsyncExitStack() as stack:
        url, _ = await stack.enter_async_context(serving(MemoryStore()))
        world = World(stack)
        await stack.enter_async_context(world.http)

        async def refused(path: str, body: Any) -> None:
            answer = await world.http.post(url + path, json=body)
            assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")

        ids, job = await world.begun(url, url)
        id = ids["execution_id"]
        result = {"job_id": job["id"], "success": True, "data": value}
        result |= {key: job[key] for key in ("execution_id", "step_id")}
        await refused("/v0/executions", {"agent_id": "swe", "input": value})
        await refused(f"/v0/executions/{id}/signal", {"signal_type": "s", "payload": value})
        await refused("/v0/runners/r/results", result)
        for intent in (
            {"type": "invoke_tool", "tool_id": "t", "arguments": value},
            {"type": "complete", "output": value},
        ):
            await refused("/v0/agents/intent", {**ids, "intent": intent})
        await world.report(url, job)
        intent = {"type": "invoke_tool", "tool_id": "t", "arguments": 1}
        made = await world.post(f"{url}/v0/agents/intent", {**ids, "intent": intent})
        step = {**ids, "step_id": made["step_id"], "success": True}
        await refused("/v0/agents/step-result", {**step, "data": value})
        await world.post(f"{url}/v0/agents/step-result", {**step, "data": nested(wire.LEVELS)})
        deepest = {"type": "complete", "output": nested(wire.LEVELS)}
        await world.post(f"{url}/v0/agents/intent", {**ids, "intent": deepest})
        shown = (await world.http.get(f"{url}/v0/executions/{id}")).json()
        assert (shown["status"], shown["output"]) == ("completed", nested(wire.LEVELS))


async def test_the_deepest_result_of_a_runner_reaches_the_agent() -> None:
    async with AsyncExitStack() as stack:
        url, _ = await stack.enter_async_context(serving(MemoryStore()))
        world = World(stack)
        await stack.enter_async_context(world.http)
        told = await world.stream(f"{url}/v0/agents/stream?agent_id=deep&consumer_id=c")
        jobs = await world.stream(
            f"{url}/v0/runners/stream?runner_id=d&consumer_id=c&capabilities=far.*"
        )
        await world.post(f"{url}/v0/executions", {"agent_id": "deep", "input": nested(wire.LEVELS)})
        given = await following(told, "execution.assigned")
        assert given["input"] == nested(wire.LEVELS)
        ids = {key: given[key] for key in ("execution_id", "session_id")}
        intent = {"type": "invoke_tool", "tool_id": "far.x", "remote": True}
        intent["arguments"] = nested(wire.LEVELS)
        await world.post(f"{url}/v0/agents/intent", {**ids, "intent": intent})
        job = await following(jobs, "job.assigned")
        done = {"job_id": job["id"], "success": True, "data": nested(wire.LEVELS)}
        done |= {key: job[key] for key in ("execution_id", "step_id")}
        await world.post(f"{url}/v0/runners/d/results", done)
        assert (await following(told, "tool.result"))["result"] == nested(wire.LEVELS)


async def test_a_failure_is_recorded_whatever_its_text_holds() -> None:
    async with AsyncExitStack() as stack:
        url, _ = await stack.enter_async_context(serving(MemoryStore()))
        world = World(stack)
        await stack.enter_async_context(world.http)
        ids, job = await world.begun(url, url)
        failed = {"job_id": job["id"], "success": False, "error": "a\0b"}
        failed |= {key: job[key] for key in ("execution_id", "step_id")}
        await world.post(f"{url}/v0/runners/r/results", failed)
        intent = {"type": "fail", "error": "c\0d"}
        await world.post(f"{url}/v0/agents/intent", {**ids, "intent": intent})
        path = f"{url}/v0/executions/{ids['execution_id']}/events"
        listed = (await world.http.get(path)).json()["events"]
        texts = [each["payload"].get("error", "") for each in listed]
        assert [each for each in texts if each] == ["a\ufffdb", "c\ufffdd"]
