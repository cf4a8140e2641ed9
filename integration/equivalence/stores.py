"""Stores: every store on which the scenarios are played, and what is left on its medium."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import psycopg

from agentic_kernel_engine import MemoryStore, Store
from agentic_kernel_file import FileStore
from agentic_kernel_file.files import Files
from agentic_kernel_postgres import PostgresStore

from ..postgres_server import Server, named_schema
from ..sqlite_store import SQLiteStore

STORES: Final = ("memory", "file", "SQLite", "Postgres")


@dataclass(frozen=True, slots=True)
class Kept:
    """One new store, and a look at its medium."""

    store: Store
    size: Callable[[], int] | None
    """Bytes that are kept on the medium now; None if there is no medium."""


Opening = Callable[[], AbstractAsyncContextManager[Kept]]
"""Opens a new store, which is closed at the end of the block."""


@contextmanager
def stores(folder: Path, *names: str) -> Iterator[Mapping[str, Opening]]:
    """How to open each of the named stores; a Postgres server runs while the block lasts.

    Args:
        folder: Where the files are; the server has a folder of its own, in memory if it can.
        names: Of `STORES`.
    """
    ways: dict[str, Opening] = {
        "memory": _memory,
        "file": partial(_file, folder, "files"),
        "SQLite": partial(_sqlite, folder, "state"),
    }
    wanted = {name: way for name, way in ways.items() if name in names}
    if "Postgres" not in names:
        yield wanted
        return
    with Server() as server:
        yield {**wanted, "Postgres": partial(_postgres, server.place)}


@asynccontextmanager
async def _memory() -> AsyncIterator[Kept]:
    yield Kept(MemoryStore(), None)


@asynccontextmanager
async def _file(folder: Path, name: str) -> AsyncIterator[Kept]:
    place = _new(folder, name)
    files = WeighedFiles()
    with closing(FileStore(place, files=files)) as store:
        yield Kept(store, lambda: files.bytes)


@asynccontextmanager
async def _sqlite(folder: Path, name: str) -> AsyncIterator[Kept]:
    place = _new(folder, name)
    place.mkdir()
    with closing(SQLiteStore(place / "state.db", lease=30.0)) as store:
        yield Kept(store, partial(_database, place / "state.db"))


@asynccontextmanager
async def _postgres(place: str) -> AsyncIterator[Kept]:
    with named_schema(place) as schema:
        async with PostgresStore(place, schema=schema) as store:
            yield Kept(store, partial(_relations, place, schema))


def _new(folder: Path, name: str) -> Path:
    """A path in the folder that is not taken yet."""
    number = sum(path.name.startswith(f"{name}-") for path in folder.iterdir())
    return folder / f"{name}-{number}"


class WeighedFiles(Files):
    """Files that know how many bytes were written; a log's own size says nothing of its content,
    because it is made in advance."""

    def __init__(self) -> None:
        self.bytes = 0

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        written = super().write(fd, data, offset)
        self.bytes += written
        return written


def _database(path: Path) -> int:
    """Bytes of an SQLite file, after its write-ahead log was brought into it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def _relations(place: str, schema: str) -> int:
    """Bytes of the tables and indexes of a schema, in whole pages."""
    found = """SELECT sum(pg_total_relation_size(c.oid))::bigint
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.relkind = 'r' AND n.nspname = %s"""
    with psycopg.connect(place, autocommit=True) as connection:
        row = connection.execute(found, [schema]).fetchone()
    assert row is not None
    return int(row[0] or 0)
