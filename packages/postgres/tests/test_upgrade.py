"""A schema that version 0.1.0 made and wrote to: read, shared with it, and closed to it for good.

The fixture is what a process of 0.1.0 left. Its later calls are made here as it makes them; the
torture tests in `integration` have a real process of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from agentic_kernel import TaskStatus
from agentic_kernel_engine import HostGone, Record
from agentic_kernel_engine.moments import LATEST
from agentic_kernel_postgres import PostgresStore, SchemaTooNew
from agentic_kernel_postgres.schema import migrate, migrations
from agentic_kernel_postgres.writes import Write, batch_of

from .records import ended, event, paused, running, step
from .released import AT, fill, released_records

IDS = ["child", "edge", "ended", "orphan", "paused", "resumed", "running"]
REFUSED = "a newer version has written to schema .* upgrade agentic-kernel-postgres"


@pytest.fixture
def released(server: str, schema: str) -> str:
    """The schema as 0.1.0 left it, one of its hosts alive."""
    fill(server, schema)
    return schema


@pytest_asyncio.fixture
async def store(server: str, released: str) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(server, schema=released) as store:
        yield store


class Old:
    """The calls of a process of version 0.1.0."""

    def __init__(self, server: str, schema: str) -> None:
        self._server = server
        self._schema = schema

    def call(self, text: str, values: Sequence[Any] = ()) -> Any:
        """The result of one of its statements."""
        with psycopg.connect(self._server) as connection:
            cursor = connection.execute(text.format(schema=self._schema), values)
            row = cursor.fetchone() if cursor.description else None
        return None if row is None else row[0]

    async def write(self, before: Record | None, after: Record) -> Any:
        """Its outcome for a write; None if it landed."""
        write = Write(before, after, [event(after)])
        write.item.created, write.item.facets, write.item.listed = None, (), ()
        batch = batch_of([write], 7, "news", raised=True)[:9]
        return self.call("SELECT {schema}.write_1(%s, %s, %s, %s, %s, %s, %s, %s, %s)", batch)

    async def step(self, before: Record, after: Record) -> Any:
        """True if a step landed."""
        values = Write(before, after, [event(after)]).step(7)
        return self.call("SELECT {schema}.step_1(%s, %s, %s, %s, %s, %s, %s, %s, %s)", values)


@pytest.fixture
def old(server: str, released: str) -> Old:
    return Old(server, released)


async def test_everything_is_read_as_it_was(store: PostgresStore) -> None:
    records = {each.task.id: each for each in await store.find()}
    assert list(records) == IDS
    assert not await store.unreadable()
    assert list(records.values()) == released_records()
    assert records["running"].task.metadata["k/x"] is True
    assert type(records["paused"].task.metadata["k/x"]) is int
    for record in records.values():
        texts = [text for _, text in await store.events(record.task.id)]
        assert texts == [b'{"n":%d}' % n for n in range(1, record.version + 1)]


async def test_everything_is_found_by_what_it_came_in_with(store: PostgresStore) -> None:
    async def ids(**filters: Any) -> list[str]:
        return [each.task.id for each in await store.find(**filters)]

    assert await ids(newest=True) == [
        "child", "running", "orphan", "paused", "edge", "resumed", "ended"
    ]  # fmt: skip
    assert await ids(agent="acme/ann") == ["edge", "running"]
    assert await ids(labels={"team": "red"}, newest=True) == ["running", "orphan"]
    assert await ids(realms=[""]) == IDS
    assert await ids(kinds=["other"]) == ["orphan"]
    assert await ids(parent="running") == ["child"]
    assert await ids(created_from=AT + timedelta(minutes=5)) == ["child", "running"]
    assert await ids(claimable=True) == ["child", "orphan", "resumed"]
    assert await ids(due=AT + timedelta(days=2)) == ["paused"]


async def test_a_migration_of_many_tasks_is_made_in_bounded_statements(
    server: str, released: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And goes on where another process left it."""
    with psycopg.connect(server) as connection:
        for n in range(650):
            connection.execute(
                f"INSERT INTO {released}.tasks (id, kind, status, holder, input) "
                f"SELECT %s, kind, status, holder, input FROM {released}.tasks WHERE id = 'orphan'",
                [f"copy-{n:03}"],
            )
        connection.execute(f"UPDATE {released}.tasks SET input = '{{' WHERE id = 'copy-100'")
    async with await psycopg.AsyncConnection.connect(server, autocommit=True) as connection:
        await migrate(connection, released, "here")
    async with PostgresStore(server, schema=released):
        pass
    with psycopg.connect(server) as connection:
        row = connection.execute(
            f"SELECT count(*), count(created), max(cardinality(facets)) FROM {released}.tasks"
        ).fetchone()
        assert row == (657, 657, 4)


async def test_both_versions_write_side_by_side(old: Old, store: PostgresStore) -> None:
    """And what the older one inserts is found by what it came in with."""
    mine, theirs = running("mine", owner="host:1"), running("theirs", owner="host:1")
    assert await old.write(None, theirs) is None
    await store.insert(mine)
    assert await old.step(mine, step(mine)) is True
    await store.commit(theirs, step(theirs), [event(step(theirs))])
    assert [each.task.id for each in await store.find(newest=True, limit=2)] == ["theirs", "mine"]
    assert len(await store.find(kinds=["test"])) == 2
    rest = paused(step(mine))
    assert await old.write(step(mine), rest) is None
    assert await store.load("mine") == rest
    assert await old.write(step(mine), rest) == [3], "it is told that its record moved"
    done = ended(step(theirs))
    await store.commit(step(theirs), done)
    assert await old.write(done, step(done)) == [3]
    assert _refused(store, old) is None


def _refused(store: PostgresStore, old: Old) -> int | None:
    """The oldest version of the code that the schema now wants, if it is not the first."""
    found = old.call("SELECT max(oldest) FROM {schema}.versions")
    return None if found == 1 else int(found)


RAISING: dict[str, dict[str, Any]] = {
    "terms": {"terms": b'{"limits":{}}'},
    "realm": {"realm": "acme"},
    "form": {"form": "loop/3"},
}


@pytest.mark.parametrize("name", RAISING)
async def test_the_first_record_of_the_newer_form_keeps_the_older_version_out(
    name: str, old: Old, store: PostgresStore, server: str, released: str
) -> None:
    await store.join("new")
    plain = running("plain", owner="host:1")
    await store.insert(plain)
    assert _refused(store, old) is None
    newer = running("newer", owner="new:1", **RAISING[name])
    await store.insert(newer, [event(newer)])
    assert await store.load("newer") == newer
    assert _refused(store, old) == 4

    with pytest.raises(psycopg.Error, match=REFUSED):
        await old.write(None, running("late"))
    with pytest.raises(psycopg.Error, match=REFUSED):
        await old.step(plain, step(plain))
    with pytest.raises(psycopg.Error, match=REFUSED):
        await old.write(newer, paused(newer))
    with pytest.raises(psycopg.Error, match=REFUSED):
        old.call("DELETE FROM {schema}.tasks WHERE ended < %s", [LATEST])
    # An older process that opens it refuses, by what it knows of versions.
    async with await psycopg.AsyncConnection.connect(server, autocommit=True) as connection:
        with pytest.raises(SchemaTooNew, match="needs code of version 4, and this is 2"):
            await migrate(connection, released, "here", migrations()[:2])
    # Its host is gone, so what it owned is claimable at once, and this version goes on.
    with pytest.raises(HostGone):
        await store.join("host")
    claimed = await store.claim("running", "new")
    assert claimed is not None
    await store.commit(claimed, step(claimed))
    await store.commit(newer, step(newer))
    assert await store.prune(LATEST - timedelta(days=1)) == 1
    assert await store.alive("new:1")


async def test_a_commit_of_the_newer_form_raises_the_schema_alone_or_beside_others(
    old: Old, store: PostgresStore
) -> None:
    record = running("a", owner="new:1")
    await store.join("new")
    await store.insert(record)
    formed = step(record).changed(form="loop/3")
    await store.commit(record, formed)
    assert _refused(store, old) == 4
    assert await store.load("a") == formed
    assert await store.alive("new:1")


async def test_a_write_of_the_newer_form_that_is_refused_raises_nothing(
    old: Old, store: PostgresStore
) -> None:
    record = running("a", owner="host:1")
    await store.insert(record)
    await store.commit(record, step(record))
    with pytest.raises(Exception, match="moved on"):
        await store.commit(record, step(record).changed(form="loop/3"))
    assert _refused(store, old) is None
    await store.insert(running("b", realm="acme"))
    assert _refused(store, old) == 4


async def test_a_store_that_opens_later_finds_what_came_before_the_end(
    old: Old, store: PostgresStore, server: str, released: str
) -> None:
    assert await old.write(None, running("last")) is None
    await store.insert(running("newer", realm="acme"))
    assert [each.task.id for each in await store.find(kinds=["test"])] == ["last", "newer"]
    async with PostgresStore(server, schema=released) as another:
        found = await another.find(kinds=["test"], status=TaskStatus.RUNNING, newest=True)
        assert [each.task.id for each in found] == ["newer", "last"]
