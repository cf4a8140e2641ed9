"""Owners that are killed, or stopped and continued, on Postgres: real processes, real signals."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest

from agentic_kernel_engine import Host, Record
from agentic_kernel_engine.events import TASK_CLAIMED, from_stored
from agentic_kernel_engine.record import host_of
from agentic_kernel_postgres import PostgresStore

from .postgres_server import schema as schema
from .postgres_server import server as server
from .postgres_worker import Endless
from .sqlite_worker import step
from .test_sqlite_processes import BATCH, PATIENCE, ROOT, Worker

pytestmark = pytest.mark.slow

LEASE = 3.0
"""Seconds; a busy machine may keep a thread from renewing for one of them."""


@contextmanager
def worker(place: str, schema: str, *told: str, lease: float = LEASE) -> Iterator[Worker]:
    """A worker that is killed when the block ends."""
    started = Worker.__new__(Worker)
    started.name = told[1]
    started.process = subprocess.Popen(
        [sys.executable, "-m", "integration.postgres_worker", place, schema, str(lease), *told],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield started
    finally:
        started.kill()


def content(server: str, schema: str) -> list[Any]:
    """Every record and every event."""
    names = ("tasks", "heads", "events", "supplements")
    with psycopg.connect(server) as connection:
        return [connection.execute(f"SELECT * FROM {schema}.{name}").fetchall() for name in names]


async def take_over(store: PostgresStore, task_id: str, heir: str) -> Record:
    """Claim a Task as soon as that is possible."""
    async with asyncio.timeout(PATIENCE):
        while True:
            claimed = await store.claim(task_id, heir, [b"0"])
            if claimed is not None:
                return claimed
            await asyncio.sleep(0.02)


async def zombies(server: str, schema: str, first: int, count: int) -> None:
    """Stop owners for twice their lease, take over half of their Tasks, and let them go on."""
    with ExitStack() as stack:
        names = [f"zombie-{first + n}" for n in range(count)]
        workers = [stack.enter_context(worker(server, schema, "work", name)) for name in names]
        for one in workers:
            assert [await asyncio.to_thread(one.said) for _ in range(3)] == [2, 3, 4]
        for one in workers:
            one.stop()
        stopped = time.monotonic()
        heir = f"heir-{first}"
        async with PostgresStore(server, schema=schema, lease=60.0) as store:
            await store.join(heir)
            claimed = [await take_over(store, f"{one.name} taken", heir) for one in workers]
            await asyncio.sleep(max(0.0, stopped + 2 * LEASE - time.monotonic()))
            before = content(server, schema)
            for one in workers:
                one.process.send_signal(signal.SIGCONT)
                one.go()
            for one in workers:
                said = 4
                while not isinstance(said, dict):
                    said = await asyncio.to_thread(one.said)
                assert said.pop("first") in ("Conflict", "HostGone")
                assert said == {
                    "taken, as it was": "Conflict",
                    "taken, as it is": "Conflict",
                    "left": "HostGone",
                    "insert": "HostGone",
                    "claim what was taken": "NoneType",
                    "claim what was left": "HostGone",
                    "join": "HostGone",
                }
            assert content(server, schema) == before
            for record in claimed:
                await store.commit(record, step(record), [b"the heir goes on"])
            for one in workers:
                assert not await store.alive(f"{one.name}:1")
                assert await store.claim(f"{one.name} left", heir) is not None


@pytest.mark.rule("R1", "R14")
async def test_a_zombie_writes_nothing(server: str, schema: str) -> None:
    await zombies(server, schema, 0, 3)


@pytest.mark.torture
@pytest.mark.rule("R1", "R14")
async def test_zombies_write_nothing(server: str, schema: str) -> None:
    """As many as ``ZOMBIES`` says, 200 if it says nothing."""
    wanted = int(os.environ.get("ZOMBIES", "200"))
    for first in range(0, wanted, BATCH):
        count = min(BATCH, wanted - first)
        await zombies(server, schema, first, count)
        print(f"zombies: {first + count} of {wanted}, stale writes: 0")


@pytest.mark.rule("R14")
@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.torture)])
async def test_of_the_resumers_of_a_killed_owner_one_wins(
    count: int, server: str, schema: str
) -> None:
    """And the next version after the last acknowledged one, or after the one in flight, is its."""
    with ExitStack() as stack:
        victim = stack.enter_context(worker(server, schema, "work", "victim"))
        said = [await asyncio.to_thread(victim.said) for _ in range(20)]
        tasks = ["victim taken", "victim left"]
        resumers = [
            stack.enter_context(worker(server, schema, "resume", f"heir-{n}", *tasks, lease=60.0))
            for n in range(count)
        ]
        for one in resumers:
            assert await asyncio.to_thread(one.said) == "joined"
            one.go()
        acknowledged = [*said, *victim.kill()][-1]
        won = {one.name: await asyncio.to_thread(one.said) for one in resumers}
        async with PostgresStore(server, schema=schema) as store:
            for task_id in tasks:
                (winner,) = [name for name, ids in won.items() if task_id in ids]
                record = await store.load(task_id)
                assert host_of(record.owner or "") == winner
                assert (record.attempts, record.state) == (1, b"%d" % (record.version - 1))
                assert acknowledged < record.version <= acknowledged + 2
                events = await store.events(task_id)
                assert [place for place, _ in events] == [(n + 1, 0) for n in range(record.version)]
                assert events[-1][1] == winner.encode()


async def take_overs(server: str, schema: str, first: int, count: int) -> list[float]:
    """Kill hosts that run a Task each; after how many seconds another one runs it.

    Of three, one has a clock that is an hour slow, and one an hour fast.
    """
    names = [f"victim-{first + n}" for n in range(count)]
    taken: dict[str, float] = {}
    with ExitStack() as stack:
        victims = [
            stack.enter_context(worker(server, schema, "run", name, str(n % 3 - 1)))
            for n, name in enumerate(names)
        ]
        for victim in victims:
            await asyncio.to_thread(victim.said)
        async with (
            PostgresStore(server, schema=schema, lease=60.0) as store,
            Host(Endless(), store) as heir,
        ):
            for victim in victims:
                victim.process.kill()
            killed = time.monotonic()
            async with asyncio.timeout(PATIENCE):
                while len(taken) < count:
                    for task_id, record in (await store.load_many(names)).items():
                        if host_of(record.owner or "") == heir.name:
                            taken.setdefault(task_id, time.monotonic() - killed)
                    await asyncio.sleep(0.01)
            for record in (await store.load_many(names)).values():
                told = [from_stored(*each) for each in await store.events(record.task.id)]
                assert [event.type for event in told].count(TASK_CLAIMED) == 1
                await heir.kill(record.task.id)
    return list(taken.values())


@pytest.mark.rule("R14")
async def test_the_tasks_of_killed_hosts_are_taken_over(server: str, schema: str) -> None:
    """By a host that was told nothing, once each, whatever their clocks said."""
    assert len(await take_overs(server, schema, 0, 3)) == 3


@pytest.mark.torture
@pytest.mark.rule("R14")
async def test_take_over_takes_no_longer_than_a_lease_and_two_seconds(
    server: str, schema: str
) -> None:
    """99 times of 100; as many kills as ``TAKEOVERS`` says, 200 if it says nothing."""
    wanted = int(os.environ.get("TAKEOVERS", "200"))
    seconds: list[float] = []
    for first in range(0, wanted, BATCH):
        seconds += await take_overs(server, schema, first, min(BATCH, wanted - first))
    seconds.sort()
    late = seconds[math.ceil(len(seconds) * 0.99) - 1]
    print(f"{wanted} take-overs, lease {LEASE} s: median {seconds[wanted // 2]:.2f} s, "
          f"p99 {late:.2f} s, longest {seconds[-1]:.2f} s")  # fmt: skip
    assert late <= LEASE + 2.0
