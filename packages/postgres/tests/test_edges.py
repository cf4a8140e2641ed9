"""The arguments that a caller may give, and the typed refusal of all others."""

from __future__ import annotations

import asyncio
import math
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from agentic_kernel import InvalidValue, TaskNotFound
from agentic_kernel_engine import HostGone, StoreError, UnknownOutcome
from agentic_kernel_postgres import PostgresMemory, PostgresStore, embedded
from agentic_kernel_postgres.connections import Connections

from .records import AT, event, running, step

NO_SECONDS: list[Any] = [
    "5",
    None,
    True,
    math.nan,
    math.inf,
    -math.inf,
    0,
    -1,
    10**400,
    [],
    1e300,
    1j,
]


@pytest.mark.parametrize("name", ["lease", "timeout"])
@pytest.mark.parametrize("value", NO_SECONDS, ids=lambda value: ascii(value)[:12])
def test_seconds_are_a_finite_positive_number(name: str, value: Any) -> None:
    with pytest.raises(InvalidValue) as refused:
        PostgresStore("postgresql:///", **{name: value})
    assert refused.value.path == name


@pytest.mark.parametrize("kind", [PostgresStore, PostgresMemory])
@pytest.mark.parametrize("schema", [None, 5, b"name", "", "a b", "a" * 41, "a\n"])
def test_a_schema_is_a_plain_name(kind: Any, schema: Any) -> None:
    with pytest.raises(InvalidValue) as refused:
        kind("postgresql:///", schema=schema)
    assert refused.value.path == "schema"


@pytest.mark.parametrize("kind", [PostgresStore, PostgresMemory])
@pytest.mark.parametrize("place", [5, b"postgresql:///", Path("x"), ["postgresql:///"]])
def test_a_place_is_text_or_a_pool(kind: Any, place: Any) -> None:
    with pytest.raises(InvalidValue) as refused:
        kind(place)
    assert refused.value.path == "place"


def test_an_embedder_embeds() -> None:
    with pytest.raises(InvalidValue, match="embedder"):
        PostgresMemory("postgresql:///", embedder=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("folder", [5, None, "a\0b", 1.5], ids=ascii)
def test_the_folder_of_an_embedded_server_is_a_path(folder: Any) -> None:
    with pytest.raises(InvalidValue, match="folder"):
        embedded(folder)


@pytest_asyncio.fixture
async def store(server: str, schema: str) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(server, schema=schema) as store:
        await store.insert(running("a", owner="host:1"), [b"1"])
        yield store


BAD: dict[str, Any] = {
    "after": 5, "limit": 10**30, "due": datetime(2030, 1, 1), "status": "asleep", "kinds": "test",
    "labels": {"team": 5}, "created_from": datetime.min, "newest": "yes", "parent": 5,
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
async def test_what_find_cannot_use_is_named(name: str, store: PostgresStore) -> None:
    with pytest.raises(InvalidValue) as refused:
        await store.find(**{name: BAD[name]})
    assert refused.value.path.startswith(name)


@pytest.mark.parametrize("text", ["\0", "a\0", "\ud800", "a\udfff", ""], ids=ascii)
async def test_text_that_no_database_holds_is_found_nowhere(
    text: str, store: PostgresStore
) -> None:
    found: list[Any] = [
        await store.find(**filters)
        for filters in (
            {"parent": text}, {"owner": text}, {"kinds": [text]}, {"agent": text},
            {"realms": [text + "\0"]}, {"labels": {"team": text}},
        )
    ]  # fmt: skip
    found += [await store.load_many([text]), await store.alive(f"{text}:1")]
    assert not any(found)
    assert [each.task.id for each in await store.find(kinds=[text, "test"])] == ["a"]
    assert await store.changed({text: 3}) == {text: 0}
    for call in (store.load, store.events, lambda id: store.bury(id, 1)):
        with pytest.raises(TaskNotFound):
            await call(text)
    await store.leave(text)
    with pytest.raises(InvalidValue, match="host"):
        await store.join(text)


@pytest.mark.parametrize("task_id", [5, None, b"a"])
async def test_an_id_of_another_type_is_no_id(task_id: Any, store: PostgresStore) -> None:
    with pytest.raises(TaskNotFound):
        await store.load(task_id)
    with pytest.raises(TaskNotFound):
        await store.events(task_id)
    with pytest.raises(TaskNotFound):
        await store.bury(task_id, 1)
    assert await store.load_many([task_id]) == {}


@pytest.mark.parametrize("after", [5, "a", (1,), (1, 2, 3), ("1", 2), (None, 0), (1.5, 0)])
async def test_events_go_on_after_a_pair_of_numbers(after: Any, store: PostgresStore) -> None:
    with pytest.raises(InvalidValue, match="after"):
        await store.events("a", after)


async def test_numbers_that_no_database_compares_are_told_apart(store: PostgresStore) -> None:
    assert await store.events("a", (-(10**30), 0)) == [((1, 0), b"1")]
    assert await store.events("a", (10**30, 0)) == []
    assert await store.changed({"a": 10**30}) == {"a": 1}
    assert await store.changed({"a": -(10**30)}) == {"a": 1}
    assert await store.changed({"a": 1}) == {}
    with pytest.raises(InvalidValue, match="limit"):
        await store.events("a", limit=10**30)
    with pytest.raises(InvalidValue, match="limit"):
        await store.prune(AT, limit=10**30)
    with pytest.raises(InvalidValue, match="naive"):
        await store.prune(datetime(2030, 1, 1))
    with pytest.raises(InvalidValue, match="limit"):
        await store.unreadable(limit=-1)
    with pytest.raises(InvalidValue, match="after"):
        await store.unreadable(5)  # type: ignore[arg-type]


@pytest.mark.rule("R14")
async def test_a_host_that_left_neither_joins_again_nor_writes(store: PostgresStore) -> None:
    """Also one that leaves before it ever joined."""
    await store.join("host")
    await store.join("host")
    await store.leave("host")
    await store.leave("never")
    for host in ("host", "never"):
        with pytest.raises(HostGone) as gone:
            await store.join(host)
        assert gone.value.host == host
    record = await store.load("a")
    with pytest.raises(HostGone) as lapsed:
        await store.commit(record, step(record), [event(record)])
    assert lapsed.value.host == "host"
    assert await store.load("a") == record


class Mute:
    """A server on the loopback that takes connections, and never says a word."""

    def __init__(self) -> None:
        self.accepted = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.place = f"postgresql://127.0.0.1:{self._socket.getsockname()[1]}/nowhere"
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                self._open.append(self._socket.accept()[0])
            except OSError:
                return
            self.accepted += 1

    def close(self) -> None:
        """Hang up."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for each in self._open:
            each.close()
        self._thread.join()


@pytest.fixture
def mute() -> Iterator[Mute]:
    mute = Mute()
    yield mute
    mute.close()


GUARD = 9.0
"""Seconds; less than the ten that a connection takes by default."""


async def test_a_mute_server_is_given_up_after_the_timeout(mute: Mute) -> None:
    """With one connection, not with one after the other."""
    store = PostgresStore(mute.place, timeout=0.5)
    async with asyncio.timeout(GUARD):
        with pytest.raises(StoreError, match=r"no answer in 0\.5 s"):
            await store.find()
    assert mute.accepted == 1
    await store.close()


class HangsUp(Mute):
    """A server that ends each connection at once, as one does that restarts."""

    def _accept(self) -> None:
        while True:
            try:
                self._socket.accept()[0].close()
            except OSError:
                return
            self.accepted += 1


async def test_a_server_that_hangs_up_is_called_again_after_a_pause() -> None:
    server = HangsUp()
    connections = Connections(server.place, 1)
    try:
        async with asyncio.timeout(GUARD):
            with pytest.raises(psycopg.OperationalError):
                await connections.getconn(0.35)
    finally:
        connections.close()
        server.close()
    assert 1 <= server.accepted <= 12


async def test_a_connection_that_cannot_be_made_leaves_its_place_free() -> None:
    server = HangsUp()
    connections = Connections(server.place, 1)
    try:
        async with asyncio.timeout(GUARD):
            for _ in range(2):
                with pytest.raises(psycopg.OperationalError) as refused:
                    await connections.getconn(0)
                assert not isinstance(refused.value, PoolTimeout)
    finally:
        connections.close()
        server.close()


async def test_a_pool_of_a_mute_server_is_given_up_after_the_timeout(mute: Mute) -> None:
    pool = AsyncConnectionPool(mute.place, min_size=0, max_size=1, open=False)
    await pool.open()
    store = PostgresStore(pool, timeout=0.5)
    try:
        async with asyncio.timeout(GUARD):
            with pytest.raises(StoreError, match="no connection became free"):
                await store.find()
    finally:
        await store.close()
        await pool.close(timeout=0)


async def test_a_statement_without_an_answer_is_given_up_after_the_timeout(
    server: str, schema: str
) -> None:
    """Here because somebody holds the table."""
    async with PostgresStore(server, schema=schema, timeout=0.5) as store:
        await store.insert(running("a"))
        with psycopg.connect(server) as holding:
            holding.execute(f"LOCK TABLE {schema}.heads IN ACCESS EXCLUSIVE MODE")
            async with asyncio.timeout(GUARD):
                with pytest.raises(StoreError, match=r"no answer in 0\.5 s"):
                    await store.load("a")
        assert await store.load("a")


async def test_a_second_write_of_a_task_is_sent_in_the_next_batch(server: str, schema: str) -> None:
    async with PostgresStore(server, schema=schema) as store, asyncio.timeout(GUARD):
        record = running("a")
        await store.insert(record)
        first = step(record)
        await asyncio.gather(
            store.commit(record, first),
            store.commit(first, step(first)),
            store.insert(running("b")),
        )
        assert await store.load("a") == step(first)
        assert await store.load("b") == running("b")


async def test_a_connection_inside_a_transaction_is_closed_when_it_comes_back(server: str) -> None:
    connections = Connections(server, 1)
    connection = await connections.getconn(GUARD)
    await connection.execute("BEGIN")
    await connections.putconn(connection)
    assert connection.closed
    connections.close()


async def test_an_event_loop_that_ends_leaves_a_write_of_unknown_outcome(
    server: str, schema: str
) -> None:
    """Rule R5: the write is not sent again, and its caller is not kept waiting."""
    store, record, heads = PostgresStore(server, schema=schema), running("a"), f"{schema}.heads"
    await store.insert(record)
    async with (
        asyncio.timeout(GUARD),
        await psycopg.AsyncConnection.connect(server) as holds,
        await psycopg.AsyncConnection.connect(server, autocommit=True) as looks,
    ):
        await holds.execute(f"LOCK TABLE {heads} IN ACCESS EXCLUSIVE MODE")
        before = asyncio.all_tasks()
        writing = asyncio.create_task(store.commit(record, step(record)))
        waits = "SELECT FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
        while not (await looks.execute(waits, [heads])).rowcount:
            assert not writing.done()
            await asyncio.sleep(0.01)
        (serving,) = asyncio.all_tasks() - before - {writing}
        serving.cancel()  # like the end of the event loop
        with pytest.raises(UnknownOutcome, match="the event loop ended during the write"):
            await writing
    await store.close()
