"""Running Tasks in the foreground: their answers are streamed, and a stop pauses them durably."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from agentic_kernel import CannotStart, IllegalTransition, Task, TaskStatus
from agentic_kernel_engine import (
    CompositeObserver,
    Event,
    EventId,
    Host,
    Observer,
    Record,
    host_of,
)
from agentic_kernel_engine.events import TASK_PAUSED

from .children import mind_children
from .grants import LeftAlone
from .kinds import names, serves, taker
from .place import history
from .plain_runtime import PlainRuntime
from .stop import Stop
from .streaming import Screen
from .text import label
from .user import check_mine, myself
from .waiting import NotAwaited

CODES: Final = {
    TaskStatus.SUCCESS: 0,
    TaskStatus.FAILURE: 1,
    TaskStatus.PAUSED: 3,
    TaskStatus.CANCELLED: 4,
}
"""The exit code for a Task's status at the end; for several Tasks, 1 before 4 before 3."""

_LAST_EVENTS: Final = 2.0
"""Seconds to wait for the last events of an app's Tasks after they rest."""
Begin = Callable[[Host], Awaitable[Sequence[str]]]
"""Start Tasks on a Host; return the ids of the Tasks that now run on it."""


@dataclass(frozen=True)
class Foreground:
    """Runs the Tasks of one command, and waits until they have ended or are paused."""

    screen: Callable[[Stop], Screen]
    """Make the screen that shows the Tasks."""
    runtime: Callable[[Observer, Collection[str]], AbstractAsyncContextManager[Host]]
    """Open the Host that runs Tasks of these kinds, and no Task that it is not told to run."""
    last_words: Callable[[Sequence[Task]], str]
    """Return the last words of a process that leaves these Tasks at once: how they go on."""
    app: str = ""
    """The name of the app whose Host it is; empty for the command's own Host. An app decides itself
    for whom it acts, and has observers of its own."""
    observers: tuple[str, ...] = ()
    """The observers of an app's Tasks, as ``--observer`` names them."""

    async def launch(
        self, task: Task, limits: Mapping[str, Any] | None = None, file: str = ""
    ) -> int:
        """Dispatch a new Task and wait for it; return the exit code.

        Args:
            limits: Limits of this Task; None for those of the runtime.
            file: The file of the settings that has the limits.

        Raises:
            CannotStart: The Host refuses the Task. If it refuses a limit, the reason names the
                file.
        """

        async def begin(host: Host) -> Sequence[str]:
            principal = None if self.app else myself()
            try:
                await host.dispatch(task, principal=principal, limits=limits or None)
            except CannotStart as error:
                if limits and any(name in error.reason for name in limits):
                    raise CannotStart(f"{error.reason} (limits of {file})", task.id) from error
                raise
            return [task.id]

        return await self._stay([task], begin)

    async def resume(self, record: Record, extra: str | None) -> int:
        """Resume a paused Task here and wait for it; return the exit code.

        Raises:
            CannotStart: The Task acts for another user.
            IllegalTransition: The Task is not paused, or another caller resumed it first.
        """
        self._check_mine(record)
        task = record.task

        async def begin(host: Host) -> Sequence[str]:
            receipt = await host.resume(task.id, extra, at_version=record.version)
            if not receipt.changed:
                raise IllegalTransition(task.id, receipt.snapshot.status, "resume")
            return [task.id]

        if task.status is not TaskStatus.PAUSED:
            raise IllegalTransition(task.id, task.status, "resume")
        return await self._stay([task], begin)

    async def decide(self, record: Record, decisions: Sequence[Mapping[str, Any]]) -> int:
        """Record decisions for a paused Task, run it here and wait for it; return the exit code.

        Raises:
            CannotStart: The Task acts for another user.
            As `settle`.
        """
        self._check_mine(record)

        async def begin(host: Host) -> Sequence[str]:
            await settle(host, record, decisions)
            return [record.task.id]

        return await self._stay([record.task], begin)

    async def take_up(self, tasks: Sequence[Task], refused: list[CannotStart] | None = None) -> int:
        """Claim Tasks that no live process runs, and wait for them; return the exit code.

        A Task that cannot be claimed any more is left out: another Host claimed it, or it ended.

        Args:
            refused: Takes the refusals of the Host, if it runs at least one of the Tasks; None to
                raise the first one.

        Raises:
            CannotStart: None of the Tasks could be claimed.
        """

        async def begin(host: Host) -> Sequence[str]:
            taken: list[str] = []
            left: list[CannotStart] = []
            for task in tasks:
                try:
                    if (await host.claim(task.id)).effect == "claimed":
                        taken.append(task.id)
                except CannotStart as error:
                    if refused is None:
                        raise
                    left.append(error)
            if left and not taken:
                raise left[0]
            if refused is not None:
                refused.extend(left)
            if not taken:
                raise CannotStart(
                    "another process claimed it or it ended meanwhile; see it with show",
                    tasks[0].id,
                )
            return taken

        return await self._stay(tasks, begin)

    async def _stay(self, tasks: Sequence[Task], begin: Begin) -> int:
        """Show the Tasks until all have ended or are paused; pause them if a stop is requested."""
        if not self.app:
            for task in tasks:
                check_served(task)
        stop = Stop(self.last_words([]))
        screen = self.screen(stop)
        with stop.on_signals():
            try:
                async with self.runtime(screen, {task.runtime_kind for task in tasks}) as host:
                    kept = [(task, await _kept(host, task)) for task in tasks]
                    screen.begin(kept)
                    begun = await begin(host)
                    if self.app:
                        begun = await self._here(host, begun, screen)
                    mine = list((await host.get_many(begun)).values())
                    stop.last_words = self.last_words(mine)
                    if self.app:
                        after = {task.id: events[-1].id for task, events in kept if events}
                        async with _followed(host, begun, after, screen, self.observers):
                            await self._rest(host, begun, screen, stop)
                    else:
                        await self._rest(host, begun, screen, stop)
                    ended = list((await host.get_many(begun)).values())
                screen.end(ended)
            finally:
                screen.close()
        return _exit_code(ended, stop)

    async def _here(self, host: Host, begun: Sequence[str], screen: Screen) -> list[str]:
        """Those of the Tasks that this Host runs, or that have ended or paused already.

        An app's Host may refuse a Task that was resumed: it acts for another principal, has no free
        slot, or does not read the Task's state. The Task then waits for another Host.
        """
        here = []
        for task_id in begun:
            record = await host.record(task_id)
            owner = record.owner
            mine = owner is not None and (
                isinstance(host, PlainRuntime) or host_of(owner) == host.name
            )
            if record.task.status is TaskStatus.RUNNING and not mine:
                if owner is None:
                    screen.tell(
                        f"{label(task_id)}: the app did not take it; it goes on in a Host that "
                        f"serves {label(record.task.runtime_kind)} and acts for its principal"
                    )
                else:
                    screen.tell(f"{label(task_id)}: another Host took it; watch it instead")
                continue
            here.append(task_id)
        return here

    def _check_mine(self, record: Record) -> None:
        if not self.app:
            check_mine(record)

    async def _rest(self, host: Host, ids: Sequence[str], screen: Screen, stop: Stop) -> None:
        resting: asyncio.Future[Any] = asyncio.gather(*(host.wait(id, *CODES) for id in ids))
        stopping: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
        minding: asyncio.Future[Any] = asyncio.ensure_future(mind_children(host, ids, screen))
        try:
            await asyncio.wait({resting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not resting.done():
                screen.tell("pausing at the next safe point; press Ctrl-C again to leave at once")
                await host.drain(pause=True)
            else:
                resting.result()
        finally:
            resting.cancel()
            stopping.cancel()
            minding.cancel()
            await asyncio.gather(resting, stopping, minding, return_exceptions=True)


async def settle(host: Host, record: Record, decisions: Sequence[Mapping[str, Any]]) -> Task:
    """Record decisions for a paused Task; the write of the last decision also resumes it.

    Raises:
        IllegalTransition: The Task is not paused any more; another caller was first.
        NotAwaited: The Task went on and was paused again since it was read.
    """
    task_id, version = record.task.id, record.version
    *others, last = decisions
    for decision in others:
        await host.post(task_id, decision)
    # Each other decision was a write that changed the version, so the version cannot be compared.
    receipt = await host.decide(task_id, last, at_version=None if others else version)
    if receipt.changed:
        return receipt.snapshot
    if receipt.snapshot.status is TaskStatus.PAUSED:
        raise NotAwaited(task_id, "has changed since it was read; read it again with show")
    raise IllegalTransition(task_id, receipt.snapshot.status, "decide about")


def check_served(task: Task) -> None:
    """Refuse a Task that this command cannot run.

    Raises:
        LeftAlone: This command does not run the runtime kind of the Task.
    """
    if not serves(task.runtime_kind):
        raise LeftAlone(
            f"{taker(task.runtime_kind)}; this command runs only {', '.join(names()) or 'none'}",
            task.id,
        )


@asynccontextmanager
async def _followed(
    host: Host,
    ids: Sequence[str],
    after: Mapping[str, EventId | None],
    screen: Screen,
    observers: Sequence[str],
) -> AsyncIterator[None]:
    """Show the events of these Tasks during the block, and pass them to the observers."""
    from .observers import Named  # Loads the Loop, which most commands do not need.

    named = Named(observers)
    told = CompositeObserver(screen, *named.observers)

    async def follow(task_id: str) -> None:
        async for event in host.watch(task_id, after.get(task_id)):
            told.observe(task_id, event)
            if event.type == TASK_PAUSED:
                return

    following = [asyncio.ensure_future(follow(task_id)) for task_id in ids]
    try:
        yield
        if following:
            # The last events may still be on their way to the reader.
            await asyncio.wait(following, timeout=_LAST_EVENTS)
    finally:
        for each in following:
            each.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        await named.close()


async def _kept(host: Host, task: Task) -> list[Event]:
    return [] if task.status is TaskStatus.NOT_STARTED else await history(host, task.id)


def _exit_code(tasks: Sequence[Task], stop: Stop) -> int:
    if stop.code is not None and not all(task.status.terminal for task in tasks):
        return stop.code
    codes = {CODES.get(task.status, 1) for task in tasks}
    return next((code for code in (1, 4, 3) if code in codes), 0)
