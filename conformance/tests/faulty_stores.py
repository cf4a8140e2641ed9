"""Stores with one mistake each, such as a real author might make. None of them conforms."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from agentic_kernel import Task, TaskNotFound, TaskStatus
from agentic_kernel_engine import Conflict, Cursor, MemoryStore, Record, StoreError
from agentic_kernel_engine.record import host_of, owner_name
from agentic_kernel_engine.stored import encode_record

from .fragile_store import FragileStore

Events = Sequence[bytes]


class NoLock(MemoryStore):
    """Checks, lets others have their turn, and then writes what it had decided before."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        stored = await self.load(before.task.id)
        holds = stored.version == before.version and stored.owner == before.owner
        if not holds or stored.task.status.terminal:
            raise Conflict(before.task.id)
        await asyncio.sleep(0)
        self._replace(self._shelf(before.task.id), after, events)


class OneThreadOnly(MemoryStore):
    """Takes it that nothing comes between two lines without an await, and writes a file there."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        shelf = self._shelf(before.task.id)
        stored = shelf.record
        holds = stored.version == before.version and stored.owner == before.owner
        if not holds or stored.task.status.terminal:
            raise Conflict(before.task.id)
        time.sleep(0)  # as a write does, it lets other threads go on  # noqa: ASYNC251
        self._replace(shelf, after, events)


class LoopBound(MemoryStore):
    """Lets writers queue at a lock that belongs to the event loop of the first who waited."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = asyncio.Lock()

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        async with self._turn:
            await asyncio.sleep(0)
            await super().commit(before, after, events)


class StaleCache(MemoryStore):
    """Answers from a cache that only loading fills and nothing empties."""

    def __init__(self) -> None:
        super().__init__()
        self._cache: dict[str, Record] = {}

    async def load(self, task_id: str) -> Record:
        if task_id not in self._cache:
            self._cache[task_id] = await super().load(task_id)
        return self._cache[task_id]


class TornWrite(MemoryStore):
    """Writes the head first and the Task afterwards."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        await super().commit(before, after.changed(task=before.task), events)
        await asyncio.sleep(0)
        self._replace(self._shelf(after.task.id), after, ())


class LateEvents(MemoryStore):
    """Appends a commit's events in a second step."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        await super().commit(before, after)
        await asyncio.sleep(0)
        self._shelf(after.task.id).append(after.version, events)


class LostAppend(MemoryStore):
    """Keeps one event for each version: the last one wins."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        await super().commit(before, after, events[-1:])


class EventsLeftByConflict(MemoryStore):
    """Appends the events before it finds out that the commit does not hold."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        self._shelf(before.task.id).append(after.version, events)
        await super().commit(before, after)


class ResurrectedTerminal(MemoryStore):
    """Looks at version and owner, and not at whether the Task has ended."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        shelf = self._shelf(before.task.id)
        if (shelf.record.version, shelf.record.owner) != (before.version, before.owner):
            raise Conflict(before.task.id)
        self._replace(shelf, after, events)


class IgnoredOwner(MemoryStore):
    """Takes the version for enough."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        stored = await self.load(before.task.id)
        await super().commit(before.changed(owner=stored.owner), after, events)


class SwallowedConflict(MemoryStore):
    """Treats a commit that does not hold as done."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        try:
            await super().commit(before, after, events)
        except Conflict:
            return


class ClaimInTwoSteps(MemoryStore):
    """Tests the owner's liveness first, and takes over afterwards."""

    async def claim(self, task_id: str, host: str, events: Events = ()) -> Record | None:
        stored = await self.load(task_id)
        owned = stored.owner is not None and await self.alive(stored.owner)
        if owned or stored.task.status is not TaskStatus.RUNNING:
            return None
        await asyncio.sleep(0)
        stored = await self.load(task_id)
        version = stored.version + 1
        claimed = stored.changed(
            version=version,
            owner=owner_name(host, version),
            attempts=stored.attempts + 1,
        )
        self._replace(self._shelf(task_id), claimed, events)
        return claimed


class ClaimFromTheLiving(MemoryStore):
    """Takes whoever runs a Task for dead."""

    async def alive(self, owner: str) -> bool:
        return await super().alive(owner)

    def _claimable(self, record: Record) -> bool:
        return record.task.status is TaskStatus.RUNNING


class OwnerWithoutVersion(MemoryStore):
    """Names an owner by the host alone."""

    async def claim(self, task_id: str, host: str, events: Events = ()) -> Record | None:
        claimed = await super().claim(task_id, host, events)
        if claimed is None:
            return None
        named = claimed.changed(owner=f"{host}:0")
        self._replace(self._shelf(task_id), named, ())
        return named


class UnsettledWrite(MemoryStore):
    """Hands a write to a worker and does not wait for it when its caller is cancelled."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        await asyncio.shield(asyncio.create_task(self._later(before, after, events)))

    async def _later(self, before: Record, after: Record, events: Events) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        await super().commit(before, after, events)


class UnorderedPages(MemoryStore):
    """Gives a page in the order in which it happens to find records."""

    async def find(self, **filters: Any) -> Sequence[Record]:
        found = list(await super().find(**filters))
        return found[::-1]


class OverlappingPages(MemoryStore):
    """Begins a page with the id that ended the one before."""

    async def find(self, *, after: Any = None, **filters: Any) -> Sequence[Record]:
        if after is not None:
            after = after[:-1] + chr(max(0, ord(after[-1]) - 1))
        return await super().find(after=after, **filters)


class CollatedIds(MemoryStore):
    """Orders ids as a dictionary for people would."""

    async def find(self, *, after: Any = None, limit: int = 100, **filters: Any) -> Any:
        found = sorted(
            await super().find(limit=1_000_000, **filters),
            key=lambda record: record.task.id.casefold(),
        )
        if after is not None:
            found = [r for r in found if r.task.id.casefold() > after.casefold()]
        return found[:limit]


class CaselessIds(MemoryStore):
    """Keeps ids on a file system that does not tell cases apart."""

    async def load(self, task_id: str) -> Record:
        for stored in self._shelves:
            if stored.casefold() == task_id.casefold():
                return self._shelves[stored].record
        raise TaskNotFound(task_id)


class ForgottenIndex(MemoryStore):
    """Does not move a record between the indexes of owners when it is committed."""

    async def find(self, *, owner: str | None = None, **filters: Any) -> Sequence[Record]:
        found = list(await super().find(**filters))
        if owner is None:
            return found
        return [r for r in found if self._first_owner.get(r.task.id) == owner]

    def __init__(self) -> None:
        super().__init__()
        self._first_owner: dict[str, str] = {}

    async def insert(self, record: Record, events: Events = ()) -> None:
        await super().insert(record, events)
        if record.owner is not None:
            self._first_owner[record.task.id] = host_of(record.owner)


class PrunedHalf(MemoryStore):
    """Removes what ended at the very moment too, as ``<=`` would."""

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        moment = ended_before.replace(microsecond=(ended_before.microsecond + 1) % 1_000_000)
        return await super().prune(moment, limit)


class SharedEvents(MemoryStore):
    """Hands out its own list of events."""

    def __init__(self) -> None:
        super().__init__()
        self._read: dict[str, list[tuple[Cursor, bytes]]] = {}

    async def events(
        self, task_id: str, after: Cursor | None = None, limit: int = 1000
    ) -> Sequence[tuple[Cursor, bytes]]:
        if after is not None:
            return await super().events(task_id, after, limit)
        if task_id not in self._read:
            self._read[task_id] = list(await super().events(task_id, after, limit))
        return self._read[task_id]

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        await super().commit(before, after, events)
        read = self._read.get(after.task.id, [])
        read += [((after.version, index), text) for index, text in enumerate(events)]


class DeafToChange(MemoryStore):
    """Tells only of versions that are higher, and forgets what is not stored."""

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        moved = await super().changed(versions)
        return {task_id: now for task_id, now in moved.items() if now > versions[task_id]}


class MillisecondStamps(MemoryStore):
    """Keeps stamps to the millisecond."""

    async def insert(self, record: Record, events: Events = ()) -> None:
        await super().insert(_coarse(record), events)

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        await super().commit(before, _coarse(after), events)


def _coarse(record: Record) -> Record:
    started = record.task.started_at
    assert started is not None
    stamp = started.replace(microsecond=started.microsecond // 1000 * 1000)
    task = replace(record.task, created_at=stamp, started_at=stamp)
    return record.changed(task=task)


class NumbersAsFloats(MemoryStore):
    """Passes results through a codec that has one kind of number."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        task = after.task
        if task.status is TaskStatus.SUCCESS and type(task.result) is int:
            after = after.changed(task=replace(task, result=float(task.result)))
        await super().commit(before, after, events)


class SlowReaders(MemoryStore):
    """Has its readers wait for the lock that a writer holds."""

    def __init__(self) -> None:
        super().__init__()
        self._gate = asyncio.Lock()

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        async with self._gate:
            await super().commit(before, after, events)

    async def load(self, task_id: str) -> Record:
        async with self._gate:
            return await super().load(task_id)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keep writes, and with them everybody, waiting."""
        async with self._gate:
            yield


class Forgetful(MemoryStore):
    """Says that it is durable, and comes back without the last commit of each Task."""

    def reopened(self) -> Forgetful:
        """What a fresh handle on the same place finds."""
        fresh = Forgetful()
        for task_id, shelf in self._shelves.items():
            fresh._shelves[task_id] = shelf
            fresh._ids.append(task_id)
            shelf.record = shelf.record.changed(state=None)
        return fresh


class Unjoined(MemoryStore):
    """Takes a host for alive as long as its name was ever joined by a longer one."""

    async def alive(self, owner: str) -> bool:
        return any(host.startswith(host_of(owner)) for host in self._hosts)


class LabelBlind(MemoryStore):
    """Takes every label for the one that is asked for."""

    async def find(self, *, labels: Any = None, **filters: Any) -> Sequence[Record]:
        return await super().find(**filters)


class NewestById(MemoryStore):
    """Takes the greatest id for the newest."""

    async def find(self, **options: Any) -> Sequence[Record]:
        page = await super().find(**options)
        if not options.get("newest"):
            return page
        return sorted(page, key=lambda record: record.task.id, reverse=True)


class LostTerms(MemoryStore):
    """Keeps what it writes once, the terms, with the insert alone."""

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        await super().commit(before, after.changed(terms=None), events)


class Rejoining(MemoryStore):
    """Lets a host that left come back under its name."""

    async def join(self, host: str) -> None:
        self._left.discard(host)
        await super().join(host)


class OneAtLeast(MemoryStore):
    """Looks whether the page is full when it has put a record on it."""

    async def find(self, *, limit: int = 100, **filters: Any) -> Sequence[Record]:
        return await super().find(limit=limit or 1, **filters)


class NaiveMoments(MemoryStore):
    """Takes a naive datetime for one in UTC."""

    async def find(self, **options: Any) -> Sequence[Record]:
        moments = ("due", "created_from", "created_before")
        for name in moments:
            given = options.get(name)
            if isinstance(given, datetime) and given.utcoffset() is None:
                options[name] = given.replace(tzinfo=UTC)
        return await super().find(**options)


class StraySuccessor(MemoryStore):
    """Does not look whose record it is that follows."""

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        with self._lock:
            stored = self._shelf(before.task.id)
            record = stored.record
            if record.version != before.version or record.owner != before.owner:
                raise Conflict(before.task.id, record)
            if record.task.status.terminal or after.version != before.version + 1:
                raise Conflict(before.task.id, record)
            self._replace(stored, after, events)


class EqualIsSame(MemoryStore):
    """Writes what differs by ``!=``, and so takes 1 for True."""

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        old, new = before.task, after.task
        if old.metadata == new.metadata and old.noted == new.noted:
            fields = {name: getattr(new, name) for name in Task.__slots__}
            after = after.changed(task=Task(**{**fields, "metadata": old.metadata}))
        await super().commit(before, after, events)


class StoppedByTheBad(FragileStore):
    """Gives up a page at the first record that it cannot read."""

    async def find(self, **options: Any) -> Sequence[Record]:
        page = await MemoryStore.find(self, **options)
        for record in page:
            if record.task.id in self.bad:
                raise self.refusal(record.task.id)
        return page


class ShortOfTheBad(FragileStore):
    """Goes past a record that it cannot read, and does not fill the page."""

    async def find(self, **options: Any) -> Sequence[Record]:
        page = await MemoryStore.find(self, **options)
        return [record for record in page if record.task.id not in self.bad]


class BuriesTheHeld(FragileStore):
    """Buries a bad record whoever holds it."""

    async def bury(self, task_id: str, version: int, *rest: Any, **more: Any) -> Record:
        if task_id in self.bad:
            shelf = self._shelf(task_id)
            shelf.record = shelf.record.changed(owner=None)
        return await super().bury(task_id, version, *rest, **more)


class LimitlessPages(MemoryStore):
    """Filters after it has cut the page to its limit, and so gives short pages or none."""

    async def find(
        self, *, kinds: Collection[str] | None = None, limit: int = 100, **filters: Any
    ) -> Sequence[Record]:
        page = await super().find(limit=limit, **filters)
        return [r for r in page if not kinds or r.task.runtime_kind in kinds]


class EqualExtrasOnce(MemoryStore):
    """Keeps the extras as a set that remembers its order, so a second "yes" is lost."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        task = after.task
        if len(set(map(repr, task.supplements))) < len(task.supplements):
            kept = tuple({repr(extra): extra for extra in task.supplements}.values())
            after = after.changed(task=replace(task, supplements=kept))
        await super().commit(before, after, events)


class FiltersAfterThePage(MemoryStore):
    """Cuts the page first, and leaves out afterwards what living hosts own."""

    async def find(self, **options: Any) -> Sequence[Record]:
        if not options.pop("claimable", False):
            return await super().find(**options)
        options.setdefault("status", TaskStatus.RUNNING)
        page = await super().find(**options)
        return [each for each in page if each.owner is None or not await self.alive(each.owner)]


class SharedAnswers(MemoryStore):
    """Fills the same mapping for every `load_many`."""

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, Record] = {}

    async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
        self._found.update(await super().load_many(task_ids))
        return self._found


class LooksAtAll(MemoryStore):
    """Compares every stored Task with what was asked."""

    looked = 0

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        self.looked += len(await self.find(limit=10_000))
        return await super().changed(versions)


class WritesTheWhole(MemoryStore):
    """Writes the whole record with every commit."""

    bytes = 0

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        await super().commit(before, after, events)
        self.bytes += len(encode_record(after))


class CallsItAFailure(MemoryStore):
    """Says that a commit failed whenever its answer did not come."""

    lost: str | None = None

    @asynccontextmanager
    async def cut(self, where: str) -> AsyncIterator[None]:
        self.lost = where
        try:
            yield
        finally:
            self.lost = None

    async def insert(self, record: Record, events: Events = ()) -> None:
        await self._send(super().insert(record, events))

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        await self._send(super().commit(before, after, events))

    async def claim(self, task_id: str, host: str, events: Events = ()) -> Record | None:
        claimed: Record | None = await self._send(super().claim(task_id, host, events))
        return claimed

    async def _send(self, write: Coroutine[Any, Any, Any]) -> Any:
        lost, self.lost = self.lost, None
        if lost == "before":
            write.close()
            raise StoreError("the connection was closed")
        answer = await write
        if lost == "after":
            raise StoreError("the connection was closed")
        return answer
