"""A worker process on a store under test: ``python -m …store_worker JSON``.

It opens the store with its factory, does one job, and writes the results as JSON lines.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, NoReturn

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Host, Record, Store

from .parts import contend
from .processes import StoreFactory, close
from .records import after, owned

ACKNOWLEDGED: Final = 20
"""The versions that a process writes before it is killed."""


async def resume(store: Store, task_id: str, name: str, share: int) -> None:
    """Resume a Task whenever it is paused, until ``share`` of its own extras were read.

    Writes ``kept`` (the extras read), ``offered`` (the number of resumes) and ``lost`` (the extras
    that were read and then vanished).
    """
    host = Host(store=store)
    kept: list[str] = []
    lost: set[str] = set()
    offered = 0
    while len(kept) < share:
        if (await host.get(task_id)).status is not TaskStatus.PAUSED:
            await asyncio.sleep(0.0005)
            continue
        extra = f"{name}.{offered}"
        offered += 1
        await host.resume(task_id, extra)
        supplements = (await host.get(task_id)).supplements
        lost |= set(kept).difference(supplements)
        if extra in supplements:
            kept.append(extra)
    await host.close()
    say({"kept": kept, "offered": offered, "lost": sorted(lost)})


async def claim(store: Store, host: str, task_ids: list[str]) -> None:
    """Join, say so, wait for a line, claim one Task after the other, and say which were won."""
    await store.join(host)
    say("joined")
    await asyncio.to_thread(sys.stdin.readline)
    won = [task_id for task_id in task_ids if await store.claim(task_id, host) is not None]
    say(won)
    await asyncio.Event().wait()  # stay alive until killed


async def hold(store: Store, host: str, task_id: str) -> None:
    """Join, claim a Task, say its owner, and stay alive until killed."""
    await store.join(host)
    claimed = await store.claim(task_id, host)
    say(claimed.owner if claimed is not None else None)
    await asyncio.Event().wait()


async def fork(store: Store, host: str, task_id: str) -> None:
    """As `hold`, and say with the owner the id of a forked child, which waits to be killed."""
    await store.join(host)
    claimed = await store.claim(task_id, host)
    child = os.fork()
    if not child:
        _wait_in_silence()
    say([claimed.owner if claimed is not None else None, child])
    await asyncio.Event().wait()


def _wait_in_silence() -> NoReturn:
    """Keep all that was inherited but the pipes to the parent, for a minute at most."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for pipe in (0, 1, 2):
        os.dup2(nowhere, pipe)
    time.sleep(60)
    os._exit(0)


def steps_of(first: Record, count: int) -> Iterator[Record]:
    """The first record and its successors, each with another state."""
    record = first
    for _ in range(count):
        yield record
        record = after(record, state=b"%d" % record.version)


async def write(store: Store, task_id: str, count: int) -> None:
    """Insert a Task, commit until it has so many versions, say so, and stay alive until killed."""
    before: Record | None = None
    await store.join("writer")
    for record in steps_of(owned(task_id, host="writer"), count):
        events = [b"%d" % record.version]
        if before is None:
            await store.insert(record, events)
        else:
            await store.commit(before, record, events)
        before = record
    say(count)
    await asyncio.Event().wait()


async def join_histories(store: Store, part: int, size: int) -> None:
    """Take part in the history of each seed read from stdin; for each, write this part of it."""
    say("ready")
    while line := await asyncio.to_thread(sys.stdin.readline):
        done = await contend(store, int(line), part, size, time.monotonic_ns)
        say(done.to_json())


JOBS: dict[str, Callable[..., Awaitable[None]]] = {
    "resume": resume,
    "claim": claim,
    "hold": hold,
    "fork": fork,
    "write": write,
    "contend": join_histories,
}


def say(value: Any) -> None:
    """Write a value as one JSON line to the parent process."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def kill_child_when_told(child: int) -> NoReturn:
    """Kill a child when a line comes, and never ask for its end, so that its id stays taken."""
    sys.stdin.readline()
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    say("killed")
    while True:
        signal.pause()


async def main(given: dict[str, Any]) -> None:
    """Open the store and do the job."""
    store = StoreFactory(given["path"], tuple(given["arguments"])).open()
    try:
        await JOBS[given["job"]](store, **given["told"])
    finally:
        await close(store)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    if given["told"].pop("unreaped", False) and (child := os.fork()):
        kill_child_when_told(child)
    asyncio.run(main(given))
