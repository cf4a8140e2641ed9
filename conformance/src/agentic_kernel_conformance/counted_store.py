"""CountedStore: a store around another one; counts its calls, and what the writes hand over.

The counts of `bench` and of the end-to-end benchmark come from here. They do not depend on the
load of the machine, and they mean the same for every store.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Unpack

from agentic_kernel_engine import (
    Cursor,
    Record,
    SearchOptions,
    Store,
    StoreTraits,
    Unreadable,
)
from agentic_kernel_engine.stored import encode_change, encode_record

_NUMBER: Final = re.compile(rb"(?<=[:\[,])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?=[,\]}])")
_FRACTION: Final = re.compile(rb"(?<=\d)\.\d+")
_IN_PROGRESS: Final = b'{"type":"run.delta"'


@dataclass(frozen=True, slots=True)
class Written:
    """One write that the store accepted."""

    bytes: int
    """Of the stored form of what the write changed, and of its events but for text in progress,
    which a flush may have stored before. A number counts as one digit, and so does a fraction,
    because measured times and versions have more or fewer of them."""
    flush: bool
    """True if the write stored text in progress only; such writes go by the clock."""
    owned: bool
    """True if the write was the owner's, at a step of its run."""
    last: bool
    """True if the Task has ended with this write."""


class CountedStore:
    """A `Store` that passes every call on to the given one, and reports no writes of others.

    So a Host looks at it by its interval alone, and the number of looks does not depend on when a
    report comes.

    Args:
        store: Keeps the Tasks; its owner closes it.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.calls: Counter[str] = Counter()
        """The number of calls of each method."""
        self.writes: list[Written] = []
        """The inserts and commits that were accepted, in order."""

    @property
    def traits(self) -> StoreTraits:
        return StoreTraits(never_waits=self.store.traits.never_waits)

    async def join(self, host: str) -> None:
        self.calls["join"] += 1
        await self.store.join(host)

    async def leave(self, host: str) -> None:
        self.calls["leave"] += 1
        await self.store.leave(host)

    async def alive(self, owner: str) -> bool:
        self.calls["alive"] += 1
        return await self.store.alive(owner)

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        self.calls["insert"] += 1
        await self.store.insert(record, events)
        size = _size(encode_record(record), *events)
        self.writes.append(Written(size, flush=False, owned=False, last=False))

    async def load(self, task_id: str) -> Record:
        self.calls["load"] += 1
        return await self.store.load(task_id)

    async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
        self.calls["load_many"] += 1
        return await self.store.load_many(task_ids)

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        self.calls["commit"] += 1
        await self.store.commit(before, after, events)
        size = _size(encode_change(before, after), *events)
        owned = after.step > before.step
        flush = owned and after == before.changed(version=after.version, step=after.step)
        self.writes.append(Written(size, flush, owned, after.task.status.terminal))

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        self.calls["claim"] += 1
        return await self.store.claim(task_id, host, events)

    async def events(
        self, task_id: str, after: Cursor | None = None, limit: int = 1000
    ) -> Sequence[tuple[Cursor, bytes]]:
        self.calls["events"] += 1
        return await self.store.events(task_id, after, limit)

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        self.calls["changed"] += 1
        return await self.store.changed(versions)

    async def find(self, **options: Unpack[SearchOptions]) -> Sequence[Record]:
        self.calls["find"] += 1
        return await self.store.find(**options)

    async def unreadable(self, after: str | None = None, limit: int = 100) -> Sequence[Unreadable]:
        self.calls["unreadable"] += 1
        return await self.store.unreadable(after, limit)

    async def bury(
        self,
        task_id: str,
        version: int,
        events: Sequence[bytes] = (),
        *,
        force: bool = False,
        at: datetime | None = None,
    ) -> Record:
        self.calls["bury"] += 1
        return await self.store.bury(task_id, version, events, force=force, at=at)

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        self.calls["prune"] += 1
        return await self.store.prune(ended_before, limit)


def _size(*texts: bytes) -> int:
    """The bytes of the texts that do not depend on the clock; see `Written.bytes`."""
    kept = (text for text in texts if not text.startswith(_IN_PROGRESS))
    return sum(len(_FRACTION.sub(b".0", _NUMBER.sub(b"0", text))) for text in kept)
