"""Readback: find out if a write whose answer was lost is in the store (R5)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agentic_kernel import TaskNotFound
from agentic_kernel.frozen import shown

from .errors import StoreError, UnknownOutcome, Unreadable
from .record import Record
from .store import Store

READS = 50
"""The most attempts to read back an unknown outcome before it is reported as unknown."""


async def landed(store: Store, after: Record, texts: Sequence[bytes]) -> bool:
    """True if the commit of ``after`` with these events is in the store (R5).

    The events identify the commit: a host's events carry its name and the number of the act, and a
    run's events are those of the one owner that may write. A commit of a run without events is
    identified by its owner and step.

    Raises:
        StoreError: The store cannot be read.
    """
    current = await read_back(store, after.task.id)
    if current is None or current.version < after.version:
        return False
    if not texts:
        return current.owner == after.owner and current.step >= after.step
    found = await store.events(after.task.id, (after.version, -1), limit=len(texts))
    return [text for (version, _), text in found if version == after.version] == list(texts)


async def read_back(store: Store, task_id: str) -> Record | None:
    """Read the record after an unknown outcome; None if the Task is not stored.

    Raises:
        UnknownOutcome: The store could not be read in all of `READS` attempts.
    """
    fault: StoreError | None = None
    for attempt in range(READS):
        try:
            return await store.load(task_id)
        except TaskNotFound:
            return None
        except Unreadable:
            raise
        except StoreError as error:
            fault = error
            await asyncio.sleep(min(0.01 * 2**attempt, 1.0))
    raise UnknownOutcome(
        f"task {shown(task_id)}: a write was sent, and {READS} attempts to read it back failed; "
        "look at the Task again when the store answers"
    ) from fault
