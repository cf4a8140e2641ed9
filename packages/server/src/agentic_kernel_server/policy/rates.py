"""Rates: the calls that count against a rate limit, shared by all processes of a store.

Each counter is a record of its own: a paused Task of the kind `KIND` that no Host serves. Its state
is the calls by slot. A call is spent by the store's conditional write, so two processes never spend
the last one twice.

A window has `SLOTS` slots. A call counts until its whole slot has left the window: so a window
never has more calls than its limit, and a call may be refused for one slot longer than necessary.

A record serves one epoch. The first call of the next epoch ends the record before it reads it, so
that no process with a slow clock adds to it any more, and takes its calls along. So records that
nobody uses end, and the retention of the server removes them.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from agentic_kernel import Dispatch, Kill, Pause, Task, TaskExists, TaskNotFound, TaskStatus, apply
from agentic_kernel.frozen import shown
from agentic_kernel_engine import Conflict, Record, Store, StoreError, UnknownOutcome
from agentic_kernel_guard.rules import Limit

KIND: Final = "server/rate"
"""The runtime kind of the records; no Host has a substrate for it."""
PREFIX: Final = "server-rate-"
"""The start of the records' ids."""
SLOTS: Final = 128
"""The slots of a window."""
SHORTEST_EPOCH: Final = 3_600.0
"""The shortest epoch, in seconds."""
PAGE: Final = 500
"""The size of a page of a sweep."""
TRIES: Final = 200
"""The most writes of other processes that one call waits out."""
Clock = Callable[[], datetime]


class _State(msgspec.Struct, forbid_unknown_fields=True):
    slots: dict[int, int]
    """The calls by slot; the number of a slot counts from 1970."""
    until: float
    """The moment after which no call reads this record any more, in seconds since 1970."""


_decode = msgspec.json.Decoder(_State).decode


@dataclass(frozen=True, slots=True)
class Spent:
    """The answer to a call that wants to count."""

    allowed: bool
    retry_after: float = 0.0
    """Seconds after which the call may be allowed, if it was not."""


class Rates:
    """Counters in a store.

    Args:
        store: The store that the processes share.
        clock: The time, as an aware datetime.
    """

    def __init__(self, store: Store, clock: Clock = lambda: datetime.now(UTC)) -> None:
        self._store = store
        self._clock = clock
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def spend(self, counter: str, limit: Limit) -> Spent:
        """Count one call, or refuse it if the limit is used up. A refused call does not count.

        Raises:
            StoreError: The store does not answer, or other processes wrote first all the time.
        """
        # The slots of a rule that was changed to another time are not comparable.
        counter = f"{counter}\x1f{limit.seconds:g}"
        lock = self._locks.setdefault(counter, asyncio.Lock())
        async with lock:  # Calls of this process do not race each other.
            for attempt in range(TRIES):
                spent = await self._tried(counter, limit)
                if spent is not None:
                    return spent
                # The write of the other process may not be acknowledged yet.
                await asyncio.sleep(0 if attempt < 10 else 0.01)
        raise StoreError(
            f"the rate limit {shown(counter)} is contended: {TRIES} writes lost to other "
            "processes; try again, or count per principal"
        )

    async def _tried(self, counter: str, limit: Limit) -> Spent | None:
        """One attempt; None if another process wrote first."""
        now = self._clock()
        slot = _slot(now, limit)
        length = max(limit.seconds, SHORTEST_EPOCH)
        epoch = int(now.timestamp() // length)
        record, found = await self._record(counter, epoch)
        if record is not None and record.task.status.terminal:
            # Another process has a faster clock; its epoch counts.
            record, found = await self._record(counter, epoch + 1)
            epoch += 1
        if record is None:
            before = await self._ended(counter, epoch - 1, now, length)
            if before is None:
                return None
            found = before
        live = {each: count for each, count in found.items() if each >= slot - SLOTS}
        if sum(live.values()) >= limit.calls:
            return Spent(False, _wait(live, limit, now))
        newest = max(slot, *live) if live else slot
        live[newest] = live.get(newest, 0) + 1
        state = _state(live, epoch, length)
        if record is None:
            made = _new(_id(counter, epoch), now, state)
            return Spent(True) if await self._insert(made) else None
        after = record.changed(version=record.version + 1, state=state)
        return Spent(True) if await self._commit(record, after) else None

    async def _record(self, counter: str, epoch: int) -> tuple[Record | None, dict[int, int]]:
        try:
            record = await self._store.load(_id(counter, epoch))
        except TaskNotFound:
            return None, {}
        return record, _read(record).slots

    async def _ended(
        self, counter: str, epoch: int, now: datetime, length: float
    ) -> dict[int, int] | None:
        """End the record of the epoch before; its calls, or None if another process wrote first."""
        record, slots = await self._record(counter, epoch)
        if record is None:
            # A process with a slow clock must not begin it now.
            fence = _new(_id(counter, epoch), now, _state({}, epoch, length))
            ended = fence.changed(task=apply(fence.task, Kill(), now))
            return {} if await self._insert(ended) else None
        if record.task.status is not TaskStatus.PAUSED:
            return slots
        task = apply(record.task, Kill(), now)
        after = record.changed(version=record.version + 1, task=task)
        return slots if await self._commit(record, after) else None

    async def _insert(self, record: Record) -> bool:
        try:
            await self._store.insert(record)
        except TaskExists:
            return False
        except UnknownOutcome:
            return False  # If it landed, the call is counted once too often, never too rarely.
        return True

    async def _commit(self, before: Record, after: Record) -> bool:
        try:
            await self._store.commit(before, after)
        except (Conflict, TaskNotFound, UnknownOutcome):
            return False
        return True

    async def sweep(self) -> int:
        """End the records that no call reads any more, so that the retention removes them.

        Returns:
            The number of records that this call ended.
        """
        now = self._clock()
        swept, after = 0, ""
        while True:
            page = await self._store.find(
                kinds=[KIND], status=TaskStatus.PAUSED, after=after, limit=PAGE
            )
            for record in page:
                after = record.task.id
                if _read(record).until <= now.timestamp():
                    task = apply(record.task, Kill(), now)
                    ended = record.changed(version=record.version + 1, task=task)
                    swept += await self._commit(record, ended)
            if len(page) < PAGE:
                return swept


def _id(counter: str, epoch: int) -> str:
    return f"{PREFIX}{hashlib.sha256(counter.encode()).hexdigest()[:40]}-{epoch}"


def _new(task_id: str, now: datetime, state: bytes) -> Record:
    task = Task.new(
        id=task_id, summary="calls of a rate limit", instructions="", runtime_kind=KIND, at=now
    )
    return Record(apply(apply(task, Dispatch(), now), Pause(), now), state=state)


def _state(slots: dict[int, int], epoch: int, length: float) -> bytes:
    # The record of the next epoch is begun with what this one holds.
    return msgspec.json.encode(_State(slots, (epoch + 2) * length))


def _read(record: Record) -> _State:
    """The state of a record.

    Raises:
        StoreError: It is damaged; the limit then refuses.
    """
    try:
        return _decode(record.state or b"")
    except (msgspec.MsgspecError, ValueError) as error:
        raise StoreError(
            f"the record {shown(record.task.id)} of a rate limit is damaged: {error}; kill it"
        ) from None


def _slot(now: datetime, limit: Limit) -> int:
    return math.floor(now.timestamp() * SLOTS / limit.seconds)


def _wait(live: dict[int, int], limit: Limit, now: datetime) -> float:
    """Seconds until enough slots have left the window."""
    surplus = sum(live.values()) - limit.calls + 1
    for slot in sorted(live):
        surplus -= live[slot]
        if surplus <= 0:
            break
    leaves = (slot + SLOTS + 1) * limit.seconds / SLOTS
    return max(leaves - now.timestamp(), 0.001)
