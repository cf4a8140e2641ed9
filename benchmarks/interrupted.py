"""Kills and pauses in the middle of an answer: when it has begun, and the slowest of many."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from figure import Figure

from agentic_kernel import Task
from agentic_kernel_engine import Event, Host
from agentic_kernel_engine.events import RUN_DELTA


class Pieces:
    """An observer that notices the first piece of an answer."""

    def __init__(self) -> None:
        self._first = asyncio.Event()

    def observe(self, task_id: str, event: Event) -> None:
        if event.type == RUN_DELTA:
            self._first.set()

    async def begun(self, host: Host, task: Task) -> None:
        """Dispatch a Task, and wait until its answer has begun."""
        self._first.clear()
        await host.dispatch(task)
        await self._first.wait()


def p99(seconds: Sequence[float]) -> float:
    """What 99 in 100 stay within; of a hundred or fewer, the longest."""
    return sorted(seconds)[int(len(seconds) * 0.99)]


def slowest(name: str, seconds: Sequence[float], bar: float, limit_is: str = "") -> Figure:
    """The figure of their p99 in milliseconds, beside the fastest of them."""
    return Figure(
        name=name, ours=p99(seconds) * 1e3, unit="ms", limit=min(seconds) * 1e3, bar=bar,
        limit_is=limit_is or "the fastest of them",
    )  # fmt: skip
