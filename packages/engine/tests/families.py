"""Shared by tests of families: chains of Tasks whose last one asks people, and the requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Loop, MemoryStore, Store
from agentic_kernel_engine.plans.action import AskUser, FinalAnswer, ToolCall
from agentic_kernel_engine.plans.transcript import UserMessage
from agentic_kernel_engine.seams.planner import Context

from .approving import AskForWrites, write
from .crashing import Line
from .delegating import Roles, join, last, spawn, told
from .scripting import World


def heard(context: Context) -> FinalAnswer:
    """The final answer is what people said."""
    return FinalAnswer([e.text for e in context.transcript[1:] if isinstance(e, UserMessage)])


LEAVES: dict[str, list[Any]] = {
    "writes": [write("a"), told],
    "writes twice": [write("a"), write("b"), FinalAnswer("both")],
    "writes a batch": [[write("a"), write("b")], FinalAnswer("both")],
    "asks": [AskUser("which?"), heard],
    "asks twice": [AskUser("which?"), AskUser("and then?"), heard],
}


class Family:
    """A chain of Tasks, each of which gives its work to the next and returns what came of it.

    Args:
        way: ``spawn``, on one Host; or ``tool``, on a Host of its own for each.
        depth: How many Tasks are above the one that works.
    """

    def __init__(self, way: str, depth: int, world: World, store: Store | None = None) -> None:
        self.store = store or MemoryStore()
        self._way = way
        self._depth = depth
        self._world = world

    @asynccontextmanager
    async def hosts(self) -> AsyncIterator[list[Host]]:
        """The Hosts, the root's first; each can crash."""
        async with AsyncExitStack() as stack:
            if self._way == "spawn":
                yield [await stack.enter_async_context(self._one())]
                return
            hosts: list[Host] = []
            for level in reversed(range(self._depth + 1)):
                below = [hosts[-1].as_tool(name="below", description="")] if hosts else []
                planner = Roles(**LEAVES) if not hosts else Calling()
                loop = Loop(planner, [*self._world.tools(), *below], AskForWrites())
                kinds = ["loop" if level == 0 else f"level{level}"]
                made = Host(loop, Line(self.store), runtime_kinds=kinds, grace=0, interval=0.01)
                hosts.append(await stack.enter_async_context(made))
            yield hosts[::-1]

    def _one(self) -> Host:
        loop = Loop(Spawning(self._depth), self._world.tools(), AskForWrites())
        return Host(loop, Line(self.store), grace=0, interval=0.01)

    async def tasks(self) -> list[Task]:
        """All Tasks, the root first."""
        found = [record.task for record in await self.store.find()]
        return sorted(found, key=lambda task: task.metadata.get("engine/depth", 0))


class Calling:
    """A planner that has a tool do it all."""

    async def plan(self, context: Context) -> Any:
        if context.step == 0:
            return ToolCall("below", {"instructions": context.task.instructions})
        return FinalAnswer(last(context)[0].output)


class Spawning:
    """A planner that has a child do it all, down to the lowest."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._leaf = Roles(**LEAVES)

    async def plan(self, context: Context) -> Any:
        if context.task.metadata.get("engine/depth", 0) == self._depth:
            return await self._leaf.plan(context)
        match context.step:
            case 0:
                return spawn(context.task.instructions)
            case 1:
                return join(context)
        output = last(context)[0].output
        return FinalAnswer(output.get("result", output))


WAYS = pytest.mark.parametrize("way", ["spawn", "tool"])
DEPTHS = pytest.mark.parametrize("depth", [1, 3])


async def asks(host: Host, task: Task, digests: set[str] | None = None) -> Any:
    """The requests of the Task, once they are new."""
    async with asyncio.timeout(30):
        async for _ in host.stream(task.id):
            now = await host.get(task.id)
            note: Any = now.metadata.get("engine/waiting_for")
            if now.status is TaskStatus.PAUSED and note is not None:
                found = {each["digest"] for each in note.get("requests", [note])}
                if found - (digests or set()):
                    return note
    raise AssertionError(await host.get(task.id))


async def ignored(host: Host, task: Task) -> list[str]:
    """Whose decisions came to nothing."""
    events = (await host.outcome(task.id)).events
    return [event.data["by"] for event in events if event.type == "approval.ignored"]


def approval(digest: str, granted: bool) -> dict[str, Any]:
    return {"type": "engine/approval", "digest": digest, "granted": granted, "by": "", "why": ""}
