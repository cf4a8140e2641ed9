"""What the global options said, and what follows from it for every command."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import platformdirs
import typer

from agentic_kernel import InvalidValue, Task
from agentic_kernel_engine import Host

from . import rendering
from .agents import open_runtime
from .database import Database, is_address
from .grants import Grant, Grants, NotGranted, Wish
from .place import Folder, Place
from .running import Foreground, check_served
from .stop import READER_GONE, Stop
from .streaming import JsonScreen, Screen, TextScreen
from .text import label

T = TypeVar("T")


def place_of(state: str | None) -> Place:
    """The place that ``--state`` names: an address, a folder, or the user's own folder.

    Raises:
        InvalidValue: It names none.
    """
    if state is None:
        return Folder(Path(platformdirs.user_data_dir("agentic-kernel")))
    if is_address(state):
        return Database(state)
    if not state:
        raise InvalidValue("--state", "is empty; name a folder or a postgresql:// URL")
    return Folder(Path(state), named=True)


@dataclass(frozen=True)
class Invocation:
    """One use of the command."""

    place: Place
    as_json: bool

    def screen(self, stop: Stop) -> Screen:
        """Where Tasks are shown; an output that nobody reads asks for a stop."""
        closed = partial(stop.wish, READER_GONE)
        return JsonScreen(closed) if self.as_json else TextScreen(self.place, closed)

    def foreground(self, grants: Grants) -> Foreground:
        """How Tasks are run: in this process, and with what each of them is granted."""
        return Foreground(self.screen, partial(open_runtime, self.place, grants))

    def granted(self, task: Task, grant: Grant, *, named: bool = True) -> dict[str, Grant]:
        """What a stored Task may use: what the flags grant, or what the person here confirms.

        Args:
            named: Whether the person named this Task. If so, the person is asked about what the
                flags do not grant, and ``--model`` may be another one than the Task asks for.

        Raises:
            NotGranted: It asks for more, and no person confirms it.
            CannotStart: It asks for what is malformed, or this command does not run its kind.
        """
        check_served(task)
        wish = Wish.of(task)
        if grant.covers(wish) and (named or wish.model in (None, grant.model_of(wish))):
            return {task.id: grant}
        if named and sys.stdin.isatty():
            for line in wish.lines():
                typer.echo(f"{label(task.id)} asks for {line}", err=True)
            if typer.confirm("Grant it?", err=True):
                return {task.id: grant.confirmed(wish)}
        raise NotGranted(task.id, wish)

    def controlled(self, work: Callable[[Host], Awaitable[T]]) -> T:
        """Do something that needs no model, and never loads one."""

        async def controlling() -> T:
            async with self.place.opened() as store:
                # Not entered: a Host joins its store, and so writes, only when a verb needs it.
                host = Host(store=store)
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
