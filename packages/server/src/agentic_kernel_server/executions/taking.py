"""Taking: this process becomes the owner of an execution or of a remote step."""

from __future__ import annotations

import asyncio
import logging

from agentic_kernel import KernelError, TaskStatus
from agentic_kernel_engine import Record
from agentic_kernel_engine.faults import said

from ..parts import Parts
from .encoding import KIND

_log = logging.getLogger(__name__)


async def take(parts: Parts, record: Record) -> bool:
    """Resume a paused Task here, or claim one that no living process owns.

    Returns:
        True if the Task runs here now. False if another process was faster or the store failed.
    """
    if parts.draining:
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
