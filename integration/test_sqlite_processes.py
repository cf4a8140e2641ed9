"""Owners that are killed or stopped, on a store with leases: real processes, real signals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel_engine import Record
from agentic_kernel_engine.record import host_of

from .sqlite_store import SQLiteStore
from .sqlite_worker import step

pytestmark = pytest.mark.torture

LEASE = 3.0
"""Seconds. On a busy disk a write, and so a renewal, can take one of them."""
ROOT = Path(__file__).parent.parent
PATIENCE = 30.0
BATCH = 8


class Worker:
    """A process that works on the store."""

    def __init__(self, path: Path, lease: float, *told: str) -> None:
        self.name = told[1]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "integration.sqlite_worker", str(path), str(lease), *told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def said(self) -> Any:
        """What it says next."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"{self.name} ended without a word"
        return json.loads(line)

    def go(self) -> None:
        """Give it the line it waits for."""
        assert self.process.stdin is not None
        print("go", file=self.process.stdin, flush=True)

    def stop(self) -> None:
        """Stop it, and wait until it is stopped."""
        self.process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def kill(self) -> list[Any]:
        """Kill it; returns what it had said before."""
        self.process.kill()
        rest, _ = self.process.communicate()
        return [json.loads(line) for line in rest.splitlines()]


@contextmanager
def worker(path: Path, *told: str, lease: float = LEASE) -> Iterator[Worker]:
    """A worker that is killed when the block ends."""
    started = Worker(path, lease, *told)
    try:
        yield started
    finally:
        started.kill()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody is in the middle of a write, and nobody begins one."""
    with closing(sqlite3.connect(path, PATIENCE, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


def content(path: Path) -> list[Any]:
    """Every record and every event."""
    with closing(sqlite3.connect(path)) as db:
        tables = [db.execute(f"SELECT * FROM {name}").fetchall() for name in ("tasks", "events")]
    assert all(tables)
    return tables


async def take_over(store: SQLiteStore, task_id: str, heir: str) -> Record:
    """Claim a Task as soon as that is possible."""
    async with asyncio.timeout(PATIENCE):
        while True:
            claimed = await store.claim(task_id, heir, [b"0"])
            if claimed is not None:
                return claimed
            await asyncio.sleep(0.02)


async def zombies(path: Path, count: int) -> None:
    """Stop owners for twice their lease, take over half of their Tasks, and let them go on."""
    store = SQLiteStore(path, lease=60.0)
    with ExitStack() as stack:
        stack.callback(store.close)
        workers = [stack.enter_context(worker(path, "work", f"zombie-{n}")) for n in range(count)]
        for one in workers:
            assert [await asyncio.to_thread(one.said) for _ in range(3)] == [2, 3, 4]
        with locked(path):  # who is stopped in the middle of a write keeps all others waiting
            for one in workers:
                one.stop()
            stopped = time.monotonic()
        await store.join("heir")
        claimed = [await take_over(store, f"{one.name} taken", "heir") for one in workers]
        await asyncio.sleep(max(0.0, stopped + 2 * LEASE - time.monotonic()))
        before = content(path)
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
        assert content(path) == before
        for record in claimed:
            await store.commit(record, step(record), [b"the heir goes on"])
        for one in workers:
            assert not await store.alive(f"{one.name}:1")
            left = await store.claim(f"{one.name} left", "heir")
            assert left is not None
        assert content(path) != before


@pytest.mark.rule("R1", "R14")
async def test_a_zombie_writes_nothing(tmp_path: Path) -> None:
    await zombies(tmp_path / "state.db", 4)


@pytest.mark.torture
@pytest.mark.rule("R1", "R14")
async def test_zombies_write_nothing(tmp_path: Path) -> None:
    """As many as ``ZOMBIES`` says, 200 if it says nothing."""
    wanted = int(os.environ.get("ZOMBIES", "200"))
    for batch in range(0, wanted, BATCH):
        count = min(BATCH, wanted - batch)
        await zombies(tmp_path / f"{batch}.db", count)
        print(f"zombies: {batch + count} of {wanted}, stale writes: 0")


@pytest.mark.rule("R14")
@pytest.mark.parametrize("count", [2, 8])
async def test_of_the_resumers_of_a_killed_owner_one_wins(tmp_path: Path, count: int) -> None:
    """And the next version after the last acknowledged one, or after the one in flight, is its."""
    path = tmp_path / "state.db"
    store = SQLiteStore(path)
    with ExitStack() as stack:
        stack.callback(store.close)
        victim = stack.enter_context(worker(path, "work", "victim"))
        said = [await asyncio.to_thread(victim.said) for _ in range(20)]
        tasks = ["victim taken", "victim left"]
        resumers = [
            stack.enter_context(worker(path, "resume", f"heir-{n}", *tasks, lease=60.0))
            for n in range(count)
        ]
        for one in resumers:
            assert await asyncio.to_thread(one.said) == "joined"
            one.go()
        acknowledged = [*said, *victim.kill()][-1]
        won = {one.name: await asyncio.to_thread(one.said) for one in resumers}
        for task_id in tasks:
            (winner,) = [name for name, ids in won.items() if task_id in ids]
            record = await store.load(task_id)
            assert host_of(record.owner or "") == winner
            assert (record.attempts, record.state) == (1, b"%d" % (record.version - 1))
            assert acknowledged < record.version <= acknowledged + 2
            events = await store.events(task_id)
            assert [place for place, _ in events] == [(n + 1, 0) for n in range(record.version)]
            assert events[-1][1] == winner.encode()
