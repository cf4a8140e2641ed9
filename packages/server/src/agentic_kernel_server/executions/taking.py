"""Taking: this process becomes the owner of an execution or of a remote step."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from agentic_kernel import IllegalTransition, KernelError, TaskNotFound, TaskStatus
from agentic_kernel_engine import InboxFull, Record, StoreError
from agentic_kernel_engine.faults import said

from ..parts import Parts
from .encoding import KIND

_log = logging.getLogger(__name__)
PATIENCE: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Seconds before work that the store failed is tried again."""


def held(record: Record) -> bool:
    """True if a person paused the Task, so that only a person lets it go on.

    The server gives each of its own pauses a moment at which the Task goes on.
    """
    return record.task.status is TaskStatus.PAUSED and record.due_at is None


async def take_again(parts: Parts, task_id: str) -> None:
    """Take a Task that no living process has, also if the store fails for a while."""
    for delay in PATIENCE:
        try:
            record = await parts.store.load(task_id)
            task, owner = record.task, record.owner
            if task.status.terminal or held(record):
                return
            running = task.status is TaskStatus.RUNNING and owner is not None
            if running and await parts.store.alive(owner or ""):
                return
            if await take(parts, record):
                return
        except TaskNotFound:
            return
        except StoreError as fault:
            _log.warning("%s is taken later: %s", task_id, said(fault))
        await asyncio.sleep(delay)


async def wish(parts: Parts, task_id: str, decision: Mapping[str, Any]) -> bool:
    """Leave a wish of this process for the owner of a Task; False if the Task has ended.

    A wish is repeated until it is heard, so it may be left out while the inbox is full.
    """
    try:
        await parts.control.post(task_id, decision)
    except (IllegalTransition, TaskNotFound):
        return False
    except InboxFull as full:
        _log.warning("%s was not asked to hand over: %s", task_id, said(full))
    return True


async def take(parts: Parts, record: Record) -> bool:
    """Resume a paused Task here, or claim one that no living process owns.

    Returns:
        True if the Task runs here now. False if another process was faster, the store failed, or a
        person paused the Task.
    """
    if parts.draining or held(record):
        return False
    execution = record.task.runtime_kind == KIND
    host = parts.executions if execution else parts.tools
    task_id = record.task.id
    try:
        if record.task.status is TaskStatus.PAUSED:
            taken = (await host.resume(task_id, at_version=record.version)).changed
        else:
            taken = (await host.claim(task_id)).effect == "claimed"
    except KernelError as refused:
        _log.debug("%s %s was not taken: %s", record.task.runtime_kind, task_id, said(refused))
        return False
    if taken:
        await asyncio.sleep(0)  # The run begins.
    return taken
