"""A remote step whose time is over ends as its Task has ended, not as the clock says."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
from msgspec.structs import replace

from agentic_kernel import TaskStatus
from agentic_kernel_engine import MemoryStore
from agentic_kernel_server.server import Server

from .serving import QUICK, serving

SETTINGS = replace(QUICK, agent_timeout=1_000.0, step_timeout=100.0)


async def events(response: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    """The events of a stream, each a type and its data."""
    kind = ""
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            kind = line[7:]
        elif line.startswith("data: "):
            yield kind, json.loads(line[6:])


async def following(told: AsyncIterator[tuple[str, Any]], wanted: str) -> Any:
    async for kind, data in told:
        if kind == wanted:
            return data
    raise AssertionError(f"the stream ended before {wanted}")


class World:
    """A client whose agent has asked for a remote step, and whose runner has got it."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.stack = stack
        self.http = httpx.AsyncClient(timeout=30)

    async def stream(self, url: str) -> AsyncIterator[tuple[str, Any]]:
        return events(await self.stack.enter_async_context(self.http.stream("GET", url)))

    async def post(self, url: str, body: Any) -> Any:
        answer = await self.http.post(url, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    async def begun(self, agent: str, runner: str) -> tuple[dict[str, str], Any]:
        """The ids of the session, and the job that the runner has got."""
        told = await self.stream(f"{agent}/v0/agents/stream?agent_id=swe&consumer_id=c")
        path = "/v0/runners/stream?runner_id=r&consumer_id=c&capabilities=far.*"
        jobs = await self.stream(runner + path)
        await self.post(f"{agent}/v0/executions", {"agent_id": "swe", "input": 1})
        given = await following(told, "execution.assigned")
        ids = {key: given[key] for key in ("execution_id", "session_id")}
        intent = {"type": "invoke_tool", "tool_id": "far.pay", "remote": True, "arguments": {}}
        await self.post(f"{agent}/v0/agents/intent", {**ids, "intent": intent})
        return ids, await following(jobs, "job.assigned")

    async def report(self, runner: str, job: Any) -> None:
        done = {"job_id": job["id"], "success": True, "data": "paid"}
        done |= {key: job[key] for key in ("execution_id", "step_id")}
        await self.post(f"{runner}/v0/runners/r/results", done)


def later(server: Server, seconds: float) -> None:
    """Let the server's clock go on."""
    server.parts.now = lambda: time.time() + seconds  # type: ignore[method-assign]


async def test_a_result_that_came_while_no_process_had_the_execution_is_its_steps_end() -> None:
    store = MemoryStore()
    async with AsyncExitStack() as stack:
        two, second = await stack.enter_async_context(serving(store, SETTINGS))
        async with AsyncExitStack() as first:
            one, _ = await first.enter_async_context(serving(store, SETTINGS))
            world = World(stack)
            await stack.enter_async_context(world.http)
            ids, job = await world.begun(one, two)
        await world.report(two, job)
        later(second, 200.0)
        told = await world.stream(f"{two}/v0/agents/stream?agent_id=swe&consumer_id=c")
        said = await following(told, "tool.result")
        assert (said["status"], said["result"]) == ("succeeded", "paid")
        listed = await world.http.get(f"{two}/v0/executions/{ids['execution_id']}/events")
        kinds = [each["type"] for each in listed.json()["events"]]
        assert "step.timed_out" not in kinds


async def test_a_step_without_a_result_times_out_with_its_task() -> None:
    store = MemoryStore()
    async with AsyncExitStack() as stack:
        two, second = await stack.enter_async_context(serving(store, SETTINGS))
        async with AsyncExitStack() as first:
            one, _ = await first.enter_async_context(serving(store, SETTINGS))
            world = World(stack)
            await stack.enter_async_context(world.http)
            _, job = await world.begun(one, two)
        later(second, 200.0)
        told = await world.stream(f"{two}/v0/agents/stream?agent_id=swe&consumer_id=c")
        said = await following(told, "tool.result")
        assert said["status"] == "failed"
        assert "deadline" in said["error"]
        ended = await store.load(job["step_id"])
        assert ended.task.status in (TaskStatus.FAILURE, TaskStatus.CANCELLED)
        done = {"job_id": job["id"], "success": True, "data": "paid"}
        late = await world.http.post(f"{two}/v0/runners/r/results", json={**done, **job, "data": 1})
        assert late.status_code == 409
