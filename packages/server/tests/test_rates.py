"""Rate limits that the processes of a store share, by records of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Conflict, MemoryStore, Record, StoreError, UnknownOutcome
from agentic_kernel_guard.rules import Limit
from agentic_kernel_server.policy import Rates
from agentic_kernel_server.policy.rates import KIND, SHORTEST_EPOCH, SLOTS

START = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
THREE = Limit(3, 60.0, "principal")
SLOT = timedelta(seconds=60 / SLOTS)


class Time:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


async def spent(rates: Rates, times: int, limit: Limit = THREE, counter: str = "c") -> list[bool]:
    return [(await rates.spend(counter, limit)).allowed for _ in range(times)]


async def test_calls_over_the_limit_are_refused_until_the_window_has_moved() -> None:
    time = Time()
    rates = Rates(MemoryStore(), time)
    assert await spent(rates, 4) == [True, True, True, False]
    refused = await rates.spend("c", THREE)
    assert 60 <= refused.retry_after <= 60 + 2 * SLOT.total_seconds()
    time.now += timedelta(seconds=60)
    assert await spent(rates, 1) == [False]
    time.now = START + timedelta(seconds=refused.retry_after)
    assert await spent(rates, 4) == [True, True, True, False]


async def test_no_window_has_more_calls_than_the_limit() -> None:
    time = Time()
    rates = Rates(MemoryStore(), time)
    allowed: list[datetime] = []
    for step in range(400):
        time.now = START + step * timedelta(seconds=1.7)
        if (await rates.spend("c", THREE)).allowed:
            allowed.append(time.now)
    for first, fourth in zip(allowed, allowed[3:], strict=False):
        assert fourth - first > timedelta(seconds=60)
    assert len(allowed) >= 3 * 400 * 1.7 / (60 + 1.7 + 2 * SLOT.total_seconds()) - 3


async def test_a_limit_that_is_used_up_in_one_process_is_used_up_in_the_other() -> None:
    store, time = MemoryStore(), Time()
    one, other = Rates(store, time), Rates(store, time)
    assert await spent(one, 2) == [True, True]
    assert await spent(other, 2) == [True, False]
    assert await spent(one, 1) == [False]


async def test_counters_do_not_share_calls() -> None:
    rates = Rates(MemoryStore(), Time())
    assert await spent(rates, 3) == [True] * 3
    assert await spent(rates, 1, counter="d") == [True]
    assert await spent(rates, 1, Limit(3, 61.0, "principal")) == [True]


class Racing(MemoryStore):
    """Yields before each write, so that writers of different processes interleave."""

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        await asyncio.sleep(0)
        await super().commit(before, after, events)

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        await asyncio.sleep(0)
        await super().insert(record, events)


async def test_processes_that_race_never_pass_the_limit() -> None:
    store, time = Racing(), Time()
    limit = Limit(10, 60.0, "tenant")
    several = [Rates(store, time) for _ in range(8)]
    answers = await asyncio.gather(*(spent(rates, 4, limit) for rates in several))
    assert sum(map(sum, answers)) == 10


async def test_calls_count_across_the_border_of_two_records() -> None:
    store, time = MemoryStore(), Time()
    rates = Rates(store, time)
    time.now = START + timedelta(seconds=SHORTEST_EPOCH - 1)
    assert await spent(rates, 3) == [True] * 3
    time.now += timedelta(seconds=2)
    assert await spent(rates, 1) == [False]
    time.now += timedelta(seconds=60)
    assert await spent(rates, 1) == [True]
    found = await store.find(kinds=[KIND])
    statuses = {record.task.status for record in found}
    assert statuses == {TaskStatus.CANCELLED, TaskStatus.PAUSED}


async def test_a_process_with_a_slow_clock_adds_to_the_newest_record() -> None:
    store, fast, slow = MemoryStore(), Time(), Time()
    fast.now = START + timedelta(seconds=SHORTEST_EPOCH + 1)
    slow.now = START + timedelta(seconds=SHORTEST_EPOCH - 1)
    assert await spent(Rates(store, fast), 2) == [True, True]
    assert await spent(Rates(store, slow), 2) == [True, False]
    assert await spent(Rates(store, fast), 1) == [False]


class Unsure(MemoryStore):
    """Each first write lands, and its answer is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = 0

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        await super().commit(before, after, events)
        if self.lost == 0:
            self.lost += 1
            raise UnknownOutcome("cut")


async def test_a_lost_answer_never_lets_a_call_pass_that_is_over_the_limit() -> None:
    store = Unsure()
    rates = Rates(store, Time())
    answers = await spent(rates, 4)
    assert store.lost == 1
    assert sum(answers) <= 3


class Contended(MemoryStore):
    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        raise Conflict(before.task.id)


async def test_a_counter_that_others_write_all_the_time_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agentic_kernel_server.policy.rates.TRIES", 5)
    rates = Rates(Contended(), Time())
    assert await spent(rates, 1) == [True]
    with pytest.raises(StoreError, match="contended"):
        await rates.spend("c", THREE)


async def test_a_damaged_counter_refuses() -> None:
    store = MemoryStore()
    rates = Rates(store, Time())
    await rates.spend("c", THREE)
    (record,) = await store.find(kinds=[KIND], status=TaskStatus.PAUSED)
    await store.commit(record, record.changed(version=record.version + 1, state=b"[]"))
    with pytest.raises(StoreError, match="damaged"):
        await rates.spend("c", THREE)


async def test_the_state_of_a_large_limit_stays_small() -> None:
    store, time = MemoryStore(), Time()
    rates = Rates(store, time)
    limit = Limit(100_000, 60.0, "tenant")
    for _ in range(1_000):
        time.now += timedelta(seconds=0.31)
        await rates.spend("c", limit)
    (record,) = await store.find(kinds=[KIND], status=TaskStatus.PAUSED)
    assert record.state is not None
    assert len(record.state) < 4_000


async def test_a_sweep_ends_only_records_that_no_call_reads_any_more() -> None:
    store, time = MemoryStore(), Time()
    rates = Rates(store, time)
    await rates.spend("c", THREE)
    time.now += timedelta(seconds=SHORTEST_EPOCH)
    await rates.spend("d", THREE)
    assert await rates.sweep() == 0
    time.now = START + timedelta(seconds=2 * SHORTEST_EPOCH)
    assert await rates.sweep() == 1
    time.now += timedelta(seconds=SHORTEST_EPOCH)
    assert await rates.sweep() == 1
    assert await spent(rates, 4) == [True, True, True, False]


def test_names_are_pinned() -> None:
    import agentic_kernel_server.policy as policy

    assert set(policy.__all__) == {"Gate", "Policies", "Policy", "PolicyError", "Rates", "Spent"}
