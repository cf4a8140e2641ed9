"""Stores on Postgres with one mistake each, such as a real author might make.

Each is caught by the check that it is named with in `faults`, which `PostgresStore` passes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from psycopg_pool import PoolTimeout

from agentic_kernel_engine import Conflict, Record, StoreError
from agentic_kernel_postgres import PostgresStore, SchemaTooNew, queries
from agentic_kernel_postgres.keeper import Keeper
from agentic_kernel_postgres.schema import check_server, migrations
from agentic_kernel_postgres.session import Row, Session, cursor_of
from agentic_kernel_postgres.store import _Open
from agentic_kernel_postgres.writer import Writer
from agentic_kernel_postgres.writes import Write

Connection = AsyncConnection[Any]


class BlindRetry(PostgresStore):
    """Sends a write whose answer was lost again, without looking whether it landed."""

    async def _landed(self, after: Record, texts: Sequence[bytes]) -> bool:
        return False


class LostIsDone(PostgresStore):
    """Takes a write whose answer was lost for done."""

    async def _landed(self, after: Record, texts: Sequence[bytes]) -> bool:
        return True


class LostIsFailed(PostgresStore):
    """Reports a write whose answer was lost as one that failed."""

    class _Writer(Writer):
        async def _look_back(self, writes: list[Write], error: Exception) -> None:
            for write in writes:
                write.settle(StoreError(f"the write failed: {error}"))

    async def _made(self) -> _Open:
        return _with_writer(await super()._made(), self._Writer)


class RetryOnTop(PostgresStore):
    """Retries a write whose answer was lost on top of what it finds, as after a reload."""

    class _Writer(Writer):
        async def _look_back(self, writes: list[Write], error: Exception) -> None:
            await self._session.settle()
            for write in writes:
                asked = [[write.item.id], [0]]
                for _, version in await self._session.query(queries.CHANGED, asked):
                    write.item.before = version
                    write.item.held = write.after.owner
            self._try_again(writes, StoreError(str(error)))

    async def _made(self) -> _Open:
        return _with_writer(await super()._made(), self._Writer)


class LooksTooEarly(PostgresStore):
    """Reads back as soon as the server answers, while what was sent may still arrive."""

    async def _made(self) -> _Open:
        opened = await super()._made()
        session = opened.session

        async def settle() -> None:
            async with session.connection() as connection:
                await connection.execute("SELECT 1")
            session.doubts.clear()

        session.settle = settle  # type: ignore[method-assign]
        return opened


def _with_writer(opened: _Open, kind: type[Writer]) -> _Open:
    former = opened.writer
    opened.writer = kind(opened.session, former._channel, former._landed)
    return opened


class HoldsAndWaits(PostgresStore):
    """Commits on a second connection, while it holds the one on which it has looked."""

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        opened = await self._open()
        async with opened.session.connection() as connection:
            text = f"SELECT version FROM {self.schema}.heads WHERE id = %s"
            cursor = await cursor_of(connection).execute(text, [before.task.id])
            if await cursor.fetchone() != (before.version,):
                raise Conflict(before.task.id)
            await super().commit(before, after, events)


class WaitsForEver(PostgresStore):
    """Waits for a connection for as long as it takes."""

    async def _made(self) -> _Open:
        opened = await super()._made()
        opened.session.timeout = 24 * 3600
        return opened


class LandsAfterAll(PostgresStore):
    """Tells its caller that there is no connection, and leaves the write in the queue."""

    class _Writer(Writer):
        def _refuse(self, fault: Exception) -> None:
            waiting = list(self._queue)
            super()._refuse(fault)
            self._queue.extend(waiting)

        async def _serve(self) -> None:
            try:
                await self._serve_some()
            finally:
                self._task = None

    async def _made(self) -> _Open:
        return _with_writer(await super()._made(), self._Writer)


class LeaksConnections(PostgresStore):
    """Gives a connection back when a read returns or fails, and not when it is cancelled."""

    async def _read(self, text: str, asked: Sequence[object]) -> list[Row]:
        session = (await self._open()).session
        try:
            connection = await session._pool.getconn(timeout=session.timeout)
        except PoolTimeout as error:
            raise StoreError(f"no connection became free: {error}") from error
        try:
            cursor = await cursor_of(connection).execute(text.format(schema=self.schema), asked)
            rows = await cursor.fetchall()
        except psycopg.Error as error:
            await session._pool.putconn(connection)
            raise StoreError(str(error)) from error
        await session._pool.putconn(connection)
        return rows


class WorkersClock(PostgresStore):
    """Writes down by the worker's clock until when a lease goes."""

    class _Keeper(Keeper):
        def _renew_all(self, connection: psycopg.Connection[Any]) -> None:
            until = datetime.fromtimestamp(time.time() + self._lease, UTC)
            text = self._renew.replace("clock_timestamp() + %s::interval", "%s", 1)
            connection.execute(text, [until, list(self._hosts)])

    async def _made(self) -> _Open:
        opened = await super()._made()
        former = self._keeper
        assert former is not None
        self._keeper = self._Keeper(
            former._conninfo, self.schema, former._channel, self._lease, self._tell
        )
        return opened


class JudgesByItsClock(PostgresStore):
    """Compares with the worker's clock whether a lease has run out."""

    async def alive(self, owner: str) -> bool:
        opened = await self._open()
        text = "SELECT until FROM {schema}.hosts WHERE name = %s AND NOT gone"
        rows = await opened.session.query(text, [owner.rpartition(":")[0]])
        return bool(rows) and rows[0][0].timestamp() > time.time()


class EternalLease(PostgresStore):
    """Has leases of a lifetime, and trusts that whoever goes will say so."""

    def __init__(self, *place: Any, **options: Any) -> None:
        super().__init__(*place, **{**options, "lease": 1e9})


class RenewsTheDead(PostgresStore):
    """Renews whatever is not marked as gone, however late it comes."""

    async def _made(self) -> _Open:
        opened = await super()._made()
        assert self._keeper is not None
        self._keeper._renew = self._keeper._renew.replace(" AND until > clock_timestamp()", "")
        return opened


class WritesAreHeartbeats(PostgresStore):
    """Takes every write of a host for a sign of life, and renews its lease first."""

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        opened = await self._open()
        host = (before.owner or "").rpartition(":")[0]
        await opened.session.query(queries.JOIN.replace(
            "DO NOTHING", "(name) DO UPDATE SET until = EXCLUDED.until"
        ), [host, f"{self._lease} seconds"])  # fmt: skip
        await super().commit(before, after, events)


class CommitsUnflushed(PostgresStore):
    """Has its connections commit asynchronously, once the server was found fit."""

    async def _made(self) -> _Open:
        opened = await super()._made()
        assert isinstance(self._given, str)
        at = make_conninfo(self._given, options="-c synchronous_commit=off")
        fast = Session(at, self.schema, opened.session.name, self._timeout)
        former = opened.writer
        opened.session.close()
        return _Open(fast, Writer(fast, former._channel, former._landed))


class LeasesUnlogged(PostgresStore):
    """Keeps leases where they cost no log, for they are short-lived anyway."""

    async def _prepare(self, connection: Connection) -> str:
        prepared = await super()._prepare(connection)
        await connection.execute(f"ALTER TABLE {self.schema}.hosts SET UNLOGGED")
        return prepared


class FailsWhileDown(PostgresStore):
    """Tells every run of a server that is not there, instead of waiting for it."""

    async def _made(self) -> _Open:
        opened = await super()._made()
        opened.session.timeout = 0.01
        return opened


class MigratesWithoutLock(PostgresStore):
    """Trusts that steps which may be taken twice may also be taken at once."""

    async def _prepare(self, connection: Connection) -> str:
        await check_server(connection, self.schema)
        there = "SELECT to_regclass(%s)"
        found = await connection.execute(there, [f"{self.schema}.versions"])
        if await found.fetchone() == (None,):
            await _take_all(connection, self.schema)
        return await super()._prepare(connection)


class LooksBeforeTheLock(PostgresStore):
    """Looks which steps are missing, takes the lock, and does not look again."""

    async def _prepare(self, connection: Connection) -> str:
        found = await connection.execute("SELECT to_regclass(%s)", [f"{self.schema}.versions"])
        if await found.fetchone() == (None,):
            async with connection.transaction():
                lock = "SELECT pg_advisory_xact_lock(hashtext(%s))"
                await connection.execute(lock, [self.schema])
                await _take_all(connection, self.schema)
        return await super()._prepare(connection)


async def _take_all(connection: Connection, schema: str) -> None:
    versions = "(version integer PRIMARY KEY, oldest integer, made timestamptz DEFAULT now())"
    await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    await connection.execute(f"CREATE TABLE IF NOT EXISTS {schema}.versions {versions}")
    for step in migrations():
        await connection.execute(step.text.replace("@schema@", schema))
        noted = f"INSERT INTO {schema}.versions VALUES ({step.version}, {step.oldest})"
        await connection.execute(noted)


class OpensAnything(PostgresStore):
    """Takes a schema that is too new for one that is new enough."""

    async def _prepare(self, connection: Connection) -> str:
        try:
            return await super()._prepare(connection)
        except SchemaTooNew:
            return connection.info.dsn


class ReadsWhateverThereIs(PostgresStore):
    """Reads ``SELECT *`` with prepared statements, which break when a column is added."""

    async def load(self, task_id: str) -> Record:
        await self._read("SELECT * FROM {schema}.heads WHERE id = %s", [task_id])
        return await super().load(task_id)


class UpdatesWithoutVersion(PostgresStore):
    """Leaves the version out of the WHERE of its UPDATE, for the owner is there."""

    async def _prepare(self, connection: Connection) -> str:
        prepared = await super()._prepare(connection)
        for step in migrations():
            text = step.text.replace("id = _id AND version = _before AND", "id = _id AND")
            text = text.replace("h.id = b.id AND h.version = b.before AND", "h.id = b.id AND")
            await connection.execute(text.replace("@schema@", self.schema))
        return prepared


class SelectsThenUpdates(UpdatesWithoutVersion):
    """Compares the version that it has selected, without FOR UPDATE, and updates after that."""

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        stored = await self.load(before.task.id)
        if (stored.version, stored.owner) != (before.version, before.owner):
            raise Conflict(before.task.id)
        await super().commit(before, after, events)


class NewsAlone(PostgresStore):
    """Looks only at Tasks that it was told of, because NOTIFY tells of all of them."""

    def __init__(self, *place: Any, **options: Any) -> None:
        super().__init__(*place, **options)
        self._told: set[str] = set()
        self.listen(self._told.add)

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        told = {task_id: version for task_id, version in versions.items() if task_id in self._told}
        return await super().changed(told)
