"""What the global options said, and what follows from it for every command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import typer

from agentic_kernel import Task
from agentic_kernel_engine import Host

from . import rendering
from .agents import open_runtime
from .place import Place
from .running import Foreground
from .stop import READER_GONE, Stop
from .streaming import JsonScreen, Screen, TextScreen
from .text import label

T = TypeVar("T")


@dataclass(frozen=True)
class Invocation:
    """One use of the command."""

    place: Place
    as_json: bool

    def screen(self, stop: Stop) -> Screen:
        """Where Tasks are shown; an output that nobody reads asks for a stop."""
        closed = partial(stop.wish, READER_GONE)
        return JsonScreen(closed) if self.as_json else TextScreen(self.place, closed)

    def foreground(self, model: str | None) -> Foreground:
        """How Tasks are run, in this process and on this model."""
        return Foreground(self.screen, partial(open_runtime, self.place.folder, model))

    def controlled(self, work: Callable[[Host], Awaitable[T]]) -> T:
        """Do something that needs no model, and never loads one."""

        async def controlling() -> T:
            # Not entered: a Host joins its store, and so writes, only when a verb needs it.
            host = self.place.open()
            try:
                return await work(host)
            finally:
                await host.close()

        return asyncio.run(controlling())

    def report(self, task: Task, outcome: str) -> None:
        """Say what became of a wish about a Task."""
        if self.as_json:
            rendering.task_line(task, outcome=outcome)
        else:
            typer.echo(f"{label(task.id)}: {outcome}")
