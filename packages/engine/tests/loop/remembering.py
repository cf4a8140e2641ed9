"""Shared by the tests of remembering: a session, planners that look, memories that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agentic_kernel import Task
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.principal import Principal
from agentic_kernel_engine.seams.memories import InMemoryMemory
from agentic_kernel_engine.seams.memory import Hit, Item, Query, Scope
from agentic_kernel_engine.seams.memory_governor import SessionMemoryGovernor
from agentic_kernel_engine.seams.planner import Context

from ..scripting import Runner, new_task

ANN = Principal("ann", "acme")
MONDAY = Scope("acme", "ann", "monday")
ADD = ToolCall("add", {"a": 1, "b": 2})


def in_session(name: str = "monday", instructions: str = "do it") -> Task:
    return new_task(instructions=instructions, metadata={"engine/session": name})


async def run(runner: Runner, task: Task, *script: Any, **options: Any) -> Task:
    options.setdefault("principal", ANN)
    async with runner.host(*script, **options) as host:
        return await host.run(task)


async def said(runner: Runner, task: Task, type: str) -> list[Any]:
    return [event.data for event in await runner.events(task) if event.type == type]


class Seen:
    """A rule of a planner that keeps what it was shown."""

    def __init__(self, *answers: Any) -> None:
        self.memories: list[list[str]] = []
        self._answers = answers or (FinalAnswer("done"),)

    async def plan(self, context: Context) -> Any:
        self.memories.append(list(context.memories))
        return self._answers[min(context.step, len(self._answers) - 1)]


class Governing(SessionMemoryGovernor):
    """Proposes what a test says, at every step."""

    def __init__(self, *proposals: Any, of_end: Any = ()) -> None:
        super().__init__()
        self._step: Any = proposals
        self._end = of_end

    async def of_step(self, *_: Any) -> Any:
        if isinstance(self._step[0] if self._step else None, BaseException):
            raise self._step[0]
        return self._step

    async def of_end(self, *_: Any) -> Any:
        return self._end


class Asked(InMemoryMemory):
    """Keeps what was looked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def recall(self, query: Query) -> Sequence[Hit]:
        self.asked.append(query.text)
        return await super().recall(query)


class Gated(InMemoryMemory):
    """Holds up the first write of a run, before it or behind it."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self.when = when
        self.reached = asyncio.Event()
        self.held = True
        self.proposed: list[str] = []

    async def _hold(self, when: str) -> None:
        if self.held and when == self.when:
            self.reached.set()
            await asyncio.Event().wait()

    async def propose(self, item: Item) -> bool:
        self.proposed.append(item.id)
        await self._hold("before")
        new = await super().propose(item)
        await self._hold("after")
        return new


class Broken:
    """A memory whose calls fail in one way or another, as long as it is told to."""

    def __init__(self, fault: Any, *calls: str) -> None:
        self.real = InMemoryMemory()
        self.fault = fault
        self.calls = calls

    def __getattr__(self, name: str) -> Any:
        if name not in self.calls:
            return getattr(self.real, name)

        async def fail(*_: Any) -> Any:
            if isinstance(self.fault, BaseException):
                raise self.fault
            if callable(self.fault):
                return await self.fault()
            return self.fault

        return fail
