"""Change: load the record, decide, commit if the record has not moved, else look again.

Every change of a stored Task that its own run does not make is made in this way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from agentic_kernel.frozen import shown

from .. import events as host_events
from ..errors import Conflict, StoreError, UnknownOutcome
from ..events import Checked, Event
from ..readback import landed, patiently
from ..record import Record
from ..store import Store
from .in_flight import answered
from .parts import Parts

LOOKS = 1000
"""The most looks of one change; each further look means that another writer came first."""
STALLED = 0.01
"""Seconds between two looks at another writer's write that the store has not acknowledged yet."""
SPELL = 100
"""The number of such looks before the change tries its own commit again."""
SPELLS = 60
"""The number of such spells before the store is reported as stalled."""


@dataclass(frozen=True, slots=True)
class Change:
    """A commit that landed."""

    before: Record
    after: Record
    events: Sequence[bytes]


Decided = tuple[Record, Sequence[Event | Checked | bytes]] | None
"""The successor of a record and the events of the change, or None to leave the record alone."""
Decide = Callable[[Record], Awaitable[Decided]]
"""A function from the latest record to the change of it."""


def successor(before: Record, **fields: Any) -> Record:
    """The next version of a record, with these fields changed."""
    return before.changed(version=before.version + 1, **fields)


async def change(
    parts: Parts,
    task_id: str,
    decide: Decide,
    guard: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
) -> Change | Record:
    """Apply ``decide`` to the latest record until its commit lands or it declines (R3).

    Args:
        guard: A context that is entered anew for every look. Inside it the Task's local run, if
            there is one, cannot commit. Without it a run that commits all the time would win every
            race.

    Returns:
        The change whose commit succeeded, or the record that ``decide`` left alone.

    Raises:
        TaskNotFound: No such Task is stored.
        StoreError: The store failed, or `LOOKS` attempts in a row lost to other writers.
    """
    store, act = parts.store, next(parts.acts)
    moved: Record | None = None
    waited = 0
    for _ in range(LOOKS):
        async with guard() as run:
            before = moved
            # A local run may have committed between two looks; the guard holds it now.
            if before is None or run is not None:
                loaded = await store.load(task_id)
                if before is None or loaded.version >= before.version:
                    before, moved = loaded, None
            decided = await decide(before)
            if decided is not None:
                after, happened = decided
                now = parts.clock()
                texts = [
                    event
                    if isinstance(event, bytes)
                    else host_events.by_act(event.type, event.data, act, now)
                    for event in happened
                ]
                try:
                    await answered(store.commit(before, after, texts))
                except Conflict as refused:
                    moved = refused.latest
                    continue
                except UnknownOutcome:
                    moved = None
                    if not await landed(store, after, texts):
                        continue
                return Change(before, after, texts)
            if moved is None:
                return before
        # A write that is not acknowledged yet must not decide the answer.
        moved = None
        waited += 1
        if waited > SPELLS:
            raise StoreError(
                f"a write of another Host to task {shown(task_id)} has not been acknowledged for "
                f"{SPELLS * SPELL * STALLED:.0f} seconds; check the store and try again"
            )
        await acknowledged(store, task_id, before.version)
    raise StoreError(
        f"task {shown(task_id)} is contended: {LOOKS:,} attempts in a row lost to other writers; "
        "try again when fewer of them write to this Task"
    )


async def acknowledged(store: Store, task_id: str, version: int) -> None:
    """Wait about a second for the store to acknowledge a version that a refusal showed.

    It does not wait longer, because the write of that version may still be rolled back.

    Raises:
        TaskNotFound: The Task is gone.
        StoreError: The store cannot be read.
    """
    for _ in range(SPELL):
        await asyncio.sleep(STALLED)
        if (await patiently(lambda: store.load(task_id))).version >= version:
            return
