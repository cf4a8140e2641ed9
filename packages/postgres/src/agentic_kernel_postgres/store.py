"""PostgresStore: the Store port over one schema of a Postgres database."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from psycopg_pool import AsyncConnectionPool

from agentic_kernel import InvalidValue, TaskNotFound, TaskStatus
from agentic_kernel_engine import values
from agentic_kernel_engine.errors import Conflict, StoreError
from agentic_kernel_engine.mutators import LOOKS, landed
from agentic_kernel_engine.record import Record, host_of, owner_name
from agentic_kernel_engine.store import EventId

from . import queries
from .event_loops import EventLoops, connected
from .keeper import Keeper
from .place import name_of
from .rows import from_row
from .schema import check_name, check_server, migrate
from .session import Row, Session
from .writer import Writer
from .writes import OwnerLives, Write, lapsed

_log: Final = logging.getLogger(__name__)
_OLD: Final = 100
"""How many Tasks are removed in one transaction."""
_LAST: Final = (1 << 31) - 2
"""The last version that has a successor."""


class _Open:
    """What a store has on one event loop."""

    def __init__(self, session: Session, writer: Writer) -> None:
        self.session = session
        self.writer = writer

    async def close(self) -> None:
        await self.writer.close()
        self.session.close()


class PostgresStore:
    """A `Store` in one schema of a Postgres database, for any number of processes and machines.

    Durable means: as durable as the server makes what it has committed; one whose settings make it
    less is refused. A write that returned survives the death of every process; one whose answer is
    lost is settled by reading back. Commits of several Tasks that wait at the same time share one
    round trip and one transaction, in which each holds or is refused for itself. Reads wait for no
    writer and always ask the primary.

    A host is alive while its lease lasts, by the clock of the database. A thread renews it,
    whatever the event loop does. One that ran out is never renewed, and its host writes nothing
    more.

    One object serves all threads and event loops of its process, but not a forked child.

    Args:
        place: Where the database is: a ``postgresql://`` URL or other connection string, or an
            open pool of the caller's own, which then serves its own event loop only and is not
            closed. By default what ``DATABASE_URL`` says; without it, the server of the extra
            ``embedded``, which keeps its data in ``.agentic-kernel/postgres``.
        schema: The store's part of the database, made if it is not there. Several stores may
            share one database.
        lease: For how many seconds a host stays alive without a word from its process.
        timeout: For how many seconds a call waits for a connection, and a write for its answer.
    """

    def __init__(
        self,
        place: str | AsyncConnectionPool[Any] | None = None,
        *,
        schema: str = "agentic_kernel",
        lease: float = 10.0,
        timeout: float = 10.0,
    ) -> None:
        self.schema = check_name(schema)
        if lease <= 0 or timeout <= 0:
            raise InvalidValue("lease, timeout", "must be positive numbers of seconds")
        self._given = place
        self._lease = lease
        self._timeout = timeout
        self._lock = threading.Lock()
        self._loops = EventLoops(place, "store", self._made)
        self._keeper: Keeper | None = None
        self._listeners: list[Callable[[str], None]] = []

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
        opened = await self._open()
        await opened.session.query(queries.JOIN, [host, f"{self._lease} seconds"])
        if not await self._alive(opened, host):
            raise lapsed(host)
        if self._keeper is not None:  # it is not closed meanwhile
            self._keeper.keep(host)

    async def leave(self, host: str) -> None:
        opened = await self._open()
        if self._keeper is not None:
            self._keeper.drop(host)
        await opened.session.query(queries.LEAVE, [host])

    async def alive(self, owner: str) -> bool:
        return await self._alive(await self._open(), host_of(owner))

    async def _alive(self, opened: _Open, host: str) -> bool:
        if not _storable(host):
            return False
        rows = await opened.session.query(queries.ALIVE, [host])
        if not rows:
            return False
        alive, gone = rows[0]
        if alive or gone:
            return bool(alive)
        # No renewal may bring back a host that was once told to be dead.
        await opened.session.query(queries.BURY, [host])
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
        found = map(from_row, await self._read(queries.LOAD_MANY, [ids]))
        return {record.task.id: record for record in found}

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
                continue  # another one has written, and got on by it
            return after
        raise StoreError(f"task {task_id!r} is contended: {LOOKS} claims in a row were too late")

    async def events(
        self, task_id: str, after: EventId | None = None, limit: int = 1000
    ) -> Sequence[tuple[EventId, bytes]]:
        asked = [*queries.beyond(after), max(limit, 0), task_id]
        rows = await self._read(queries.EVENTS, asked) if _storable(task_id) else []
        if not rows:
            raise TaskNotFound(task_id)
        return [((version, place), text) for version, place, text in rows if text is not None]

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        known = {task_id: version for task_id, version in versions.items() if _storable(task_id)}
        rows = await self._read(queries.CHANGED, [list(known), list(known.values())])
        never = {id: 0 for id, version in versions.items() if version and id not in known}
        return {**never, **dict(rows)}

    async def find(
        self,
        *,
        status: TaskStatus | None = None,
        kinds: Collection[str] | None = None,
        owner: str | None = None,
        claimable: bool = False,
        parent: str | None = None,
        due: datetime | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Sequence[Record]:
        text, asked = queries.find(
            status=status, kinds=kinds, owner=owner, claimable=claimable,
            parent=parent, due=due, after=after, limit=limit,
        )  # fmt: skip
        return [from_row(row) for row in await self._read(text, asked)]

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        opened = await self._open()
        removed = 0
        while removed < limit:
            some = min(_OLD, limit - removed)
            ((count,),) = await opened.session.query(queries.PRUNE, [ended_before, some])
            removed += count
            if count < some:
                break
        return removed

    def listen(self, tell: Callable[[str], None]) -> Callable[[], None]:
        """Have ``tell`` called with the id of each Task that any process has written to.

        Only of writes that concern others: those that are not an owner's own on its running Task.
        It is called in a thread of the store's, and must not block. News may be lost while the
        connection is; whoever needs all of it asks `changed` as well.

        Returns:
            What ends it.
        """
        self._listeners.append(tell)
        if self._keeper is not None:
            self._keeper.start()

        def end() -> None:
            with suppress(ValueError):
                self._listeners.remove(tell)

        return end

    async def close(self) -> None:
        """Finish what is under way and give everything back; leases are not renewed any more."""
        self._loops.closed = True
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            await asyncio.to_thread(keeper.close)
        await self._loops.close()

    async def _read(self, text: str, asked: Sequence[object]) -> list[Row]:
        opened = await self._open()
        return await opened.session.query(text, asked)

    async def _open(self) -> _Open:
        """What there is on this event loop; opened with the first call.

        Raises:
            StoreError: The database cannot be reached, or is not fit.
        """
        return await self._loops.here()

    async def _made(self) -> _Open:
        session, conninfo = await connected(self._given, self.schema, self._timeout, self._prepare)
        channel = f"{self.schema}_news"
        with self._lock:
            if self._keeper is None:
                self._keeper = Keeper(conninfo, self.schema, channel, self._lease, self._tell)
                if self._listeners:
                    self._keeper.start()
        return _Open(session, Writer(session, channel, self._landed))

    async def _prepare(self, connection: AsyncConnection[Any]) -> str:
        """Check the server, migrate the schema, and say how to connect to the same database."""
        await check_server(connection, name_of(self._given))
        await migrate(connection, self.schema, name_of(self._given))
        password = connection.info.password
        return make_conninfo(connection.info.dsn, **({"password": password} if password else {}))

    async def _landed(self, after: Record, texts: Sequence[bytes]) -> bool:
        return await landed(self, after, texts)

    def _tell(self, task_id: str) -> None:
        for tell in list(self._listeners):
            try:
                tell(task_id)
            except Exception:  # whatever a listener does, leases are renewed
                _log.exception("a listener failed on news of task %r", task_id)


def _storable(text: str) -> bool:
    """Whether the database could hold a text; what it cannot, it does not."""
    try:
        return "\0" not in text and bool(text.encode())
    except UnicodeEncodeError:
        return False
