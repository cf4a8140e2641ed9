"""The indexes of a memory: the planner reads them, and hardly a hit is missed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from agentic_kernel import InvalidValue
from agentic_kernel_engine.seams.memories import BadVector, HashingEmbedder
from agentic_kernel_engine.seams.memory import Hit, Item, Query, Scope
from agentic_kernel_postgres import NoVectorIndex, PostgresMemory

from .databases import plain as plain
from .databases import vectors as vectors

HERE = Scope("acme", "ann", "monday")
THERE = Scope("acme", "bob")
SMALL = Scope("acme", "carla")
COUNT = 4_000
WORDS = (
    "tea coffee invoice train seat Lyon Nice Paris red green blue car house report deadline mail"
).split()
ASKED = [" ".join(random.Random(n).sample(WORDS, 2)) for n in range(40)]


def texts(count: int) -> list[str]:
    """Some words each, and a number that no other text has."""
    dice = random.Random(1)
    return [f"{' '.join(dice.choices(WORDS, k=4))} no. {n}" for n in range(count)]


async def fill(memory: PostgresMemory, scope: Scope, of: Sequence[str]) -> None:
    items = [{"id": text, "text": text} for text in of]
    await memory.restore(scope, {"scope": {}, "version": 1, "items": items})


async def asked(memory: PostgresMemory, scope: Scope) -> list[list[Hit]]:
    return [list(await memory.recall(Query(scope, text, limit=10))) for text in ASKED]


@pytest_asyncio.fixture
async def memory(vectors: str, schema: str) -> AsyncIterator[PostgresMemory]:
    async with PostgresMemory(vectors, schema=schema, embedder=HashingEmbedder(64)) as memory:
        yield memory


def scans(place: str, schema: str) -> dict[str, int]:
    """The number of reads of each index of the items."""
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        rows = connection.execute(
            "SELECT indexrelname, idx_scan FROM pg_stat_all_indexes WHERE schemaname = %s", [schema]
        ).fetchall()
    return dict(rows)


async def test_with_the_indexes_a_query_of_a_large_scope_finds_the_same(
    memory: PostgresMemory, vectors: str, schema: str
) -> None:
    """At least 95 of 100 of the best hits; and it reads the index instead of the scope."""
    await fill(memory, HERE, texts(COUNT))
    await fill(memory, THERE, texts(COUNT)[::-1])
    await fill(memory, SMALL, texts(300))
    exact = {scope: await asked(memory, scope) for scope in (HERE, THERE, SMALL)}
    assert await memory.index(HERE)
    assert not await memory.index(HERE)
    found = {scope: await asked(memory, scope) for scope in (HERE, THERE, SMALL)}
    shares = []
    for best, got in zip(exact[HERE], found[HERE], strict=True):
        assert [hit.score for hit in got] == sorted((hit.score for hit in got), reverse=True)
        shares.append(sum(hit.score >= best[-1].score - 1e-9 for hit in got) / len(best))
    assert sum(shares) / len(shares) >= 0.95
    assert found[THERE] == exact[THERE], "a scope without indexes is compared whole"
    assert found[SMALL] == exact[SMALL], "a small scope is compared whole"
    assert _plan(vectors, schema).count("items_near_1") == 1
    await memory.recall(Query(HERE, "no. 2718"))  # a rare word; common ones need no index
    await memory.close()  # a connection tells what it has counted when it ends
    async with asyncio.timeout(20):
        while True:
            read = scans(vectors, schema)
            if read["items_near_1"] > len(ASKED) and read["items_words_1"] > 0:
                break
            await asyncio.sleep(0.1)


def _plan(place: str, schema: str) -> str:
    """The planner's plan for the search by vector, as `near_1` writes it."""
    vector = "array_fill(0.1::real, ARRAY[64])"
    with psycopg.connect(place) as connection:
        (extension,) = connection.execute(
            "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n "
            "ON n.oid = extnamespace WHERE extname = 'vector'"
        ).fetchone() or ("",)
        halfvec = f"{extension}.halfvec(64)"
        rows = connection.execute(
            f"EXPLAIN SELECT place FROM {schema}.items WHERE scope = 1 AND live "
            f"AND vector IS NOT NULL ORDER BY (vector::{halfvec}) "
            f"OPERATOR({extension}.<#>) {vector}::{halfvec} LIMIT 200"
        ).fetchall()
    return "\n".join(row[0] for row in rows)


async def test_what_a_query_must_not_miss_is_found_with_the_indexes(
    memory: PostgresMemory,
) -> None:
    """A rare word, what was proposed just now, and nothing that is not live."""
    await fill(memory, HERE, texts(COUNT))
    await memory.index(HERE)
    (hit,) = await memory.recall(Query(HERE, "no. 2718", limit=1))
    assert hit.item.text.endswith("no. 2718")
    new = Item("new", HERE, "Zürich is nowhere else")
    await memory.propose(new)
    for text in ("Zürich", "zurich nowhere", new.text):
        (hit,) = await memory.recall(Query(HERE, text, limit=1))
        assert hit.item == new
    await memory.supersede("new", Item("newer", HERE, "Zürich is here"))
    assert {hit.item.id for hit in await memory.recall(Query(HERE, "Zürich", limit=1))} == {"newer"}
    await memory.tombstone(HERE, "newer", "asked for")
    hits = await memory.recall(Query(HERE, "Zürich", limit=1_000, min_score=-1))
    assert len(hits) == 1_000
    assert not {"new", "newer"} & {hit.item.id for hit in hits}
    twice = [await memory.recall(Query(HERE, text)) for text in (*ASKED[:5], *ASKED[:5])]
    assert twice[:5] == twice[5:]


async def test_a_query_that_an_index_cannot_answer_compares_every_item(
    memory: PostgresMemory, vectors: str, schema: str
) -> None:
    """In a large scope whose items have almost no vectors."""
    async with PostgresMemory(vectors, schema=schema) as words:
        await fill(words, HERE, texts(COUNT))
    await fill(memory, HERE, ["a text with a vector"])
    await memory.index(HERE)
    hits = await memory.recall(Query(HERE, "a text with a vector", limit=1_000, min_score=-1))
    assert hits[0].item.text == "a text with a vector"
    assert len(hits) == 1_000
    for text in ("'; DROP TABLE items; --", "\\ & | ! ( ) : *", "x" * 3_000, " ".join(texts(200))):
        assert len(await memory.recall(Query(HERE, text, limit=3, min_score=-1))) == 3


async def test_processes_that_make_the_indexes_at_once_make_them_once(
    vectors: str, schema: str
) -> None:
    memories = [
        PostgresMemory(vectors, schema=schema, embedder=HashingEmbedder(64)) for _ in range(3)
    ]
    await fill(memories[0], HERE, texts(500))
    made = await asyncio.gather(*(memory.index(HERE) for memory in memories))
    assert any(made)
    with psycopg.connect(vectors) as connection:
        rows = connection.execute(
            "SELECT relname, indisvalid FROM pg_index JOIN pg_class c ON c.oid = indexrelid "
            "WHERE relnamespace = %s::regnamespace AND relname ~ '^items_(near|words)_'",
            [schema],
        ).fetchall()
    assert sorted(rows) == [("items_near_1", True), ("items_words_1", True)]
    for memory in memories:
        await memory.close()


async def test_an_index_whose_builder_died_is_built_anew(
    memory: PostgresMemory, vectors: str, schema: str
) -> None:
    await fill(memory, HERE, texts(10))
    with psycopg.connect(vectors, autocommit=True) as connection:
        connection.execute(f"CREATE INDEX items_words_1 ON {schema}.items (task)")
        connection.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass",
            [f"{schema}.items_words_1"],
        )
        assert await memory.index(HERE)
        (form,) = connection.execute(
            "SELECT pg_get_indexdef(%s::regclass)", [f"{schema}.items_words_1"]
        ).fetchone() or ("",)
    assert "gin" in form


async def test_a_scope_is_indexed_before_it_has_an_item(
    memory: PostgresMemory, vectors: str
) -> None:
    """And for the vectors of one embedder, as long as it has any."""
    assert await memory.index(HERE)
    await fill(memory, HERE, texts(COUNT))
    (hit,) = await memory.recall(Query(HERE, "no. 2718", limit=1))
    assert hit.item.text.endswith("no. 2718")
    async with PostgresMemory(
        vectors, schema=memory.schema, embedder=HashingEmbedder(32)
    ) as another:
        with pytest.raises(BadVector, match="32 numbers and those of the scope 64"):
            await another.index(HERE)
        with pytest.raises(BadVector):
            await another.recall(Query(HERE, "tea"))


async def test_a_memory_that_cannot_be_indexed_says_why(
    plain: str, vectors: str, schema: str
) -> None:
    async with PostgresMemory(vectors, schema=schema) as memory:
        with pytest.raises(InvalidValue, match="an index needs an embedder"):
            await memory.index(HERE)
    async with PostgresMemory(plain, schema=schema, embedder=HashingEmbedder()) as memory:
        with pytest.raises(NoVectorIndex, match="CREATE EXTENSION vector"):
            await memory.index(HERE)
    async with PostgresMemory(vectors, schema=schema, embedder=Long()) as memory:
        with pytest.raises(NoVectorIndex, match="4,001 numbers"):
            await memory.index(HERE)
        await memory.propose(Item("a", HERE, "it works without"))
        assert await memory.recall(Query(HERE, "it works"))


async def test_an_extension_that_is_too_old_is_named(
    memory: PostgresMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Played by asking for one newer than there is; no old one can be had."""
    monkeypatch.setattr("agentic_kernel_postgres.memory_index._OLDEST", (1_000, 0))
    with pytest.raises(NoVectorIndex, match="ALTER EXTENSION vector UPDATE"):
        await memory.index(HERE)


class Long:
    """An embedder with more numbers than the index takes."""

    async def embed(self, texts: Sequence[str]) -> Any:
        return [[1.0] * 4_001 for _ in texts]
