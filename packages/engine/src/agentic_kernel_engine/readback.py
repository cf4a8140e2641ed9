"""Readback: ask a busy store again, and find out if a write whose answer was lost landed (R5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from agentic_kernel import TaskNotFound
from agentic_kernel.frozen import shown

from .errors import StoreError, UnknownOutcome, Unreadable
from .record import Record
from .store import Store

T = TypeVar("T")
READS = 50
"""The most attempts to read back an unknown outcome before it is reported as unknown."""
BUSY: Final = (0.02, 0.1)
"""Seconds before each further attempt of a call that a store which is only busy refused."""


async def patiently(call: Callable[[], Awaitable[T]], waits: Sequence[float] = BUSY) -> T:
    """Call the store again after each wait, while it raises a `StoreError` that may pass.

    Raises:
        StoreError: The store failed at the last call too, or this error does not pass.
    """
    for wait in waits:
        try:
            return await call()
        except (UnknownOutcome, Unreadable):
            raise
        except StoreError:
            await asyncio.sleep(wait)
    return await call()


async def landed(store: Store, after: Record, texts: Sequence[bytes]) -> bool:
    """True if the commit of ``after`` with these events is in the store (R5).

    The events identify the commit: a Host's events carry its name and the number of the act, and a
    run's events are those of the one owner that may write. A commit of a run without events is
    identified by its owner and step.

    Raises:
        Unreadable: The record cannot be read.
        UnknownOutcome: As `read_back`.
    """
    current = await read_back(store, after.task.id)
    if current is None or current.version < after.version:
        return False
    if not texts:
        return current.owner == after.owner and current.step >= after.step
    place = after.version, -1
    found = await _surely(
        after.task.id, lambda: store.events(after.task.id, place, limit=len(texts))
    )
    return [text for (version, _), text in found if version == after.version] == list(texts)


async def read_back(store: Store, task_id: str) -> Record | None:
    """Read the record after an unknown outcome; None if the Task is not stored.

    Raises:
        UnknownOutcome: The store could not be read in all of `READS` attempts.
    """
    try:
        return await _surely(task_id, lambda: store.load(task_id))
    except TaskNotFound:
        return None


async def _surely(task_id: str, read: Callable[[], Awaitable[T]]) -> T:
    """Read what an outcome depends on, in up to `READS` attempts."""
    try:
        return await patiently(read, [min(0.01 * 2**each, 1.0) for each in range(READS - 1)])
    except Unreadable:
        raise
    except StoreError as fault:
        raise UnknownOutcome(
            f"task {shown(task_id)}: a write was sent, and {READS} attempts to read it back "
            "failed; look at the Task again when the store answers"
        ) from fault
