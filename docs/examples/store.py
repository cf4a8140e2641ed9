"""The skeleton of a store that keeps records as text, and a Host on it."""

# --8<-- [start:store]
import asyncio
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Unpack

from agentic_kernel import InvalidValue, Task, TaskExists, TaskNotFound
from agentic_kernel_engine import (
    Conflict,
    Cursor,
    Host,
    HostGone,
    Job,
    Record,
    Search,
    SearchOptions,
    StoreError,
    StoreTraits,
    Unreadable,
    host_of,
    owner_name,
)
from agentic_kernel_engine.moments import aware
from agentic_kernel_engine.search import created, page_size
from agentic_kernel_engine.stored import buried, decode_record, encode_record, unreadable


class TextStore:
    traits = StoreTraits(never_waits=True)  # A lock that is held for a moment is fine.

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.rows: dict[str, tuple[int, str | None, bytes]] = {}  # version, owner, text
        self.log: dict[str, list[tuple[Cursor, bytes]]] = {}
        self.hosts: set[str] = set()
        self.left: set[str] = set()

    async def join(self, host: str) -> None:
        if host in self.left:
            raise HostGone(host)
        self.hosts.add(host)

    async def leave(self, host: str) -> None:
        self.hosts.discard(host)
        self.left.add(host)

    async def alive(self, owner: str) -> bool:
        return host_of(owner) in self.hosts

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        with self.lock:
            if record.task.id in self.rows:
                raise TaskExists(record.task.id)
            self._put(record, events)

    async def load(self, task_id: str) -> Record:
        version, _, text = self._row(task_id)
        try:
            return decode_record(text)
        except InvalidValue as fault:
            raise unreadable(task_id, version, fault, text) from fault

    async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
        return {record.task.id: record for record in await self._readable(task_ids)}

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        with self.lock:
            stored = await self.load(before.task.id)
            now, then = (stored.version, stored.owner), (before.version, before.owner)
            moved = now != then or stored.task.status.terminal
            if moved or after.version != now[0] + 1 or after.task.id != before.task.id:
                raise Conflict(before.task.id, stored)
            self._put(after, events)

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        with self.lock:
            stored = await self.load(task_id)
            if not Search.of(claimable=True).matches(stored, self._gone([stored])):
                return None
            version, attempts = stored.version + 1, stored.attempts + 1
            owner = owner_name(host, version)
            claimed = stored.changed(version=version, owner=owner, attempts=attempts)
            self._put(claimed, events)
            return claimed

    async def events(
        self, task_id: str, after: Cursor | None = None, limit: int = 1000
    ) -> Sequence[tuple[Cursor, bytes]]:
        self._row(task_id)
        found = [each for each in self.log[task_id] if after is None or each[0] > tuple(after)]
        return found[: page_size(limit)]

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        now = {id: self.rows[id][0] if id in self.rows else 0 for id in versions}
        return {task_id: now[task_id] for task_id in versions if now[task_id] != versions[task_id]}

    async def find(self, **options: Unpack[SearchOptions]) -> Sequence[Record]:
        search = Search.of(**options)
        records = await self._readable(sorted(self.rows))
        gone = self._gone(records)
        found = [record for record in records if search.matches(record, gone)]
        if search.newest:
            found.sort(key=created, reverse=True)
            place = search.older_than
            found = [record for record in found if place is None or created(record) < place]
        elif search.after is not None:
            found = [record for record in found if record.task.id > search.after]
        return found[: search.limit]

    async def unreadable(self, after: str | None = None, limit: int = 100) -> Sequence[Unreadable]:
        search = Search.of(after=after, limit=limit)
        found: list[Unreadable] = []
        for task_id in sorted(self.rows):
            try:
                await self.load(task_id)
            except Unreadable as bad:
                if search.after is None or task_id > search.after:
                    found.append(bad)
        return found[: search.limit]

    async def bury(
        self,
        task_id: str,
        version: int,
        events: Sequence[bytes] = (),
        *,
        force: bool = False,
        at: datetime | None = None,
    ) -> Record:
        when = datetime.now(UTC) if at is None else aware("at", at)
        with self.lock:
            try:
                raise Conflict(task_id, await self.load(task_id))
            except Unreadable as bad:
                if bad.newer and not force:
                    raise
            now, owner, _ = self._row(task_id)  # Beside the text, so known although it is damaged.
            if now != version:
                raise Conflict(task_id)
            if owner is not None and host_of(owner) in self.hosts:
                raise StoreError("a living host owns it; kill the Task there, or end that host")
            record = buried(task_id, version + 1, when)
            self._put(record, events)
            return record

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        bound, most = aware("ended_before", ended_before), page_size(limit)
        with self.lock:
            tasks = [record.task for record in await self._readable(list(self.rows))]
            old = [each.id for each in tasks if each.ended_at and each.ended_at < bound][:most]
            for task_id in old:
                del self.rows[task_id], self.log[task_id]
        return len(old)

    def _row(self, task_id: str) -> tuple[int, str | None, bytes]:
        try:
            return self.rows[task_id]
        except KeyError:
            raise TaskNotFound(task_id) from None

    def _put(self, record: Record, events: Sequence[bytes]) -> None:
        task_id = record.task.id
        self.rows[task_id] = record.version, record.owner, encode_record(record)
        new = [((record.version, index), text) for index, text in enumerate(events)]
        self.log.setdefault(task_id, []).extend(new)

    def _gone(self, records: Iterable[Record]) -> Collection[str]:
        owners = {host_of(record.owner) for record in records if record.owner is not None}
        return owners - self.hosts

    async def _readable(self, task_ids: Iterable[str]) -> list[Record]:
        found: list[Record] = []
        for task_id in task_ids:
            with suppress(Unreadable, TaskNotFound):  # One bad record hides no other.
                found.append(await self.load(task_id))
        return found


class Echo:
    async def execute(self, job: Job) -> str:
        return job.task.instructions


async def main() -> None:
    async with Host(Echo(), TextStore()) as host:
        task = Task.new(summary="", instructions="hello", runtime_kind="echo")
        print((await host.run(task)).result)


asyncio.run(main())
# --8<-- [end:store]
