"""Children: says for which Tasks another one waits although no process runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from agentic_kernel import TaskNotFound, TaskStatus
from agentic_kernel_engine import Host, Record, StoreError

from .place import orphaned
from .streaming import Screen
from .text import label

EACH: Final = 2.0
"""Seconds between two looks. A child that is left at two looks in a row is told."""
MOST: Final = 20
"""The most children that are told, and the most Tasks whose children are looked up at once."""


async def mind_children(host: Host, ids: Iterable[str], screen: Screen) -> None:
    """Warn once about each child of these Tasks that no process runs, until cancelled.

    A parent waits for its child as long as it takes, and says nothing. If the Host of the child has
    ``claims=False``, that is for ever. A parent that no process runs does not wait: first a process
    has to run the parent.
    """
    told = set[str]()
    seen = set[str]()
    while len(told) < MOST:
        await asyncio.sleep(EACH)
        with suppress(StoreError, TaskNotFound):  # Those who wait for the Tasks see it too.
            left = await left_children(host, ids)
            for record in left:
                task = record.task
                if task.id in seen - told and not await _left(host, record.parent):
                    told.add(task.id)
                    screen.warn(
                        f"{label(str(record.parent))} waits for its child {label(task.id)}, which "
                        f"no process runs; a Host that serves {label(task.runtime_kind)} has to be "
                        "running, with claims=True"
                    )
            seen = {record.task.id for record in left}


async def left_children(host: Host, ids: Iterable[str]) -> list[Record]:
    """The children below these Tasks that are running without a live process, at most `MOST`."""
    left: list[Record] = []
    parents, looked = list(ids), 0
    while parents and looked < MOST and len(left) < MOST:
        parent, looked = parents.pop(0), looked + 1
        find = host.store.find
        left += await find(parent=parent, claimable=True, limit=MOST - len(left))
        running = await find(parent=parent, status=TaskStatus.RUNNING, limit=MOST)
        parents += [record.task.id for record in running]
    return left


async def _left(host: Host, task_id: str | None) -> bool:
    return task_id is not None and await orphaned(host, await host.record(task_id))
