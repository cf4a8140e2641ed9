"""Another process on an `SQLiteStore`: ``python -m integration.sqlite_worker PATH LEASE JOB NAME``.

It says what it did as JSON, one value a line, and only what was acknowledged.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from agentic_kernel import Dispatch, KernelError, Task, apply
from agentic_kernel_engine import Record
from agentic_kernel_engine.record import host_of, owner_name

from .sqlite_store import SQLiteStore

PATIENCE = 60.0


def running(task_id: str, host: str) -> Record:
    """A new record that the host owns."""
    now = datetime.now(UTC)
    task = Task.new(id=task_id, summary="", instructions="count", runtime_kind="test", at=now)
    return Record(apply(task, Dispatch(), now), owner=owner_name(host, 1))


def step(before: Record) -> Record:
    """The successor that the owner of a record would commit."""
    version = before.version + 1
    return before.changed(version=version, step=before.step + 1, state=b"%d" % version)


async def work(store: SQLiteStore, name: str) -> None:
    """Step two Tasks, saying each version, until refused; then, when told, try all to write."""
    await store.join(name)
    taken, left = running(f"{name} taken", name), running(f"{name} left", name)
    await store.insert(taken, [b"1"])
    await store.insert(left, [b"1"])
    first = ""
    try:
        while True:
            await asyncio.sleep(0.002)  # or the renewal of leases would starve among the writers
            await store.commit(left, step(left), [left.state or b"1"])
            left = step(left)
            await store.commit(taken, step(taken), [taken.state or b"1"])
            taken = step(taken)
            say(taken.version)
    except KernelError as refusal:
        first = type(refusal).__name__
    await asyncio.to_thread(sys.stdin.readline)
    current = (await store.load(taken.task.id)).changed(owner=taken.owner)
    tries: dict[str, Callable[[], Awaitable[object]]] = {
        "taken, as it was": lambda: store.commit(taken, step(taken), [b"0"]),
        "taken, as it is": lambda: store.commit(current, step(current), [b"0"]),
        "left": lambda: store.commit(left, step(left), [b"0"]),
        "insert": lambda: store.insert(running(f"{name} new", name), [b"0"]),
        "claim what was taken": lambda: store.claim(taken.task.id, name, [b"0"]),
        "claim what was left": lambda: store.claim(left.task.id, name, [b"0"]),
        "join": lambda: store.join(name),
    }
    say({"first": first} | {what: await outcome(call) for what, call in tries.items()})
    await asyncio.to_thread(sys.stdin.read)  # until killed, renewing its lease if it can


async def outcome(call: Callable[[], Awaitable[object]]) -> str:
    """What came of a call: the name of what it raised, or of what it returned."""
    try:
        return type(await call()).__name__
    except KernelError as refusal:
        return type(refusal).__name__


async def resume(store: SQLiteStore, name: str, *task_ids: str) -> None:
    """Claim Tasks until the victim owns none of them any more, and say which were won."""
    await store.join(name)
    say("joined")
    await asyncio.to_thread(sys.stdin.readline)
    won = []
    for task_id in task_ids:
        while host_of((await store.load(task_id)).owner or "") == "victim":
            if await store.claim(task_id, name, [name.encode()]) is not None:
                won.append(task_id)
    say(won)
    await asyncio.to_thread(sys.stdin.read)  # alive, until killed


def say(value: Any) -> None:
    """Tell the process that started this one."""
    print(json.dumps(value), flush=True)


async def main(path: str, lease: str, job: str, *told: str) -> None:
    """Do the job on the store."""
    # On a disk that is busy with something else a write may wait long for those before it.
    store = SQLiteStore(path, lease=float(lease), timeout=PATIENCE)
    async with asyncio.timeout(120):  # should nobody be left who kills it
        await {"work": work, "resume": resume}[job](store, *told)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
