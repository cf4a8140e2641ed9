"""A Task whose calls end every worker is set aside; one that gets on is not."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from agentic_kernel_engine import Host, Loop, MemoryStore
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.tools.tool import Tool, tool

from ..conftest import Crash
from ..crashing import Line
from ..scripting import new_task

ATTEMPTS = 3


class Insisting:
    """A planner that calls a tool at every step, each time with other arguments."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    async def plan(self, context: Context) -> Any:
        if context.step == self._steps:
            return FinalAnswer("done")
        return ToolCall("fatal", {"n": context.step})


class World:
    """A tool that holds its worker until that is crashed, at every so many steps."""

    def __init__(self, effect: Literal["read", "write"], *, idempotent: bool, every: int) -> None:
        self._effect = effect
        self._idempotent = idempotent
        self._every = every
        self.inside = asyncio.Event()
        self.deaths = 0

    def tool(self) -> Tool:
        @tool(effect=self._effect, idempotent=self._idempotent)
        async def fatal(n: int) -> str:
            """End the worker."""
            if n % self._every == 0:
                self.inside.set()
                await asyncio.Event().wait()
            return "survived"

        return fatal


async def ended(world: World, steps: int, crash: Crash) -> Any:
    """The Task, once a worker has survived it or refused to try again."""
    store, task = MemoryStore(), new_task()
    for _ in range(100):
        loop = Loop(Insisting(steps), [world.tool()])
        host = Host(loop, Line(store), claims=False, grace=0, max_attempts=ATTEMPTS)
        await (host.claim(task.id) if world.deaths else host.dispatch(task))
        over = asyncio.ensure_future(host.wait(task.id))
        inside = asyncio.ensure_future(world.inside.wait())
        await asyncio.wait([over, inside], return_when=asyncio.FIRST_COMPLETED)
        inside.cancel()
        if over.done():
            await host.close()
            return over.result()
        over.cancel()
        world.deaths += 1
        world.inside.clear()
        await crash(host)
    raise AssertionError("the Task ends a hundred workers")


@pytest.mark.rule("R12")
@pytest.mark.parametrize(
    ("effect", "idempotent"), [("read", False), ("write", True), ("write", False)]
)
async def test_a_call_that_ends_every_worker_ends_the_task(
    effect: Literal["read", "write"], idempotent: bool, crash: Crash
) -> None:
    world = World(effect, idempotent=idempotent, every=1)
    done = await ended(world, 50, crash)
    assert done.failure is not None
    assert done.failure.code == "engine/attempts_exhausted"
    assert world.deaths == ATTEMPTS


@pytest.mark.rule("R12")
async def test_a_task_that_gets_on_between_its_crashes_is_finished(crash: Crash) -> None:
    world = World("write", idempotent=False, every=2)
    done = await ended(world, 8 * ATTEMPTS, crash)
    assert done.result == "done"
    assert world.deaths == 4 * ATTEMPTS
