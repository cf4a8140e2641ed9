"""A worker process on a store under test: ``python -m …store_worker JSON``.

It opens the store with its factory, does one job, and writes the results as JSON lines.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Host, Store

from .parts import contend
from .processes import StoreFactory, close


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
    "contend": join_histories,
}


def say(value: Any) -> None:
    """Write a value as one JSON line to the parent process."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def main(text: str) -> None:
    """Open the store and do the job that the JSON text describes."""
    given = json.loads(text)
    store = StoreFactory(given["path"], tuple(given["arguments"])).open()
    try:
        await JOBS[given["job"]](store, **given["told"])
    finally:
        await close(store)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
