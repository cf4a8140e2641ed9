"""A search finds the same as the reference does, in each order, page by page."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from agentic_kernel import Dispatch, Task, TaskStatus, apply
from agentic_kernel_engine import MemoryStore, Record
from agentic_kernel_engine.values import MAX_ID, MAX_ID_BYTES
from agentic_kernel_postgres import PostgresStore
from agentic_kernel_postgres.facets import facet

from .records import AT, LATER, ended, event, paused, running

FILTERS: dict[str, list[Any]] = {
    "status": [TaskStatus.RUNNING, TaskStatus.SUCCESS, TaskStatus.FAILURE],
    "kinds": [["test"], ["test", "other"], []],
    "agent": ["acme/ann", "acme/näs", "none"],
    "realms": [["acme"], ["acme", "x" * 3_000], ["", "acme"], [""], []],
    "labels": [{"team": "red"}, {"team": "red", "tier": "1"}, {"team": "\0"}, {"team": "no"}],
    "parent": ["p", "p" * 512, "no\0body"],
    "owner": ["host", "none"],
    "claimable": [True],
    "due": [LATER],
    "created_from": [AT + timedelta(minutes=3)],
    "created_before": [AT + timedelta(minutes=7)],
}
"""Of each filter some values."""


@pytest_asyncio.fixture
async def stores(server: str, schema: str) -> AsyncIterator[tuple[PostgresStore, MemoryStore]]:
    """The store and the reference, with the same Tasks."""
    source, reference = random.Random(15), MemoryStore()
    async with PostgresStore(server, schema=schema) as store:
        for each in (store, reference):
            await each.join("host")
        for n in range(60):
            first, last = _some(source, n)
            for each in (store, reference):
                await each.insert(first, [event(first)])
                if last is not None:
                    await each.commit(first, last)
        yield store, reference


def _some(source: random.Random, n: int) -> tuple[Record, Record | None]:
    """A record, and what becomes of it."""
    team: dict[str, Any] = source.choice(
        [{}, {"label/team": "red"}, {"label/team": "red", "label/tier": "1"}]
    )
    odd: dict[str, Any] = source.choice([{}, {"label/team": 5}, {"label/other": "red"}])
    given = Task.new(
        id=source.choice("aZé𝒳") + f"{n}", summary="", instructions="",
        runtime_kind=source.choice(["test", "other"]),
        agent_name=source.choice([None, "acme/ann", "acme/näs"]), metadata={**odd, **team},
        at=AT + timedelta(minutes=source.randrange(10)),
    )  # fmt: skip
    record = Record(
        apply(given, Dispatch(), LATER),
        owner=source.choice([None, "host:1", "dead:1"]),
        realm=source.choice(["", "acme", "x" * 3_000]),
        parent=source.choice([None, "p", "p" * 512]),
    )
    at_rest = paused(record).changed(due_at=source.choice([None, AT, LATER + timedelta(hours=9)]))
    return record, source.choice([None, ended(record, LATER), at_rest])


async def test_every_two_filters_find_what_the_reference_finds_in_both_orders(
    stores: tuple[PostgresStore, MemoryStore],
) -> None:
    store, reference = stores
    single = [{name: value} for name, values in FILTERS.items() for value in values]
    asked = [{}, *single, *(a | b for a, b in itertools.combinations(single, 2))]
    assert len(asked) > 300
    for filters, newest in itertools.product(asked, (False, True)):
        expected = await reference.find(**filters, newest=newest)
        found = await store.find(**filters, newest=newest)
        assert [each.task.id for each in found] == [each.task.id for each in expected], filters
        assert found == expected


@pytest.mark.parametrize("filters", [{}, {"labels": {"team": "red"}}, {"realms": ["", "acme"]}])
async def test_pages_of_any_size_make_the_whole(
    filters: dict[str, Any], stores: tuple[PostgresStore, MemoryStore]
) -> None:
    store, reference = stores
    for limit in (1, 7, 1_000_000):
        ids: list[str] = []
        while page := await store.find(**filters, after=ids[-1] if ids else None, limit=limit):
            ids += [each.task.id for each in page]
        assert ids == [each.task.id for each in await reference.find(**filters)]
        ids, place = [], None
        while page := await store.find(**filters, newest=True, after=place, limit=limit):
            ids += [each.task.id for each in page]
            place = page[-1].task.created_at, page[-1].task.id
        assert ids == [each.task.id for each in await reference.find(**filters, newest=True)]


async def test_a_place_between_ids_need_not_be_an_id(
    stores: tuple[PostgresStore, MemoryStore],
) -> None:
    """Also one that no database can hold, as whole or as a part of a place."""
    store, reference = stores
    for after in ("a\0", "\0", "Z\ud800z", "\udfff", "é", "~" * 5_000, ""):
        assert await store.find(after=after) == await reference.find(after=after)
        place: tuple[datetime, str] = (AT + timedelta(minutes=5), after)
        expected = await reference.find(newest=True, after=place)
        assert await store.find(newest=True, after=place) == expected


async def test_two_values_of_one_digest_are_told_apart(server: str, schema: str) -> None:
    """A digest has 64 bits; what it finds is compared itself."""
    async with PostgresStore(server, schema=schema) as store:
        await store.insert(running("a", realm="acme"))
        with psycopg.connect(server) as connection:
            both = [facet("realm", "acme"), facet("realm", "other")]
            connection.execute(f"UPDATE {schema}.tasks SET facets = %s", [both])
            forged = f"INSERT INTO {schema}.facets SELECT %s, id, created FROM {schema}.tasks"
            connection.execute(forged, both[1:])
        assert [each.task.id for each in await store.find(realms=["acme"])] == ["a"]
        assert await store.find(realms=["other"]) == []


async def test_a_pruned_task_leaves_no_facet(server: str, schema: str) -> None:
    async with PostgresStore(server, schema=schema) as store:
        record = running("a", realm="acme")
        await store.insert(record)
        await store.commit(record, ended(record))
        assert await store.prune(LATER + timedelta(days=1)) == 1
    with psycopg.connect(server) as connection:
        assert connection.execute(f"SELECT count(*) FROM {schema}.facets").fetchone() == (0,)


@pytest.mark.parametrize("character", ["a", "é", "𝒳"])
async def test_the_longest_ids_fit_every_index(character: str, server: str, schema: str) -> None:
    """A parent's too, of 2,048 bytes, in text that does not compress."""
    source = random.Random(3)

    def some(count: int) -> str:
        return "".join(chr(ord(character) + source.randrange(20)) for _ in range(count))

    most = min(MAX_ID, MAX_ID_BYTES // len(character.encode()))
    ids = [some(MAX_ID), some(most)]
    async with PostgresStore(server, schema=schema) as store:
        await store.join("host")
        await store.insert(running(some(most), realm="acme"))
        child = running(ids[1], parent=ids[0], realm="acme")
        await store.insert(child)
        assert (await store.find(parent=ids[0])) == [child]
        assert len(await store.find(realms=["acme"], newest=True)) == 2
        assert await store.claim(ids[1], "host") is not None
