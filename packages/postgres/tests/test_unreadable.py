"""One record that cannot be read hides no other, whatever is wrong with it (R22)."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from agentic_kernel import TaskNotFound, TaskStatus
from agentic_kernel_engine import Conflict, StoreError, Unreadable
from agentic_kernel_engine.stored import buried
from agentic_kernel_postgres import PostgresStore

from .records import AT, LATER, ended, event, paused, resumed, running

pytestmark = pytest.mark.rule("R22")

Damage = Callable[[dict[str, Any], dict[str, Any]], None]
"""Changes the stored input and head, which are JSON objects."""


def _head(**fields: Any) -> Damage:
    return lambda given, head: head.update(fields)


def _given(**fields: Any) -> Damage:
    return lambda given, head: given["i"].update(fields)


TEXTS: dict[str, Damage] = {
    "a status that is none": _head(st="asleep"),
    "no status": _head(st=None),
    "a due that is no moment": _head(due="never"),
    "a due without a zone": _head(due="2030-01-01T00:00:00"),
    "a start that is a number": _head(start=5),
    "a note without a scope": _head(notes={"n": 1}),
    "an end that is infinite": _head(end="infinity"),
    "a version that is none": _head(v="two"),
    "a newer schema": _given(schema=99),
    "an older schema than there ever was": _given(schema=0),
    "a created_at that is none": _given(created_at="infinity"),
    "an id that is a number": _given(id=5),
    "another id": _given(id="other"),
    "metadata that is a list": _given(metadata=[]),
    "no input": lambda given, head: given.clear(),
    "no summary": lambda given, head: given["i"].pop("summary"),
}
COLUMNS = {
    "a head that is no JSON": ("heads", "head", b"{"),
    "a head that is nothing": ("heads", "head", b""),
    "a head of nested lists": ("heads", "head", b"[" * 100_000),
    "a head that is no text": ("heads", "head", b"\xff\0"),
    "an input that is no JSON": ("tasks", "input", b"null"),
    "a status column that is none": ("heads", "status", "asleep"),
    "a status column that says otherwise": ("heads", "status", "success"),
    "a version of zero": ("heads", "version", 0),
    "a version below zero": ("heads", "version", -5),
}
GOOD = ("a", "c", "e")
BAD = "b"


@pytest_asyncio.fixture
async def store(server: str, schema: str) -> AsyncIterator[PostgresStore]:
    """A store with four Tasks, one of which has had a pause, a supplement and events."""
    async with PostgresStore(server, schema=schema) as store:
        for name in (*GOOD, BAD):
            first = running(name, realm="acme", parent="p")
            await store.insert(first, [event(first)])
            rest = paused(first).changed(due_at=LATER)
            await store.commit(first, rest, [event(rest)])
        rest = await store.load(BAD)
        await store.commit(rest, resumed(rest, "go on"))
        yield store


@pytest.fixture(params=[*TEXTS, *COLUMNS])
def damaged(request: pytest.FixtureRequest, server: str, schema: str, store: PostgresStore) -> str:
    """The kind of damage that is done to one Task."""
    with psycopg.connect(server) as connection:
        if request.param in COLUMNS:
            table, column, value = COLUMNS[request.param]
            connection.execute(
                f"UPDATE {schema}.{table} SET {column} = %s WHERE id = %s", [value, BAD]
            )
        else:
            row = connection.execute(
                f"SELECT t.input, h.head FROM {schema}.tasks AS t JOIN {schema}.heads AS h "
                "USING (id) WHERE id = %s", [BAD]
            ).fetchone()  # fmt: skip
            assert row is not None
            given, head = map(json.loads, row)
            TEXTS[request.param](given, head)
            connection.execute(
                f"UPDATE {schema}.tasks SET input = %s WHERE id = %s",
                [json.dumps(given).encode(), BAD],
            )
            connection.execute(
                f"UPDATE {schema}.heads SET head = %s WHERE id = %s",
                [json.dumps(head).encode(), BAD],
            )
    return str(request.param)


async def test_it_is_told_passed_over_and_buried(
    damaged: str, store: PostgresStore, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Unreadable) as told:
        await store.load(BAD)
    fault = told.value
    assert (fault.task_id, fault.newer) == (BAD, damaged == "a newer schema")
    version = fault.version
    assert set(await store.load_many([*GOOD, BAD])) == set(GOOD)
    with caplog.at_level(logging.WARNING):
        for newest in (False, True):
            pages = await store.find(newest=newest, limit=3)
            assert sorted(each.task.id for each in pages) == list(GOOD), "the page is filled"
            assert len(await store.find(newest=newest, limit=2)) == 2
        for filters in ({"realms": ["acme"]}, {"parent": "p"}, {"kinds": ["test"]}):
            assert [each.task.id for each in await store.find(**filters)] == list(GOOD)
        assert len(await store.find(status=TaskStatus.PAUSED, due=LATER)) == 3
        assert [each.task.id for each in await store.find(claimable=True)] == []
    assert caplog.text.count("passed over") == 1, "it is said once"
    (listed,) = await store.unreadable()
    assert (listed.task_id, listed.version) == (BAD, version)
    assert await store.unreadable(after=BAD) == []
    assert await store.unreadable(limit=0) == []

    with pytest.raises(Conflict):
        await store.bury(BAD, version + 1)
    if fault.newer:
        with pytest.raises(Unreadable):
            await store.bury(BAD, version)
    before = await store.events(BAD)
    grave = await store.bury(BAD, version, [b'"buried"'], force=fault.newer, at=LATER)
    later = version + 1 if version > 0 else max(at for (at, _), _ in before) + 1
    assert grave == buried(BAD, later, LATER)
    assert await store.load(BAD) == grave
    assert sorted(each.task.id for each in await store.find()) == sorted([*GOOD, BAD])
    assert [each.task.id for each in await store.find(realms=["acme"])] == list(GOOD)
    assert await store.find(kinds=["unreadable"], newest=True) == [grave]
    assert {text for _, text in await store.events(BAD)} == {
        *(text for _, text in before), b'"buried"'
    }  # fmt: skip
    assert await store.unreadable() == []
    with pytest.raises(Conflict):
        await store.bury(BAD, grave.version)
    assert await store.prune(LATER + timedelta(days=1)) == 1
    with pytest.raises(TaskNotFound):
        await store.load(BAD)


async def test_only_what_is_there_and_unreadable_is_buried(store: PostgresStore) -> None:
    with pytest.raises(TaskNotFound):
        await store.bury("nobody", 1)
    with pytest.raises(Conflict) as moved:
        await store.bury("a", 2)
    assert moved.value.latest == await store.load("a")


async def test_a_living_owner_keeps_its_record(
    server: str, schema: str, store: PostgresStore
) -> None:
    """Until its host has left."""
    await store.join("host")
    await store.insert(running("owned", owner="host:1"))
    _spoil(server, schema, "owned")
    with pytest.raises(StoreError, match="host owns it and is alive"):
        await store.bury("owned", 1)
    await store.leave("host")
    assert (await store.bury("owned", 1)).task.status is TaskStatus.CANCELLED


async def test_what_cannot_be_read_is_not_pruned(
    server: str, schema: str, store: PostgresStore
) -> None:
    for n in range(250):
        first = running(f"old-{n:03}")
        await store.insert(first)
        await store.commit(first, ended(first, LATER))
        if n % 2:
            _spoil(server, schema, first.task.id)
    assert await store.prune(LATER + timedelta(days=1), 100) == 100
    assert await store.prune(LATER + timedelta(days=1)) == 25
    assert len(await store.unreadable(limit=1_000)) == 125


async def test_pages_of_them_are_in_order(server: str, schema: str, store: PostgresStore) -> None:
    names = [f"x{n:03}" for n in range(230)]
    for name in names:
        await store.insert(running(name))
        _spoil(server, schema, name)
    found: list[str] = []
    while page := await store.unreadable(found[-1] if found else None, limit=50):
        found += [each.task_id for each in page]
    assert found == names
    assert [each.task.id for each in await store.find(after="a", limit=2)] == ["b", "c"]
    assert [each.task.id for each in await store.find(after="d", limit=2)] == ["e"]


async def test_a_row_whose_moments_are_infinite_hides_no_other(
    server: str, schema: str, store: PostgresStore
) -> None:
    with psycopg.connect(server) as connection:
        for column in ("due", "ended", "created"):
            for value, name in (("infinity", "a"), ("-infinity", "c")):
                connection.execute(
                    f"UPDATE {schema}.tasks SET {column} = %s WHERE id = %s", [value, name]
                )
    assert len(await store.find(status=TaskStatus.PAUSED)) == 3
    assert [each.task.id for each in await store.find(newest=True)] == ["e", "b"]
    assert [each.task.id for each in await store.find(due=LATER)] == ["c", "e"]
    assert [each.task.id for each in await store.find(created_from=AT)] == ["b", "e"]
    assert await store.prune(LATER + timedelta(days=1)) == 0
    later = await store.load("a")
    await store.commit(later, resumed(later, "x"))


async def test_a_claim_of_it_is_told(server: str, schema: str, store: PostgresStore) -> None:
    _spoil(server, schema, BAD)
    with pytest.raises(Unreadable):
        await store.claim(BAD, "host")
    assert len(await store.find(status=TaskStatus.PAUSED)) == 3


def _spoil(server: str, schema: str, task_id: str) -> None:
    with psycopg.connect(server) as connection:
        connection.execute(f"UPDATE {schema}.heads SET head = '{{' WHERE id = %s", [task_id])
