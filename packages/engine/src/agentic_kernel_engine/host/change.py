"""Load, decide, commit if nothing moved, else look again: how every foreign change is made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from agentic_kernel.frozen import shown

from .. import events as vocabulary
from ..errors import Conflict, StoreError, UnknownOutcome
from ..events import Event
from ..outcomes import landed
from ..record import Record
from ..store import Store
from .parts import Parts

LOOKS = 1000
"""How often a change looks again before it gives up; each look means that another one won."""
STALLED = 0.01
"""Seconds between looks at what another one has written and the store has not acknowledged yet."""
SPELL = 100
"""How many such looks, until an attempt of our own asks whether that write is still there."""
SPELLS = 60
"""How many such spells, until the store is reported as stalled."""


@dataclass(frozen=True, slots=True)
class Change:
    """A commit that landed."""

    before: Record
    after: Record
    events: Sequence[bytes]


Decided = tuple[Record, Sequence[Event | bytes]] | None
"""The successor of a record and what happened, or None to leave the record alone."""
Decide = Callable[[Record], Awaitable[Decided]]
"""From the latest record to what becomes of it."""


def successor(before: Record, **fields: Any) -> Record:
    """The record one version on, with these fields changed."""
    return before.changed(version=before.version + 1, **fields)


async def change(
    parts: Parts,
    task_id: str,
    decide: Decide,
    guard: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
) -> Change | Record:
    """Apply ``decide`` to the latest record until its commit lands or it declines (R3).

    Args:
        guard: Entered anew for every look: it keeps the local run, if there is one, from moving
            the record meanwhile. Without it a run that commits without a pause wins every time.

    Returns:
        The change whose commit succeeded, or the record that ``decide`` left alone.

    Raises:
        TaskNotFound: No such Task is stored.
        StoreError: The store failed, or the record is contended beyond all reason.
    """
    store, act = parts.store, next(parts.acts)
    moved: Record | None = None
    waited = 0
    for _ in range(LOOKS):
        async with guard() as run:
            before = moved
            # A local run may have moved on between two looks, and now it is held.
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
                    else vocabulary.by_act(event.type, event.data, act, now)
                    for event in happened
                ]
                try:
                    await store.commit(before, after, texts)
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
        # What is not acknowledged yet is no ground for an answer.
        moved = None
        waited += 1
        if waited > SPELLS:
            raise StoreError(
                f"a write of another host to task {shown(task_id)} has not been acknowledged for "
                f"{SPELLS * SPELL * STALLED:.0f} seconds; look after the store and try again"
            )
        await acknowledged(store, task_id, before.version)
    raise StoreError(
        f"task {shown(task_id)} is contended: {LOOKS} attempts in a row lost to others"
    )


async def acknowledged(store: Store, task_id: str, version: int) -> None:
    """Wait for a version that was seen in a refusal; for a while only, it may be given up yet.

    Raises:
        TaskNotFound: The Task is gone.
        StoreError: The store cannot be read.
    """
    for _ in range(SPELL):
        await asyncio.sleep(STALLED)
        if (await store.load(task_id)).version >= version:
            return
