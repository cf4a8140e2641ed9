"""The control plane: the operations that need no model, from any terminal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta

from agentic_kernel import CannotStart, IllegalTransition, Task, TaskStatus
from agentic_kernel_engine import Event, EventId, Host, Record, Unreadable
from agentic_kernel_engine.events import TASK_PAUSED

from .children import mind_children
from .place import find_task, orphaned
from .running import CODES
from .stop import Stop
from .streaming import Screen

_PAGE = 1000
_ORPHAN_CHECK = 2.0
"""Seconds after which `watch` checks again that a live process runs the Task."""


async def pause(host: Host, task_id: str, patience: float) -> tuple[Task, str]:
    """Request a pause, wait up to ``patience`` seconds for it; return the Task and the outcome."""
    receipt = await host.pause(task_id)
    task = receipt.snapshot
    if receipt.changed:
        return task, "paused"
    if task.status is not TaskStatus.RUNNING:
        due = (await host.record(task_id)).due_at
        if task.status is TaskStatus.PAUSED and due is not None:
            when = f"at {due:%F %T} UTC" if due > datetime.now(UTC) else "when a Host takes it"
            return task, (
                f"nothing to pause: it paused itself, and goes on by itself {when}; pause it after "
                "that, or kill it"
            )
        return task, f"nothing to pause: it is {task.status.value}"
    try:
        async with asyncio.timeout(patience):
            task = await host.wait(task_id, *CODES)
    except TimeoutError:
        return await host.get(task_id), "requested: it takes effect at the next safe point"
    if task.status is TaskStatus.PAUSED:
        return task, "paused"
    return task, f"it ended first: {task.status.value}"


async def resume(host: Host, record: Record, extra: str | None) -> Task:
    """Let a paused Task go on elsewhere; return the Task.

    Raises:
        IllegalTransition: Another caller resumed it first.
    """
    task = record.task
    receipt = await host.resume(task.id, extra, at_version=record.version)
    if not receipt.changed:
        raise IllegalTransition(task.id, receipt.snapshot.status, "resume")
    return receipt.snapshot


async def kill(host: Host, given: str, *, force: bool) -> tuple[Task, str]:
    """End a Task for good; return the Task and the outcome.

    A Task that cannot be read is buried: a cancelled Task takes its place and keeps its events.

    Args:
        given: The Task's id, or its first characters.
        force: True to bury a Task that a newer version can read.

    Raises:
        Unreadable: A newer version can read the Task, and ``force`` is False.
    """
    try:
        receipt = await host.kill((await find_task(host, given)).task.id)
    except Unreadable as bad:
        buried = await host.store.bury(bad.task_id, bad.version, force=force)
        return buried.task, "buried: it could not be read; its events are kept"
    task = receipt.snapshot
    if receipt.changed:
        return task, "killed"
    return task, f"nothing to kill: it had already ended ({task.status.value})"


async def prune(host: Host, age: timedelta) -> int:
    """Remove every Task that ended more than ``age`` ago; return the number of removed Tasks."""
    before = datetime.now(UTC) - age
    removed = 0
    while True:
        count = await host.store.prune(before, _PAGE)
        removed += count
        if count < _PAGE:
            return removed


async def left_behind(host: Host) -> list[Record]:
    """Every Task that is running without a live process that runs it, of any runtime kind."""
    found: list[Record] = []
    while True:
        after = found[-1].task.id if found else None
        page = await host.store.find(claimable=True, after=after, limit=_PAGE)
        found += page
        if len(page) < _PAGE:
            return found


async def abandoned(host: Host, given: str, lease: float) -> Record:
    """Return the Task with this id, if it is running and no live process runs it.

    Args:
        given: The Task's id, or its first characters.
        lease: Seconds for which a dead process may still count as alive.

    Raises:
        CannotStart: A live process runs the Task, or it is not running; the message says which.
    """
    record = await find_task(host, given)
    task = record.task
    if await orphaned(host, record):
        return record
    if task.status is TaskStatus.RUNNING:
        late = f", or recover it {lease:g} s after that process died" if lease else ""
        raise CannotStart(f"a live process runs it; watch it instead{late}", task.id)
    then = "; see with show how it goes on" if task.status is TaskStatus.PAUSED else ""
    raise CannotStart(
        f"its status is {task.status.value}; there is nothing to recover{then}", task.id
    )


async def watch(
    host: Host,
    task: Task,
    screen: Screen,
    stop: Stop,
    left: Callable[[Task], Awaitable[str]],
    after: EventId | None = None,
) -> int:
    """Show a Task's durable events until it ends or is paused; return the exit code.

    A stop request ends this earlier, and the Task goes on. The screen warns once if no process runs
    the Task, and once for each child that it waits for and that no process runs.

    Args:
        left: Returns the remedy for a running Task that no process runs.
        after: Only events after this one; None for all of them.
    """
    task_id = task.id
    screen.begin([(task, [])])

    async def follow() -> None:
        async for event in _until_rest(host, task_id, after):
            screen.observe(task_id, event)

    async def mind() -> None:
        # A process that dies writes no event, so poll for its death.
        while not await orphaned(host, record := await host.record(task_id)):  # noqa: ASYNC110
            await asyncio.sleep(_ORPHAN_CHECK)
        screen.warn(f"no process runs this Task now; {await left(record.task)}")

    minding = mind_children(host, [task_id], screen)
    jobs = [asyncio.ensure_future(job) for job in (follow(), stop.wait(), mind(), minding)]
    following, stopping = jobs[:2]
    try:
        await asyncio.wait({following, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            following.result()
    finally:
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
    task = await host.get(task_id)
    if task.status not in CODES:
        screen.tell("stopped watching; the Task goes on")
        return stop.code or 0
    screen.end([task])
    return CODES[task.status]


async def _until_rest(host: Host, task_id: str, after: EventId | None) -> AsyncIterator[Event]:
    """Yield the Task's events until it has ended, or is paused and no event follows the pause."""
    if after is not None and await _rests(host, task_id, after):
        return
    async for event in host.stream(task_id, after):
        yield event
        if event.type == TASK_PAUSED and await _rests(host, task_id, event.id):
            return


async def _rests(host: Host, task_id: str, after: EventId | None) -> bool:
    """True if the Task is paused and no event follows this one."""
    later = await host.store.events(task_id, after, limit=1)
    return not later and (await host.get(task_id)).status is TaskStatus.PAUSED
