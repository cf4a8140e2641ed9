"""PostgresStore: the Store port over one schema of a Postgres database."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, Unpack

import msgspec
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from psycopg_pool import AsyncConnectionPool

from agentic_kernel import InvalidValue, TaskNotFound, TaskStatus
from agentic_kernel_engine import values
from agentic_kernel_engine.cursor import Cursor
from agentic_kernel_engine.errors import Conflict, StoreError, Unreadable
from agentic_kernel_engine.faults import log, said
from agentic_kernel_engine.moments import aware
from agentic_kernel_engine.readback import landed
from agentic_kernel_engine.record import Record, host_of, owner_name
from agentic_kernel_engine.search import Search, SearchOptions, page_size
from agentic_kernel_engine.store import StoreTraits
from agentic_kernel_engine.stored import buried

from . import queries
from .event_loops import EventLoops, connected
from .facets import facets_of, listed_of
from .keeper import Keeper
from .listing import list_all
from .place import check_place, name_of
from .rows import OWNER, from_row, head_of, input_of
from .schema import check_name, migrate
from .session import Row, Session
from .writer import Writer
from .writes import Outcome, OwnerLives, Write, lapsed

_log: Final = logging.getLogger(__name__)
LOOKS: Final = 1000
"""The most looks of a claim before it gives up; each look means that another claim won."""
_SOME: Final = 100
"""Tasks that are read, or removed, in one statement."""
_REMEMBERED: Final = 10_000
"""Unreadable records that the store remembers to have logged."""
_LONGEST: Final = 1e9
"""Seconds, about thirty years; the database cannot add much more to a time."""
_LAST: Final = (1 << 31) - 2
"""The last version that has a successor."""


class _Open:
    """The open parts of a store on one event loop."""

    def __init__(self, session: Session, writer: Writer) -> None:
        self.session = session
        self.writer = writer
        self._listed = False

    async def list_all(self) -> None:
        """Add the search columns of the Tasks that processes of version 0.1 have inserted."""
        if not self._listed:
            self._listed = await list_all(self.session)

    async def close(self) -> None:
        await self.writer.close()
        self.session.close()


class PostgresStore:
    """A `Store` in one schema of a Postgres database, for any number of processes and machines.

    Durable means: as durable as a commit of the server. A server with settings that weaken this is
    refused. A write that returned survives the death of every process. If the answer to a write is
    lost, the store reads back whether it landed. Commits of several Tasks that wait at the same
    time share one round trip and one transaction; each of them is accepted or refused by itself.
    Reads wait for no writer and always ask the primary.

    A host is alive while its lease lasts, by the clock of the database. A thread renews the lease,
    independent of the event loop. A lease that ran out is never renewed, and its host writes
    nothing more.

    One object serves all threads and event loops of its process, but not a forked child.

    Args:
        place: The database: a ``postgresql://`` URL, another connection string, or an open pool of
            the caller. A pool serves its own event loop only, and the store does not close it. The
            default is ``DATABASE_URL``; without it, the server of the extra ``embedded``, which
            keeps its data in ``.agentic-kernel/postgres``.
        schema: The store's schema in the database, made if it does not exist. Several stores may
            share one database.
        lease: Seconds that a host stays alive without a renewal by its process.
        timeout: A call waits at most this many seconds for a connection, and then again at most
            this many seconds for its answer.
    """

    traits = StoreTraits(listens=True)

    def __init__(
        self,
        place: str | AsyncConnectionPool[Any] | None = None,
        *,
        schema: str = "agentic_kernel",
        lease: float = 10.0,
        timeout: float = 10.0,
    ) -> None:
        self.schema = check_name(schema)
        self._given = check_place(place)
        self._lease = _seconds("lease", lease)
        self._timeout = _seconds("timeout", timeout)
        self._lock = threading.Lock()
        self._loops = EventLoops(place, "store", self._made)
        self._keeper: Keeper | None = None
        self._listeners: list[Callable[[str], None]] = []
        self._passed: dict[str, int] = {}
        """The ids of the unreadable records that were logged, with their versions."""

    def __repr__(self) -> str:
        return f"PostgresStore({name_of(self._given)!r}, schema={self.schema!r})"

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def join(self, host: str) -> None:
        if not queries.storable(host):
            raise InvalidValue(
                "host", "must be a string that is not empty, without NUL or lone surrogates"
            )
        opened = await self._open()
        await opened.session.query(queries.JOIN, [host, f"{self._lease} seconds"])
        if not await self._alive(opened, host):
            raise lapsed(host)
        if self._keeper is not None:  # None: the store was closed meanwhile
            self._keeper.keep(host)

    async def leave(self, host: str) -> None:
        if not queries.storable(host):
            return  # a host with such a name never joined, and never can
        opened = await self._open()
        if self._keeper is not None:
            self._keeper.drop(host)
        await opened.session.query(queries.LEAVE, [host])

    async def alive(self, owner: str) -> bool:
        return await self._alive(await self._open(), host_of(owner))

    async def _alive(self, opened: _Open, host: str) -> bool:
        if not queries.storable(host):
            return False
        rows = await opened.session.query(queries.ALIVE, [host])
        if not rows:
            return False
        alive, gone = rows[0]
        if alive or gone:
            return bool(alive)
        # No renewal may revive a host that was once reported dead.
        await opened.session.query(queries.LAPSE, [host])
        rows = await opened.session.query(queries.ALIVE, [host])
        return bool(rows and rows[0][0])

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        values.check_id(record.task.id, "task.id")
        opened = await self._open()
        await opened.writer.write(Write(None, record, events))

    async def load(self, task_id: str) -> Record:
        for row in await self._read(queries.LOAD, [task_id]) if _storable(task_id) else ():
            return from_row(row)
        raise TaskNotFound(task_id)

    async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
        ids = [task_id for task_id in task_ids if _storable(task_id)]
        found = map(self._readable, await self._read(queries.LOAD_MANY, [ids]))
        return {record.task.id: record for record in found if record is not None}

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        task_id = before.task.id
        if after.version != before.version + 1 or after.task.id != task_id:
            raise Conflict(task_id)
        if not _storable(task_id):
            raise TaskNotFound(task_id)
        if not 0 < before.version <= _LAST:
            raise Conflict(task_id)
        opened = await self._open()
        await opened.writer.write(Write(before, after, events))

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        for _ in range(LOOKS):
            before = await self.load(task_id)
            if before.task.status is not TaskStatus.RUNNING:
                return None
            version = before.version + 1
            owner, attempts = owner_name(host, version), before.attempts + 1
            after = before.changed(version=version, owner=owner, attempts=attempts)
            opened = await self._open()
            try:
                await opened.writer.write(Write(before, after, events, claims=True))
            except OwnerLives:
                return None
            except Conflict:
                continue  # another writer was first, so the system made progress
            return after
        raise StoreError(
            f"task {task_id!r} is contended: other writers were faster in {LOOKS} attempts to "
            "claim it; try again"
        )

    async def events(
        self, task_id: str, after: Cursor | None = None, limit: int = 1000
    ) -> Sequence[tuple[Cursor, bytes]]:
        asked = [*queries.beyond(after), page_size(limit), task_id]
        rows = await self._read(queries.EVENTS, asked) if _storable(task_id) else []
        if not rows:
            raise TaskNotFound(task_id)
        return [((version, place), text) for version, place, text in rows if text is not None]

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        known = {id: _compared(version) for id, version in versions.items() if _storable(id)}
        rows = await self._read(queries.CHANGED, [list(known), list(known.values())])
        never = {id: 0 for id, version in versions.items() if version and id not in known}
        return {**never, **dict(rows)}

    async def find(self, **options: Unpack[SearchOptions]) -> Sequence[Record]:
        search = Search.of(**options)
        if queries.impossible(search):
            return []
        opened = await self._open()
        if queries.asks_facets(search):
            await opened.list_all()
        exact = msgspec.structs.replace(search, claimable=False)
        found: list[Record] = []
        while True:
            rows = await opened.session.query(*queries.find(search))
            for record in map(self._readable, rows):
                # The index finds by digest, so the values themselves are compared here.
                if record is not None and exact.matches(record):
                    found.append(record)
            missing = exact.limit - len(found)
            if missing <= 0 or len(rows) < search.limit:
                return found[: exact.limit]
            # Continue after the unreadable records, in pages of at least _SOME rows.
            search = queries.following(search, rows[-1], max(missing, _SOME))

    async def unreadable(self, after: str | None = None, limit: int = 100) -> Sequence[Unreadable]:
        search = Search.of(after=after, limit=limit)
        found: list[Unreadable] = []
        opened = await self._open()
        search = msgspec.structs.replace(search, limit=_SOME)
        while len(found) < limit:
            rows = await opened.session.query(*queries.find(search))
            for row in rows:
                try:
                    from_row(row)
                except Unreadable as fault:
                    found.append(fault)
            if len(rows) < _SOME:
                break
            search = queries.following(search, rows[-1], _SOME)
        return found[:limit]

    async def bury(
        self,
        task_id: str,
        version: int,
        events: Sequence[bytes] = (),
        *,
        force: bool = False,
        at: datetime | None = None,
    ) -> Record:
        opened = await self._open()
        moment = None if at is None else aware("at", at)
        rows = await opened.session.query(queries.LOAD, [task_id]) if _storable(task_id) else []
        if not rows:
            raise TaskNotFound(task_id)
        try:
            raise Conflict(task_id, from_row(rows[0]))
        except Unreadable as fault:
            if fault.version != version or version > _LAST:
                raise Conflict(task_id) from fault
            if fault.newer and not force:
                raise
        ((now, last),) = await opened.session.query(queries.LAST, [task_id])
        # A damaged version may be lower than the version of events that stay.
        after = buried(task_id, max(version, last) + 1, moment or aware("now", now))
        owner = rows[0][OWNER]
        holder = None if owner is None else host_of(owner)
        asked = [
            task_id, version, after.version, holder, after.task.runtime_kind, after.task.created_at,
            facets_of(after), listed_of(after), input_of(after), head_of(after),
            b"".join(events), [len(text) for text in events], self._channel,
        ]  # fmt: skip
        ((outcome,),) = await opened.session.query(queries.BURY, asked)
        if outcome == Outcome.LIVES:
            raise StoreError(
                f"task {task_id!r} cannot be buried, because host {holder} owns it and is alive; "
                "kill the Task there, or end that host"
            )
        if outcome == Outcome.UNKNOWN:
            raise TaskNotFound(task_id)
        if outcome != Outcome.LANDED:
            raise Conflict(task_id)
        return after

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        bound, most = aware("ended_before", ended_before), page_size(limit)
        opened = await self._open()
        removed, passed = 0, list[int]()
        while removed < most:
            some = min(_SOME, most - removed)
            rows = await opened.session.query(queries.ENDED, [bound, passed, some])
            passed += [row[-1] for row in rows]  # unreadable and owned Tasks are not removed
            ended = [row[-1] for row in rows if self._ended(row, bound)]
            if ended:
                ((count,),) = await opened.session.query(queries.PRUNE, [ended])
                removed += count
            if len(rows) < some:
                break
        return removed

    def listen(self, tell: Callable[[str], None]) -> Callable[[], None]:
        """Call ``tell`` with the id of each Task that any process has written to.

        Not reported are inserts, claims, and an owner's own steps on its running Task. A thread of
        the store calls ``tell``, which must not block. News may be lost while the connection is
        lost, so a caller that needs every change also asks `changed`.

        Returns:
            A function that ends the listening.
        """
        self._listeners.append(tell)
        if self._keeper is not None:
            self._keeper.start()

        def end() -> None:
            with suppress(ValueError):
                self._listeners.remove(tell)

        return end

    async def close(self) -> None:
        """Finish the writes under way, stop renewing leases, and close all connections."""
        self._loops.closed = True
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            await asyncio.to_thread(keeper.close)
        await self._loops.close()

    async def _read(self, text: str, asked: Sequence[object]) -> list[Row]:
        opened = await self._open()
        return await opened.session.query(text, asked)

    async def _open(self) -> _Open:
        """The open parts on the running event loop; the first call opens them.

        Raises:
            StoreError: The database cannot be reached, or does not meet the requirements.
        """
        return await self._loops.here()

    async def _made(self) -> _Open:
        session, conninfo = await connected(
            self._given, self.schema, self._timeout, self._prepare, self._timeout
        )
        with self._lock:
            if self._keeper is None:
                self._keeper = Keeper(conninfo, self.schema, self._channel, self._lease, self._tell)
                if self._listeners:
                    self._keeper.start()
        opened = _Open(session, Writer(session, self._channel, self._landed))
        await opened.list_all()
        return opened

    @property
    def _channel(self) -> str:
        return f"{self.schema}_news"

    async def _prepare(self, connection: AsyncConnection[Any]) -> str:
        """Migrate the schema, and return the connection string of the same database."""
        await migrate(connection, self.schema, name_of(self._given))
        password = connection.info.password
        return make_conninfo(connection.info.dsn, **({"password": password} if password else {}))

    def _readable(self, row: Row) -> Record | None:
        """The Record of a row, or None with one log message if the row cannot be read."""
        try:
            return from_row(row)
        except Unreadable as fault:
            if self._passed.get(fault.task_id) != fault.version:
                if len(self._passed) >= _REMEMBERED:
                    self._passed.clear()
                self._passed[fault.task_id] = fault.version
                _log.warning(
                    "%s: passed over an unreadable record: %s", name_of(self._given), said(fault)
                )
            return None

    def _ended(self, row: Row, bound: datetime) -> bool:
        record = self._readable(row)
        ended = None if record is None else record.task.ended_at
        return ended is not None and ended < bound

    async def _landed(self, after: Record, texts: Sequence[bytes]) -> bool:
        return await landed(self, after, texts)

    def _tell(self, task_id: str) -> None:
        for tell in list(self._listeners):
            try:
                tell(task_id)
            except Exception as fault:  # a listener's error must not stop the lease renewal
                log(_log, fault, "a listener failed on news of task %r", task_id)


def _seconds(name: str, value: Any) -> float:
    """A number of seconds for a lease or a timeout.

    Raises:
        InvalidValue: The value is not a number, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidValue(name, f"must be a number of seconds, not {type(value).__name__}")
    if not 0 < value <= _LONGEST:  # true for NaN, too
        raise InvalidValue(name, f"must be over 0 and up to {_LONGEST:g} seconds")
    return float(value)


def _compared(version: Any) -> int:
    """A version that the database can compare; -1 for a value that no record can have."""
    return version if isinstance(version, int) and 0 <= version <= _LAST + 1 else -1


_storable: Final = queries.storable
