"""Listings by their indexes, in the order of the port, and pruning that blocks nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from agentic_kernel import Dispatch, Task, TaskStatus, apply
from agentic_kernel_engine import Record
from agentic_kernel_engine.search import Search
from agentic_kernel_postgres import PostgresStore
from agentic_kernel_postgres.queries import CHANGED, ENDED, EVENTS, LOAD, find

from .records import AT, LATER, ended, event, running, step

MANY = 3_000


@pytest_asyncio.fixture
async def store(server: str, schema: str) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(server, schema=schema) as store:
        yield store


@pytest.mark.slow
async def test_nothing_that_is_asked_often_looks_at_every_task(
    store: PostgresStore, server: str, schema: str
) -> None:
    """There is an index for each question, by which thousands that ended are passed over."""
    await store.join("host")
    records = [_one_of_many(n) for n in range(MANY)]
    await asyncio.gather(*(store.insert(each, [event(each)]) for each in records))
    later = AT + timedelta(days=9)
    await asyncio.gather(*(store.commit(each, ended(each, later), [b"1"]) for each in records[50:]))
    asked: list[tuple[str, str, Any]] = [
        ("load", LOAD, ["00001"]),
        ("changed", CHANGED, [["00001"], [1]]),
        ("events", EVENTS, [0, 0, 10, "00001"]),
        ("prune", ENDED, [LATER - timedelta(days=1), [], 100]),
    ]
    for filters in (
        {"status": TaskStatus.PAUSED},
        {"status": TaskStatus.RUNNING, "owner": "host"},
        {"claimable": True},
        {"claimable": True, "kinds": ["test"]},
        {"parent": "7"},
        {"due": LATER},
        {"after": "02900"},
        {"status": TaskStatus.SUCCESS, "after": "01500", "limit": 10},
        {"kinds": ["rare"]},
        {"kinds": ["rare", "none"], "newest": True},
        {"agent": "acme/rare"},
        {"agent": "acme/common", "after": "01500", "limit": 10},
        {"agent": "acme/common", "newest": True, "after": (AT, "01500"), "limit": 10},
        {"realms": ["rare"]},
        {"realms": ["common", "rare"], "newest": True, "limit": 10},
        {"labels": {"team": "rare"}},
        {"labels": {"team": "common"}, "after": "01500", "limit": 10},
        {"labels": {"team": "common"}, "newest": True, "limit": 10},
        {"newest": True},
        {"newest": True, "after": (AT, "01500"), "limit": 10},
        {"newest": True, "status": TaskStatus.SUCCESS, "limit": 10},
        {"newest": True, "status": TaskStatus.RUNNING},
        {"newest": True, "claimable": True},
        {"newest": True, "parent": "7"},
        {"created_before": AT + timedelta(minutes=5), "created_from": AT},
        {"created_before": AT + timedelta(minutes=2), "newest": True},
    ):
        asked.append((str(filters), *find(Search.of(**filters))))
    with psycopg.connect(server) as connection:
        names = ("tasks", "heads", "events", "facets")
        connection.execute(f"ANALYZE {', '.join(f'{schema}.{name}' for name in names)}")
        # So few rows are also read at once; of millions nobody would think of it.
        connection.execute("SET enable_seqscan = off")
        for name, text, values in asked:
            text = f"EXPLAIN (ANALYZE, FORMAT JSON) {text.format(schema=schema)}"
            row = connection.execute(text, values).fetchone()
            assert row is not None
            assert _rows_read(row[0][0]["Plan"]) <= 500, f"{name}: {row[0]!s:.2000}"


def _one_of_many(n: int) -> Record:
    """One of a thousand is rare; in an order of age that is not that of the ids."""
    share = "rare" if n % 1_000 == 7 else "common"
    given = Task.new(
        id=f"{n:05}", summary="", instructions="", agent_name=f"acme/{share}",
        runtime_kind=share if share == "rare" else "test",
        metadata={"label/team": share}, at=AT + timedelta(minutes=n * 7 % MANY),
    )  # fmt: skip
    task = apply(given, Dispatch(), given.created_at)
    return Record(task, owner="host:1", parent=f"{n % 500}", realm=share)


def _rows_read(plan: dict[str, Any]) -> int:
    """The number of rows of tables that the plan has looked at."""
    here = 0
    if "Relation Name" in plan:
        removed = plan.get("Rows Removed by Filter", 0) + plan.get(
            "Rows Removed by Index Recheck", 0
        )
        here = int((plan["Actual Rows"] + removed) * plan["Actual Loops"])
    return here + sum(_rows_read(part) for part in plan.get("Plans", ()))


async def test_ids_are_in_the_order_of_their_characters(store: PostgresStore) -> None:
    """Whatever language the database sorts by."""
    ids = ["B", "a", "É", "z", "ﬀ", "𝒳", "a b", "A'); DROP TABLE tasks; --", "-", "~", "é"]
    for task_id in ids:
        await store.insert(running(task_id))
    assert [record.task.id for record in await store.find()] == sorted(ids)
    pages: list[str] = []
    while page := await store.find(after=pages[-1] if pages else None, limit=2):
        pages += [record.task.id for record in page]
    assert pages == sorted(ids)


async def test_pruning_passes_over_what_somebody_holds(
    store: PostgresStore, server: str, schema: str
) -> None:
    """It waits for nobody, and takes the rest; whoever reads or writes does not wait for it."""
    records = [running(f"{n:03}", owner="host:1") for n in range(250)]
    await asyncio.gather(*(store.insert(each, [event(each)]) for each in records))
    await asyncio.gather(*(store.commit(each, ended(each), [b"1"]) for each in records[1:]))
    bound = LATER + timedelta(days=1)
    with psycopg.connect(server) as holding:
        holding.execute(f"SELECT FROM {schema}.tasks WHERE id = '042' FOR UPDATE")
        assert await store.prune(bound, 120) == 120
        assert await store.prune(bound) == 128
        await store.commit(records[0], step(records[0]))
    assert [record.task.id for record in await store.find()] == ["000", "042"]
    assert await store.prune(bound) == 1
    with psycopg.connect(server) as connection:
        for name, left in (("tasks", 1), ("heads", 1), ("events", 1), ("supplements", 0)):
            found = connection.execute(f"SELECT count(*) FROM {schema}.{name}").fetchone()
            assert found == (left,), name
