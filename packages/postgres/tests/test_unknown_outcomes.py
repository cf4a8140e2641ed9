"""Writes whose answer never comes: settled by reading back, never sent again blindly (R5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import psycopg
import pytest
import pytest_asyncio

from agentic_kernel import Dispatch, Task, TaskStatus, apply
from agentic_kernel_engine import Conflict, Record, StoreError, UnknownOutcome
from agentic_kernel_postgres import PostgresStore

from .proxy import Cut, Proxy
from .records import AT, all_events, ended, event, paused, running, step

pytestmark = pytest.mark.rule("R5")


@pytest_asyncio.fixture
async def proxy(server: str) -> AsyncIterator[Proxy]:
    async with Proxy(server) as proxy:
        yield proxy


@pytest_asyncio.fixture
async def store(proxy: Proxy, schema: str) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(proxy.place, schema=schema) as store:
        yield store


@pytest.mark.parametrize("following", [step, paused])
async def test_a_write_that_arrives_after_its_like_changes_nothing(
    following: Callable[[Record], Record], proxy: Proxy, store: PostgresStore
) -> None:
    """It was sent anew when it was known that it would never land."""
    record = running("a", owner="host:1")
    await store.insert(record, [event(record)])
    proxy.cut = Cut.LATE
    after = following(record)
    await store.commit(record, after, [event(after)])
    assert await proxy.deliver()
    assert await store.load("a") == after
    assert await store.events("a") == all_events(2)


@pytest.mark.parametrize("owner", ["host\0:1", "\ud800:1"])
async def test_a_write_that_cannot_be_sent_spoils_no_other(
    owner: str, proxy: Proxy, store: PostgresStore
) -> None:
    """Alone or beside others; no connection is given up for it."""
    records = [running(f"{n:02}", owner="host:1") for n in range(3)]
    for record in records:
        await store.insert(record)
    for n, record in enumerate(records):
        bad = step(record).changed(owner=owner)
        others = [each for each in records if each is not record]
        outcomes = await asyncio.gather(
            store.commit(record, bad),
            *(store.commit(each, step(each)) for each in others if n == 0),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes if outcome is not None] == [StoreError]
        if n == 0:
            records[1:] = [step(each) for each in others]
    for record in records:
        assert await store.load(record.task.id) == record


@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.AFTER])
async def test_an_outcome_that_cannot_be_learned_is_unknown_until_it_can(
    cut: Cut, proxy: Proxy, schema: str
) -> None:
    async with PostgresStore(proxy.place, schema=schema, timeout=0.3) as store:
        record = running("a", owner="host:1")
        await store.insert(record)
        proxy.cut, proxy.alone = cut, False
        with pytest.raises(UnknownOutcome, match="read back"):
            await store.commit(record, step(record), [b"1"])
        proxy.down = False
        found = await store.load("a")
        assert found == (step(record) if cut is Cut.AFTER else record)
        assert len(await store.events("a")) == (cut is Cut.AFTER)
        await store.commit(found, step(found))


async def test_each_write_of_a_batch_hears_what_became_of_it(
    proxy: Proxy, store: PostgresStore
) -> None:
    """A landed write counts, and a conflict is reported, also if the answer to all was lost."""
    records = [running(f"{n:02}", owner="host:1") for n in range(20)]
    await asyncio.gather(*(store.insert(each, [event(each)]) for each in records))
    stale = records[7]
    await store.commit(stale, ended(stale), [b"the end"])
    for cut in (Cut.AFTER, Cut.BEFORE):
        proxy.cut = cut
        following = [step(each) for each in records]
        outcomes = await asyncio.gather(
            *(
                store.commit(before, after, [event(after)])
                for before, after in zip(records, following, strict=True)
            ),
            return_exceptions=True,
        )
        assert [type(each) for each in outcomes if each is not None] == [Conflict]
        assert isinstance(outcomes[7], Conflict)
        records = [*following[:7], stale, *following[8:]]
    for record in (*records[:7], *records[8:]):
        assert await store.load(record.task.id) == record
        assert await store.events(record.task.id) == all_events(3)
    assert await store.load("07") == ended(stale)


async def test_reads_go_on_when_all_connections_broke(proxy: Proxy, store: PostgresStore) -> None:
    record = running("a")
    await store.insert(record)
    await asyncio.gather(*(store.load("a") for _ in range(10)))
    await proxy.lose()
    proxy.down = False
    assert await store.load("a") == record
    await store.commit(record, step(record))


async def test_a_commit_is_one_round_trip(proxy: Proxy, store: PostgresStore) -> None:
    """And those that wait together share it."""
    records = [running(f"{n:02}", owner="host:1") for n in range(32)]
    for record in records:
        await store.insert(record)

    async def commit(these: list[Record]) -> tuple[int, int]:
        """Commit a step of each, at once; returns how many requests and writes that took."""
        before = proxy.requests, proxy.writes
        await asyncio.gather(*(store.commit(each, step(each), [b"1", b"2"]) for each in these))
        records[: len(these)] = map(step, these)
        return proxy.requests - before[0], proxy.writes - before[1]

    for _ in range(10):  # in which the statements are prepared
        await commit(records[:1])
        await commit(records)
    for _ in range(10):
        assert await commit(records[:1]) == (1, 1)
        assert await commit(records) == (1, 1)


async def test_a_page_is_one_round_trip(proxy: Proxy, store: PostgresStore) -> None:
    """Also if the page is full."""
    for n in range(4):
        await store.insert(running(f"{n}"))
    for limit in (3, 4, 5):
        before = proxy.requests
        assert len(await store.find(limit=limit)) == min(limit, 4)
        assert proxy.requests - before == 1


async def test_a_page_of_one_kind_and_one_status_is_one_round_trip(
    proxy: Proxy, store: PostgresStore
) -> None:
    """The database leaves out the other kinds, so no second page is needed."""
    await store.insert(running("a"))
    other = Task.new(id="b", summary="", instructions="", runtime_kind="other", at=AT)
    await store.insert(Record(apply(other, Dispatch(), AT)))
    before = proxy.requests
    (found,) = await store.find(status=TaskStatus.RUNNING, kinds=["other"], limit=1)
    assert (found.task.id, proxy.requests - before) == ("b", 1)


async def test_a_write_that_the_database_cannot_take_spoils_no_other(
    proxy: Proxy, store: PostgresStore, server: str, schema: str
) -> None:
    """It alone is refused, and leaves nothing."""
    records = [running(f"{n:02}", owner="host:1") for n in range(8)]
    for record in records:
        await store.insert(record)
    with psycopg.connect(server) as connection:
        connection.execute(
            f"ALTER TABLE {schema}.events ADD CHECK (text <> 'unheard of') NOT VALID"
        )
    outcomes = await asyncio.gather(
        *(
            store.commit(each, step(each), [b"unheard of" if n == 3 else b"1"])
            for n, each in enumerate(records)
        ),
        return_exceptions=True,
    )
    assert [n for n, outcome in enumerate(outcomes) if outcome is not None] == [3]
    assert "check constraint" in str(outcomes[3])
    assert await store.load("03") == records[3]
    for record in (*records[:3], *records[4:]):
        assert await store.load(record.task.id) == step(record)


async def test_each_caller_that_is_refused_gets_an_exception_of_its_own(
    proxy: Proxy, schema: str
) -> None:
    """An exception that two callers share would collect the traceback and the context of both."""
    async with PostgresStore(proxy.place, schema=schema, timeout=0.3) as store:
        records = [running(f"{n:02}", owner="host:1") for n in range(3)]
        await asyncio.gather(*map(store.insert, records))
        await proxy.lose()
        refused = await asyncio.gather(
            *(store.commit(record, step(record)) for record in records), return_exceptions=True
        )
        proxy.down = False
    assert all(isinstance(each, StoreError) for each in refused)
    assert len({id(each) for each in refused}) == 3
    assert len({str(each) for each in refused}) == 1
