"""Runs: Tasks that the engine's Loop runs with a middleware, at the same time or alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agentic_kernel import Task
from agentic_kernel_engine import Event, Host, Loop, tool
from agentic_kernel_engine.loop import (
    Context,
    FinalAnswer,
    Plan,
    Thought,
    ToolCall,
    Turn,
    Usage,
)
from agentic_kernel_engine.seams import ToolError


async def _echo(word: str) -> str:
    """Give a word back, after a while that depends on the word."""
    for _ in range(len(word) + sum(map(ord, word)) % 5):
        await asyncio.sleep(0)
    return f"echo of {word}"


async def _fail(word: str) -> str:
    """Fail."""
    await asyncio.sleep(0)
    raise ToolError(f"{word} cannot be done", "kit_error")


class _Echoing:
    """A planner that has its Task's word echoed twice, one call of two fails, and answers."""

    def __init__(self, pause: int = 3) -> None:
        self._pause = pause

    async def plan(self, context: Context) -> Plan:
        word = context.task.instructions
        for _ in range((sum(map(ord, word)) + context.step) % self._pause):
            await asyncio.sleep(0)
        turns = [entry for entry in context.transcript if isinstance(entry, Turn)]
        used = Usage(100, 10, cost=0.01)
        if len(turns) < 2:
            calls = [
                ToolCall(name, {"word": f"{word}{len(turns)}"}, f"{name}-{len(turns)}")
                for name in ("echo", "fail")
            ]
            thought = Thought(f"{word} again")
            return Plan((thought, *calls), text=f"{word}?", reasoning="so", usage=used)
        seen = [each.output or each.error for turn in turns for each in turn.observations]
        return Plan((FinalAnswer({"word": word, "seen": seen}),), usage=used)


def _loop(middleware: Any) -> Loop:
    named = [tool(_echo, name="echo", effect="none"), tool(_fail, name="fail", effect="write")]
    given = [] if middleware is None else [middleware]
    return Loop(_Echoing(), named, middleware=given, clock=lambda: 0.0)


async def finished(middleware: Any, words: Sequence[str]) -> list[Task]:
    """Run a Task for each word, all at the same time, with one middleware; return their ends."""
    async with Host(_loop(middleware)) as host:
        return list(await asyncio.gather(*(host.run(_task(word)) for word in words)))


async def plain_events(middleware: Any, task_id: str) -> list[tuple[str, Any]]:
    """Run one Task with the middleware; return its durable events, each as type and data."""
    async with Host(_loop(middleware)) as host:
        await host.run(_task("word", task_id))
        return [(each.type, _plain(each)) async for each in host.stream(task_id) if each.id]


def _plain(event: Event) -> dict[str, Any]:
    """The data without the owner, which each Host makes anew."""
    return {name: value for name, value in event.data.items() if name != "by"}


def _task(word: str, id: str | None = None) -> Task:
    return Task.new(id=id, summary="A word", instructions=word, runtime_kind="loop")
