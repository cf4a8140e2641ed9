"""The control plane: everything that needs no model, from any terminal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

from agentic_kernel import CannotStart, Task, TaskStatus
from agentic_kernel_engine import Event, Host, Unreadable
from agentic_kernel_engine.events import TASK_PAUSED

from .kinds import taker
from .place import find_task, orphaned
from .running import CODES
from .stop import Stop
from .streaming import Screen

_PAGE = 1000
_ORPHAN_CHECK = 2.0
"""Seconds between two looks of `watch` at whether anybody still runs the Task."""


async def pause(host: Host, task_id: str, patience: float) -> tuple[Task, str]:
    """Ask for a pause and wait a moment for it; returns the Task and what became of the wish."""
    receipt = await host.pause(task_id)
    task = receipt.snapshot
    if receipt.changed:
        return task, "paused"
    if task.status is not TaskStatus.RUNNING:
        return task, f"nothing to pause: it is {task.status.value}"
    try:
        async with asyncio.timeout(patience):
            task = await host.wait(task_id, *CODES)
    except TimeoutError:
        return await host.get(task_id), "requested: it takes effect at the next safe point"
    if task.status is TaskStatus.PAUSED:
        return task, "paused"
    return task, f"it ended first: {task.status.value}"


async def kill(host: Host, given: str, *, force: bool) -> tuple[Task, str]:
    """End a Task for good; returns it and what became of the wish.

    One that cannot be read is buried: a cancelled Task takes its place, and its events are kept.

    Args:
        given: Its id, or the beginning of it.
        force: Whether to bury also what a newer version can read.

    Raises:
        Unreadable: A newer version can read it, and there is no force.
    """
    try:
        receipt = await host.kill((await find_task(host, given)).task.id)
    except Unreadable as bad:
        buried = await host.store.bury(bad.task_id, bad.version, force=force)
        return buried.task, "buried: it could not be read; its events are kept"
    task = receipt.snapshot
    if receipt.changed:
        return task, "killed"
    return task, f"nothing to kill: it had ended in {task.status.value}"


async def prune(host: Host, age: timedelta) -> int:
    """Remove every Task that ended longer ago than this; returns how many."""
    before = datetime.now(UTC) - age
    removed = 0
    while True:
        count = await host.store.prune(before, _PAGE)
        removed += count
        if count < _PAGE:
            return removed


async def left_behind(host: Host) -> list[Task]:
    """Every Task that is running and that nobody runs, whatever its runtime kind."""
    found: list[Task] = []
    while True:
        after = found[-1].id if found else None
        page = await host.store.find(claimable=True, after=after, limit=_PAGE)
        found += [record.task for record in page]
        if len(page) < _PAGE:
            return found


async def abandoned(host: Host, given: str, lease: float) -> Task:
    """The Task with this id, which must be running without anybody who runs it.

    Args:
        lease: For how many seconds after its death a process may still count as alive.

    Raises:
        CannotStart: It is not; the message says what it is.
    """
    record = await find_task(host, given)
    task = record.task
    if await orphaned(host, record):
        return task
    if task.status is TaskStatus.RUNNING:
        late = f", or recover it {lease:g} s after that process died" if lease else ""
        raise CannotStart(f"a living process runs it; watch it instead{late}", task.id)
    raise CannotStart(f"it is {task.status.value}, so there is nothing to recover", task.id)


async def watch(host: Host, task: Task, screen: Screen, stop: Stop) -> int:
    """Show a Task's durable events until it rests; returns the exit code."""
    task_id = task.id
    screen.begin([(task, "")])

    async def follow() -> None:
        async for event in _until_rest(host, task_id):
            screen.observe(task_id, event)

    async def mind() -> None:
        # A death leaves no event: it can only be looked for.
        while not await orphaned(host, await host.record(task_id)):  # noqa: ASYNC110
            await asyncio.sleep(_ORPHAN_CHECK)
        screen.tell(f"nobody runs this Task now; {taker(task.runtime_kind)}")

    jobs = [asyncio.ensure_future(job) for job in (follow(), stop.wait(), mind())]
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
        screen.tell("no longer watching; the Task goes on")
        return stop.code or 0
    screen.end([task])
    return CODES[task.status]


async def _until_rest(host: Host, task_id: str) -> AsyncIterator[Event]:
    """The Task's events until it is terminal, or paused with nothing behind the pause."""
    async for event in host.stream(task_id):
        yield event
        if event.type == TASK_PAUSED and event.id is not None:
            later = await host.store.events(task_id, event.id, limit=1)
            if not later and (await host.get(task_id)).status is TaskStatus.PAUSED:
                return
