"""SQLiteStore: the Store port over one SQLite file; an example of how to write a store.

A store is a conditional write, some reads, and one question about liveness. Here a write is an
UPDATE that names what must still hold, a read is one SELECT, and a host is alive while its lease
lasts: a row that says until when, which a thread renews.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TypeVar, Unpack

from agentic_kernel import InvalidValue, TaskExists, TaskNotFound, TaskStatus
from agentic_kernel_engine import (
    Conflict,
    Cursor,
    HostGone,
    Record,
    StoreError,
    StoreTraits,
    UnknownOutcome,
    Unreadable,
)
from agentic_kernel_engine.moments import aware
from agentic_kernel_engine.record import host_of, owner_name
from agentic_kernel_engine.search import Search, SearchOptions, labels_of, page_size
from agentic_kernel_engine.stored import (
    buried,
    decode_change,
    decode_record,
    encode_change,
    encode_record,
    unreadable,
)

T = TypeVar("T")
Db = sqlite3.Connection

_SCHEMA = 3
_TABLES = """
CREATE TABLE IF NOT EXISTS hosts (name TEXT PRIMARY KEY, until REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tasks (
    id TEXT PRIMARY KEY, kind TEXT, agent TEXT, realm TEXT, parent TEXT, created INTEGER,
    version INTEGER, head BLOB, status TEXT, owner TEXT, host TEXT, due INTEGER,
    ended INTEGER);
CREATE INDEX IF NOT EXISTS by_status ON tasks (status, id);
CREATE INDEX IF NOT EXISTS by_host ON tasks (host, id) WHERE host IS NOT NULL;
CREATE INDEX IF NOT EXISTS by_parent ON tasks (parent, id) WHERE parent IS NOT NULL;
CREATE INDEX IF NOT EXISTS by_realm ON tasks (realm, id);
CREATE INDEX IF NOT EXISTS by_agent ON tasks (agent, id) WHERE agent IS NOT NULL;
CREATE INDEX IF NOT EXISTS by_age ON tasks (created, id);
CREATE INDEX IF NOT EXISTS by_end ON tasks (ended) WHERE ended IS NOT NULL;
CREATE TABLE IF NOT EXISTS events (
    task TEXT REFERENCES tasks (id) ON DELETE CASCADE, version INTEGER, place INTEGER, text BLOB,
    PRIMARY KEY (task, version, place)) WITHOUT ROWID;
"""
# SQLite writes a whole row when its length changes, so what is given once has a row of its own.
_INPUTS = """
CREATE TABLE IF NOT EXISTS inputs (
    task TEXT PRIMARY KEY REFERENCES tasks (id) ON DELETE CASCADE, first BLOB)
"""
_FROM_2 = "INSERT INTO inputs SELECT id, first FROM tasks; ALTER TABLE tasks DROP COLUMN first"
_NOW = "((julianday('now') - 2440587.5) * 86400.0)"  # seconds since 1970 by SQLite's own clock
_LIVING = f"(SELECT name FROM hosts WHERE until > {_NOW})"
_LISTED = "(SELECT value FROM json_each(?))"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SQLiteStore:
    """A `Store` in one file, for any number of processes on one machine.

    What was acknowledged is as durable as SQLite makes it with a write-ahead log and
    ``synchronous=FULL``. Readers wait for nobody. Writers queue for SQLite's lock, for at most
    ``timeout`` seconds, and then raise `StoreError`; whoever is stopped in the middle of a write
    keeps that lock until it goes on or dies.

    Leases go by SQLite's clock, which is the machine's. One that has run out is never renewed, and
    its host writes nothing more, not even where nobody has taken over.

    One object serves all threads and event loops of its process, but not a forked child.

    Args:
        path: The file; made if it is not there, in a folder that is.
        lease: For how many seconds a host stays alive without a word from its process.
        timeout: For how many seconds a write waits for others.
    """

    traits = StoreTraits()

    def __init__(self, path: str | Path, lease: float = 10.0, timeout: float = 10.0) -> None:
        self.path = Path(path).absolute()
        self.lease = lease
        self._timeout = timeout
        self._process = os.getpid()
        self._thread = threading.local()
        self._connections: list[Db] = []
        self._hosts: set[str] = set()
        self._closing = threading.Event()
        # SQLite has one writer at a time, and readers need threads that no waiting writer takes.
        self._writer = ThreadPoolExecutor(1, "sqlite-writer")
        self._readers = ThreadPoolExecutor(4, "sqlite-reader")
        self._renewing = threading.Thread(target=self._renew, name="sqlite-leases", daemon=True)
        self._renewing.start()

    async def join(self, host: str) -> None:
        def work(db: Db) -> None:
            row = (host, self.lease)
            db.execute(f"INSERT INTO hosts VALUES (?, {_NOW} + ?) ON CONFLICT DO NOTHING", row)
            _refuse_lapsed(db, host)

        await self._write(work)
        self._hosts.add(host)

    async def leave(self, host: str) -> None:
        self._hosts.discard(host)
        # The row stays, so that the name is not taken again.
        gone = "INSERT INTO hosts VALUES (?, 0) ON CONFLICT (name) DO UPDATE SET until = 0"
        await self._write(lambda db: db.execute(gone, [host]))

    async def alive(self, owner: str) -> bool:
        return await self._read(lambda db: _alive(db, host_of(owner)))

    def _renew(self) -> None:
        """Renew the leases of this object's hosts until `close`; no event loop has a part in it."""
        renew = f"UPDATE hosts SET until = {_NOW} + ? WHERE name = ? AND until > {_NOW}"
        while not self._closing.wait(self.lease / 4):
            rows = [(self.lease, host) for host in self._hosts.copy()]
            # What fails is tried again, for as long as the lease lasts.
            with suppress(sqlite3.Error, StoreError):
                if rows:
                    with self._transaction() as db:
                        db.executemany(renew, rows)

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        def work(db: Db) -> None:
            task = record.task
            new = f"INSERT INTO tasks VALUES (?{', ?' * 12}) ON CONFLICT DO NOTHING"
            if not db.execute(new, (task.id, *_input(record), *_head(record, record))).rowcount:
                raise TaskExists(task.id)
            db.execute("INSERT INTO inputs VALUES (?, ?)", [task.id, encode_record(record)])
            _refuse_lapsed(db, _host(record))
            _append(db, record, events)

        await self._write(work)

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        await self._write(lambda db: _replace(db, before, after, events))

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        def work(db: Db) -> Record | None:
            before = _load(db, task_id)
            if before.task.status is not TaskStatus.RUNNING or _alive(db, _host(before)):
                return None
            version, attempts = before.version + 1, before.attempts + 1
            owner = owner_name(host, version)
            after = before.changed(version=version, owner=owner, attempts=attempts)
            _replace(db, before, after, events)
            return after

        return await self._write(work)

    async def bury(
        self,
        task_id: str,
        version: int,
        events: Sequence[bytes] = (),
        *,
        force: bool = False,
        at: datetime | None = None,
    ) -> Record:
        moment = datetime.now(UTC) if at is None else aware("at", at)

        def work(db: Db) -> Record:
            try:
                raise Conflict(task_id, _load(db, task_id))
            except Unreadable as fault:
                if fault.version != version:
                    raise Conflict(task_id) from fault
                if fault.newer and not force:
                    raise
            (host,) = db.execute("SELECT host FROM tasks WHERE id = ?", [task_id]).fetchone()
            if _alive(db, host):
                raise StoreError(f"host {host} owns task {task_id!r} and is alive; kill it there")
            grave = buried(task_id, version + 1, moment)
            db.execute(
                f"""UPDATE tasks SET (kind, agent, realm, parent, created,
                version, head, status, owner, host, due, ended) = (?{", ?" * 11}) WHERE id = ?""",
                (*_input(grave), *_head(grave, grave), task_id),
            )
            given = "UPDATE inputs SET first = ? WHERE task = ?"
            db.execute(given, [encode_record(grave), task_id])
            _append(db, grave, events)
            return grave

        return await self._write(work)

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        bound, most = _moment(aware("ended_before", ended_before)), page_size(limit)

        def work(db: Db) -> int:
            found = _rows(db, "ended < ? ORDER BY ended", [bound])
            readable = (each for each in found if isinstance(each, Record))
            old = [(each.task.id,) for each in islice(readable, most)]
            # And, by their foreign keys, the inputs and the events.
            db.executemany("DELETE FROM tasks WHERE id = ?", old)
            return len(old)

        return await self._write(work)

    async def load(self, task_id: str) -> Record:
        return await self._read(lambda db: _load(db, task_id))

    async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
        wanted = _listed(task_ids)
        rows = await self._read(lambda db: list(_rows(db, f"id IN {_LISTED}", [wanted])))
        return {each.task.id: each for each in rows if isinstance(each, Record)}

    async def events(
        self, task_id: str, after: Cursor | None = None, limit: int = 1000
    ) -> Sequence[tuple[Cursor, bytes]]:
        # A Task without such events gives one row of NULLs, an unknown one gives none.
        page = """SELECT e.version, e.place, e.text FROM tasks LEFT JOIN events AS e
            ON e.task = tasks.id AND (e.version, e.place) > (?, ?)
            WHERE tasks.id = ? ORDER BY e.version, e.place LIMIT ?"""
        values = (*(after or (0, 0)), task_id, page_size(limit) or 1)
        rows = await self._read(lambda db: db.execute(page, values).fetchall())
        if not rows:
            raise TaskNotFound(task_id)
        found = [((version, place), text) for version, place, text in rows if text is not None]
        return found[:limit]

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        known = dict(versions)
        select = f"SELECT id, version FROM tasks WHERE id IN {_LISTED}"
        rows = await self._read(lambda db: db.execute(select, [_listed(known)]).fetchall())
        current = dict.fromkeys(known, 0) | dict(rows)
        return {id: version for id, version in current.items() if version != known[id]}

    async def find(self, **options: Unpack[SearchOptions]) -> Sequence[Record]:
        search = Search.of(**options)
        everything: dict[str, object] = {
            "status = ?": search.status and search.status.value,
            f"kind IN {_LISTED}": None if search.kinds is None else _listed(search.kinds),
            "agent = ?": search.agent,
            f"realm IN {_LISTED}": None if search.realms is None else _listed(search.realms),
            "host = ?": search.owner,
            f"? AND status = 'running' AND ifnull(host NOT IN {_LIVING}, 1)": search.claimable
            or None,
            "parent = ?": search.parent,
            "status = 'paused' AND due <= ?": search.due and _moment(search.due),
            "created >= ?": search.created_from and _moment(search.created_from),
            "created < ?": search.created_before and _moment(search.created_before),
            "id > ?": search.after,
        }
        asked = {text: value for text, value in everything.items() if value is not None}
        values = list(asked.values())
        if search.older_than is not None:
            asked["(created, id) < (?, ?)"] = search.older_than
            values += [_moment(search.older_than[0]), search.older_than[1]]
        order = "created DESC, id DESC" if search.newest else "id"
        where = f"{' AND '.join(asked) or 'TRUE'} ORDER BY {order}"

        def work(db: Db) -> list[Record]:
            # Read one by one, until the page is full: past what cannot be read, and past what has
            # other labels, for which this example has no index.
            found = (each for each in _rows(db, where, values) if isinstance(each, Record))
            labels = search.labels.items()
            return list(islice((r for r in found if labels <= labels_of(r.task).items()), limit))

        limit = search.limit
        return await self._read(work) if limit else []

    async def unreadable(self, after: str | None = None, limit: int = 100) -> Sequence[Unreadable]:
        search = Search.of(after=after, limit=limit)

        def work(db: Db) -> list[Unreadable]:
            rows = _rows(db, "id > ? ORDER BY id", [search.after or ""])
            return list(islice((each for each in rows if isinstance(each, Unreadable)), limit))

        return await self._read(work)

    def close(self) -> None:
        """Finish what is under way and give everything back; leases are not renewed any more."""
        self._closing.set()
        self._renewing.join()
        self._writer.shutdown()
        self._readers.shutdown()
        while self._connections:
            self._connections.pop().close()

    async def _read(self, look: Callable[[Db], T]) -> T:
        return await self._start(self._readers, lambda: look(self._connection()))

    async def _write(self, work: Callable[[Db], T]) -> T:
        """One transaction; if the caller is cancelled, it is settled first (R5)."""

        def whole() -> T:
            with self._transaction() as db:
                return work(db)

        future = self._start(self._writer, whole)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            while not future.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
            future.exception()  # retrieved here: nobody else will
            raise

    def _start(self, threads: ThreadPoolExecutor, call: Callable[[], T]) -> asyncio.Future[T]:
        if self._closing.is_set() or os.getpid() != self._process:
            raise StoreError(f"{self.path}: closed, or of another process; make a new SQLiteStore")

        def translated() -> T:
            try:
                return call()
            except (sqlite3.Error, UnicodeEncodeError, OverflowError) as error:
                raise StoreError(f"{self.path}: {error}") from error

        return asyncio.get_running_loop().run_in_executor(threads, translated)

    @contextmanager
    def _transaction(self) -> Iterator[Db]:
        db = self._connection()
        db.execute("BEGIN IMMEDIATE")
        committing = False
        try:
            yield db
            committing = True
            db.execute("COMMIT")
        except BaseException as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            if committing:  # its pages may be in the log, where a recovery would find them
                raise UnknownOutcome(f"{self.path}: the commit failed: {error}") from error
            raise

    def _connection(self) -> Db:
        """This thread's own."""
        db: Db | None = getattr(self._thread, "db", None)
        if db is None:
            db = sqlite3.connect(
                self.path, self._timeout, isolation_level=None, check_same_thread=False
            )
            self._connections.append(db)
            (schema,) = db.execute("PRAGMA user_version").fetchone()
            if schema not in (0, 2, _SCHEMA):
                raise StoreError(
                    f"{self.path}: of schema {schema}, and this version has {_SCHEMA}; use the "
                    "version that wrote it"
                )
            self._use_wal(db)
            for setting in ("synchronous = FULL", "foreign_keys = ON"):
                db.execute(f"PRAGMA {setting}")
            if schema != _SCHEMA:
                _migrate(db)
            self._thread.db = db
        return db

    def _use_wal(self, db: Db) -> None:
        """Switch the file to a write-ahead log, which is refused while others switch it too.

        SQLite's own patience does not cover this one statement.
        """
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)


def _migrate(db: Db) -> None:
    """Make the tables, or those of this version from those of schema 2; once, however many try."""
    db.execute("BEGIN IMMEDIATE")
    try:
        (schema,) = db.execute("PRAGMA user_version").fetchone()
        if schema != _SCHEMA:
            steps = f"{'' if schema else _TABLES};{_INPUTS};{_FROM_2 if schema else ''}"
            for step in filter(str.strip, steps.split(";")):
                db.execute(step)
            db.execute(f"PRAGMA user_version = {_SCHEMA}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _rows(db: Db, where: str, values: Sequence[object]) -> Iterator[Record | Unreadable]:
    """Records, each stored as it was at first and as what has changed since (R16); or why not."""
    joined = "SELECT id, first, version, head FROM tasks CROSS JOIN inputs ON task = id"
    rows = db.execute(f"{joined} WHERE {where}", values)
    for task_id, first, version, head in rows:
        try:
            yield decode_change(decode_record(first).changed(version=version - 1), head)
        except InvalidValue as fault:
            yield unreadable(task_id, version, fault, first, head)


def _load(db: Db, task_id: str) -> Record:
    for found in _rows(db, "id = ?", [task_id]):
        if isinstance(found, Record):
            return found
        raise found
    raise TaskNotFound(task_id)


def _replace(db: Db, before: Record, after: Record, events: Sequence[bytes]) -> None:
    """The conditional write behind `commit` and `claim`."""
    task_id = before.task.id
    if after.task.id != task_id:
        raise Conflict(task_id)
    row = db.execute("SELECT first FROM inputs WHERE task = ?", [task_id]).fetchone()
    if row is None:
        raise TaskNotFound(task_id)
    done = db.execute(
        """UPDATE tasks
        SET version = ?, head = ?, status = ?, owner = ?, host = ?, due = ?, ended = ?
        WHERE id = ? AND version = ? AND owner IS ? AND ended IS NULL""",
        (*_head(decode_record(row[0]), after), task_id, before.version, before.owner),
    )
    if not done.rowcount or after.version != before.version + 1:
        raise Conflict(task_id)
    if after.step > before.step:  # which nobody but the owner advances (R5)
        _refuse_lapsed(db, _host(before))
    if after.owner != before.owner:
        _refuse_lapsed(db, _host(after))
    _append(db, after, events)


def _input(record: Record) -> tuple[object, ...]:
    """What is written once, and what `find` looks at."""
    task = record.task
    given = task.runtime_kind, task.agent_name, record.realm, record.parent
    return *given, _moment(task.created_at)


def _head(first: Record, record: Record) -> tuple[object, ...]:
    """What every commit replaces: the change since the first record, and what `find` looks at."""
    status, ended, due = record.task.status.value, record.task.ended_at, record.due_at
    head = encode_change(first, record)
    owner, host = record.owner, _host(record)
    return record.version, head, status, owner, host, due and _moment(due), ended and _moment(ended)


def _append(db: Db, record: Record, events: Sequence[bytes]) -> None:
    rows = [(record.task.id, record.version, place, text) for place, text in enumerate(events)]
    db.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)


def _alive(db: Db, host: str | None) -> bool:
    return bool(db.execute(f"SELECT ? IN {_LIVING}", [host]).fetchone()[0])


def _refuse_lapsed(db: Db, host: str | None) -> None:
    """Let nothing be written by, or in the name of, a host that was alive and is not any more."""
    lapsed = f"SELECT 1 FROM hosts WHERE name = ? AND until <= {_NOW}"
    if db.execute(lapsed, [host]).fetchone():
        raise HostGone(host or "")


def _host(record: Record) -> str | None:
    return None if record.owner is None else host_of(record.owner)


def _moment(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def _listed(values: Collection[str]) -> str:
    return json.dumps(list(values))
