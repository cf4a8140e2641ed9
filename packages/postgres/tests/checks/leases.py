"""Who is alive: by the clock of the database, as long as the lease lasts, and never after that."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psycopg import AsyncConnection

from agentic_kernel_engine import StoreError

from .. import clock_worker
from ..bench import SOON, Bench
from ..records import event, running, step

LEASE = 2.0
"""Seconds; a busy machine may keep a thread from renewing for one of them."""
ROOT = Path(__file__).parents[4]


async def a_clock_an_hour_off_plays_no_part(bench: Bench) -> None:
    """A worker's clock makes nobody alive or dead: not the worker, and not others in its eyes."""
    async with bench.store(lease=60) as here:
        await here.join("here")
        with _worker(bench, "slow", -1) as slow, _worker(bench, "fast", 1) as fast:
            for name, process in (("slow", slow), ("fast", fast)):
                said = await asyncio.to_thread(_said, process)
                assert said == "joined", f"{name} cannot begin: {said}"
                await _renewed(bench, name)
                assert await here.alive(f"{name}:1"), f"{name} works, and is taken for dead"
                claimed = await here.claim(name, "here")
                assert claimed is None, f"the Task of {name}, which works, is taken over"
            for asked, others in ((slow, ("here", "fast")), (fast, ("here", "slow"))):
                for other in others:
                    alive = await asyncio.to_thread(_asked, asked, f"{other}:1")
                    assert alive, f"{other} is taken for dead by a worker whose clock is off"
        dead = time.monotonic()
        for name in ("slow", "fast"):
            while await here.claim(name, "here") is None:
                late = time.monotonic() - dead
                assert late < LEASE + SOON, f"{name} is dead, and alive for {late:.1f} s"
                await asyncio.sleep(0.02)


async def a_lease_ends_with_its_process(bench: Bench) -> None:
    """Whoever is gone without a word is dead as soon as its lease has run out."""
    async with bench.store() as other:
        async with bench.store(lease=0.2) as store:
            await store.join("host")
        gone = time.monotonic()
        while await other.alive("host:1"):
            late = time.monotonic() - gone
            assert late < SOON, f"alive {late:.1f} s after its end, with a lease of 0.2 s"
            await asyncio.sleep(0.02)


async def a_lease_that_ran_out_is_not_renewed(bench: Bench) -> None:
    """Not even by its own process, and not along with the others of that process."""
    async with bench.store(lease=LEASE) as store:
        await store.join("lapsed")
        await store.join("alive")
        bench.run_out("lapsed")
        await _renewed(bench, "alive")
        assert await store.alive("alive:1"), "a host that is renewed is dead"
        assert not await store.alive("lapsed:1"), "a lease that had run out was renewed"


async def a_zombie_writes_nothing(bench: Bench) -> None:
    """Nor does it claim; alone or beside others, and also where nobody has taken over."""
    async with bench.store(lease=60) as store:
        await store.join("zombie")
        await store.join("alive")
        records = [running(f"{n}", owner=f"{'zombie' if n % 2 else 'alive'}:1") for n in range(6)]
        for record in records:
            await store.insert(record, [event(record)])
        await store.insert(running("free"))
        bench.run_out("zombie")
        outcomes = await asyncio.gather(
            store.commit(records[1], step(records[1]), [b"1"]),
            store.insert(running("new", owner="zombie:1")),
            store.claim("free", "zombie"),
            store.join("zombie"),
            return_exceptions=True,
        )
        for what, outcome in zip(("commit", "insert", "claim", "join"), outcomes, strict=True):
            told = isinstance(outcome, StoreError) and "lease ran out" in str(outcome)
            assert told, f"a zombie may {what}: {outcome!r:.80}"
        steps = await asyncio.gather(
            *(store.commit(each, step(each), [b"2"]) for each in records), return_exceptions=True
        )
        landed = [outcome is None for outcome in steps]
        assert landed == [True, False] * 3, f"of the living and the zombie landed {landed}"
        for n, record in enumerate(records):
            right = record if n % 2 else step(record)
            assert await store.load(record.task.id) == right, "a zombie's write is there"
            assert len(await store.events(record.task.id)) == 2 - n % 2, "a zombie's event is there"


@contextmanager
def _worker(bench: Bench, name: str, hours: int) -> Iterator[subprocess.Popen[str]]:
    """A process that has a Task and a wrong clock; killed when the block ends."""
    kind = f"{bench.kind.__module__}:{bench.kind.__qualname__}"
    told = [bench.server, bench.schema, kind, f"{LEASE}", f"{hours}", name]
    with subprocess.Popen(
        [sys.executable, "-m", clock_worker.__name__, *told],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def _asked(process: subprocess.Popen[str], owner: str) -> object:
    assert process.stdin is not None
    print(owner, file=process.stdin, flush=True)
    return _said(process)


def _said(process: subprocess.Popen[str]) -> object:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a worker ended without a word; its standard error says why")
    said: object = json.loads(line)
    return said


async def _renewed(bench: Bench, host: str) -> None:
    """Wait until the lease of a host has been renewed twice, or should have been."""
    asked = f"SELECT until FROM {bench.schema}.hosts WHERE name = %s"
    seen: set[object] = set()
    deadline = time.monotonic() + LEASE
    async with await AsyncConnection.connect(bench.server, autocommit=True) as connection:
        while len(seen) < 3 and time.monotonic() < deadline:
            seen.add(await (await connection.execute(asked, [host])).fetchone())
            await asyncio.sleep(0.02)
