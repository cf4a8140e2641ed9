"""Calls of a memory in Postgres: answers that are lost, writers at once, places and their ends."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from secrets import token_hex
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from agentic_kernel import InvalidValue
from agentic_kernel_engine import StoreError
from agentic_kernel_engine.seams.memories import HashingEmbedder
from agentic_kernel_engine.seams.memory import MAX_NAME, Item, NotCurrent, Query, Scope
from agentic_kernel_postgres import PostgresMemory, PostgresStore

from . import proxy as proxies
from .databases import vectors as vectors
from .proxy import Cut, Proxy
from .records import running

HERE = Scope("acme", "ann", "monday")
TEA = Item("tea", HERE, "Ann likes green tea")
COFFEE = Item("coffee", HERE, "Ann likes black coffee")
Pool = AsyncConnectionPool


@pytest_asyncio.fixture
async def proxy(server: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Proxy]:
    monkeypatch.setattr(proxies, "_WRITE", re.compile(rb"\b(remember|forget)_1\b"))
    async with Proxy(server) as proxy:
        yield proxy


async def _tombstone(memory: PostgresMemory) -> bool:
    return await memory.tombstone(HERE, TEA.id, "a reason")


async def _restore(memory: PostgresMemory) -> bool:
    items = [{"id": id, "text": id} for id in (TEA.id, COFFEE.id, "milk")]
    return await memory.restore(HERE, {"scope": {}, "version": 1, "items": items}) == 2


CALLS: dict[str, Callable[[PostgresMemory], Awaitable[bool]]] = {
    "propose": lambda memory: memory.propose(COFFEE),
    "supersede": lambda memory: memory.supersede(TEA.id, COFFEE),
    "tombstone": _tombstone,
    "restore": _restore,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("cut", Cut)
async def test_a_call_whose_answer_is_lost_says_what_it_did(
    call: str, cut: Cut, proxy: Proxy, schema: str
) -> None:
    """Once, though it was made twice; and what arrives late changes nothing."""
    async with PostgresMemory(proxy.place, schema=schema) as memory:
        await memory.propose(TEA)
        proxy.cut = cut
        assert await CALLS[call](memory)
        assert proxy.cut is None
        assert not await CALLS[call](memory)
        await memory.tombstone(HERE, TEA.id, "another reason")
        exported = await memory.export(HERE)
        if cut is Cut.LATE:
            await proxy.deliver()
        assert await memory.export(HERE) == exported
        assert len(exported["items"]) == {"tombstone": 1, "restore": 3}.get(call, 2)


async def test_a_database_that_is_gone_is_a_typed_error(proxy: Proxy, schema: str) -> None:
    """And when it is back, the same memory goes on."""
    async with PostgresMemory(proxy.place, schema=schema) as memory:
        await memory.propose(TEA)
        await proxy.lose()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("agentic_kernel_postgres.connections._AGAIN", 0.01)
            patched.setattr((await memory._sessions.here()).session, "timeout", 0.05)
            with pytest.raises(StoreError):
                await memory.propose(COFFEE)
        proxy.down = False
        assert await memory.propose(COFFEE)


async def test_of_writers_at_once_none_appears_behind_what_was_seen(
    server: str, schema: str
) -> None:
    """One that has its place in the order, and is held up then, holds up those behind it."""
    waiting = f"""SELECT count(*) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND query LIKE '%{schema}.remember_1%'"""
    async with PostgresMemory(server, schema=schema) as memory:
        await memory.propose(TEA)
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(
                f"""CREATE FUNCTION {schema}.hold() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM pg_advisory_xact_lock(hashtext('{schema}')); RETURN NEW; END $$;
                CREATE TRIGGER hold AFTER INSERT ON {schema}.items FOR EACH ROW
                WHEN (NEW.id = 'slow') EXECUTE FUNCTION {schema}.hold()"""
            )
            connection.execute(f"SELECT pg_advisory_lock(hashtext('{schema}'))")
            tasks = []
            async with asyncio.timeout(10):
                for n, id in enumerate(("slow", "fast"), 1):
                    tasks.append(asyncio.create_task(memory.propose(Item(id, HERE, "text"))))
                    while connection.execute(waiting).fetchone() != (n,):
                        assert not tasks[-1].done(), f"{id} did not wait"
                        await asyncio.sleep(0.01)
            assert [hit.item.id for hit in await memory.recall(Query(HERE))] == ["tea"]
            connection.execute(f"SELECT pg_advisory_unlock(hashtext('{schema}'))")
        assert await asyncio.gather(*tasks) == [True, True]
        found = [hit.item.id for hit in await memory.recall(Query(HERE))]
        assert found == ["fast", "slow", "tea"]


async def test_writers_of_one_scope_do_not_wait_for_those_of_another(
    server: str, schema: str
) -> None:
    """And readers wait for nobody."""
    async with PostgresMemory(server, schema=schema) as memory:
        await memory.propose(TEA)
        with psycopg.connect(server) as connection:
            connection.execute(f"SELECT * FROM {schema}.scopes FOR UPDATE")
            async with asyncio.timeout(5):
                assert await memory.propose(Item("tea", Scope("acme", "bob"), "Bob likes tea"))
                assert len(await memory.recall(Query(HERE, "tea"))) == 1
            waits = asyncio.create_task(memory.propose(COFFEE))
            await asyncio.wait([waits], timeout=0.1)
            assert not waits.done()
            connection.rollback()
            assert await waits


async def test_a_restored_scope_has_its_order(server: str, schema: str) -> None:
    ids = [f"{n * 7919 % 1_000}" for n in range(1_000)]
    items = [{"id": id, "text": f"item {id}"} for id in ids]
    async with PostgresMemory(server, schema=schema) as memory:
        exported = {"scope": {}, "version": 1, "items": items}
        assert await memory.restore(HERE, exported) == 1_000
        assert [item["id"] for item in (await memory.export(HERE))["items"]] == ids


async def test_the_longest_names_fit(server: str, schema: str) -> None:
    """Which in bytes are longer than what an index takes, unless that was thought of."""
    names = ["".join(chr(0x1F300 + (n * m) % 997) for n in range(MAX_NAME)) for m in range(1, 6)]
    scope = Scope(*names[:3])
    async with PostgresMemory(server, schema=schema) as memory:
        assert await memory.propose(Item(names[3], scope, "text", key=names[4]))
        assert (await memory.explain(scope, names[3])).key == names[4]
        assert await memory.tombstone(scope, names[3], names[4])


async def test_a_word_may_be_as_long_as_a_text(server: str, schema: str) -> None:
    """And every character another word, or longer when it is written out."""
    texts = ["ü" * 16_384, "\ufdfa" * 16_384, " ".join(map(chr, range(0x4E00, 0x4E00 + 8_000)))]
    async with PostgresMemory(server, schema=schema) as memory:
        for text in texts:
            await memory.propose(Item(text[:9], HERE, text))
        for text in texts:
            (hit,) = await memory.recall(Query(HERE, text, limit=1))
            assert (hit.item.text, hit.score) == (text, 1.0)


async def test_a_forgotten_text_is_in_no_row(vectors: str, schema: str) -> None:
    """Nor are the words and the vector that it was found by, nor those of what was superseded."""
    async with PostgresMemory(vectors, schema=schema, embedder=HashingEmbedder()) as memory:
        await memory.propose(TEA)
        await memory.supersede(TEA.id, COFFEE)
        await memory.tombstone(HERE, COFFEE.id, "asked for")
        with psycopg.connect(vectors) as connection:
            rows = connection.execute(
                f"SELECT id, text, words, vector FROM {schema}.items ORDER BY place"
            ).fetchall()
    assert rows == [("tea", TEA.text, None, None), ("coffee", "", None, None)]


async def test_the_extension_may_be_in_any_schema(vectors: str, schema: str) -> None:
    """Also one that no search path leads to, with a name that needs quotes."""
    name = f"test_{token_hex(6)}"
    with psycopg.connect(vectors, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    place = make_conninfo(vectors, dbname=name)
    try:
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute('CREATE SCHEMA "an {odd} %name"')
            connection.execute('CREATE EXTENSION vector SCHEMA "an {odd} %name"')
        async with PostgresMemory(place, schema=schema, embedder=HashingEmbedder()) as memory:
            await memory.propose(TEA)
            (hit,) = await memory.recall(Query(HERE, TEA.text))
            assert hit.score == pytest.approx(1.0)
            assert hit.reason.startswith("cosine 1.000")
    finally:
        with psycopg.connect(vectors, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def test_memories_that_open_at_once_make_the_extension_once(
    vectors: str, schema: str
) -> None:
    """In a new database, together with the schema."""
    name = f"test_{token_hex(6)}"
    with psycopg.connect(vectors, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    place = make_conninfo(vectors, dbname=name)
    memories = [PostgresMemory(place, schema=schema, embedder=HashingEmbedder()) for _ in range(6)]
    try:
        told = await asyncio.gather(*(memory.propose(TEA) for memory in memories))
        assert told.count(True) == 1
        for memory in memories:
            (hit,) = await memory.recall(Query(HERE, "green"))
            assert hit.reason.startswith("cosine")
            await memory.close()
    finally:
        with psycopg.connect(vectors, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def test_a_store_and_a_memory_share_a_schema_and_a_pool(server: str, schema: str) -> None:
    """The pool is left as it was, and open."""
    pool: Pool[Any] = Pool(
        server, min_size=1, max_size=1, kwargs={"row_factory": dict_row}, open=False
    )
    async with pool:
        async with (
            PostgresStore(pool, schema=schema) as store,
            PostgresMemory(pool, schema=schema) as memory,
        ):
            await asyncio.gather(store.insert(running("a")), memory.propose(TEA))
            assert len(await memory.recall(Query(HERE, "tea"))) == 1
        async with pool.connection() as connection:
            assert not connection.autocommit
            found = await connection.execute("SELECT 1 AS one")
            assert await found.fetchone() == {"one": 1}


async def test_one_memory_serves_several_event_loops(server: str, schema: str) -> None:
    told: list[bool] = []
    async with PostgresMemory(server, schema=schema) as memory:
        for _ in range(3):
            thread = threading.Thread(target=lambda: told.append(asyncio.run(memory.propose(TEA))))
            thread.start()
            await asyncio.to_thread(thread.join)
        assert told == [True, False, False]


async def test_a_closed_memory_says_so(server: str, schema: str) -> None:
    memory = PostgresMemory(server, schema=schema)
    await memory.propose(TEA)
    await memory.close()
    await memory.close()
    with pytest.raises(StoreError, match="the memory is closed"):
        await memory.recall(Query(HERE))


async def test_a_refused_supersession_leaves_nothing(server: str, schema: str) -> None:
    """Not even the scope that it was in."""
    async with PostgresMemory(server, schema=schema) as memory:
        with suppress(LookupError):
            await memory.supersede("nobody", TEA)
        with psycopg.connect(server) as connection:
            assert not connection.execute(f"SELECT * FROM {schema}.scopes").fetchall()
        await memory.propose(TEA)
        await memory.tombstone(HERE, TEA.id, "asked for")
        with pytest.raises(NotCurrent) as refusal:
            await memory.supersede(TEA.id, COFFEE)
        assert (refusal.value.id, refusal.value.successor) == (TEA.id, "")
        assert not await memory.recall(Query(HERE))


def test_a_schema_that_is_no_name_is_refused() -> None:
    with pytest.raises(InvalidValue, match="is not a valid name"):
        PostgresMemory("postgresql:///", schema="a; b")
