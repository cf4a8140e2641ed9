"""The work of another process on a store: ``python worker.py FOLDER JOB ARGUMENT…``.

It says what it has done, one line at a time, and only what was acknowledged.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from agentic_kernel import Dispatch, Task, apply
from agentic_kernel_engine import Conflict, Record
from agentic_kernel_file import FileStore, Sizes

SMALL = Sizes(segment=1 << 13, tail=1 << 14)


def say(*words: object) -> None:
    print(*words, flush=True)


async def count(store: FileStore, task_id: str, name: str, share: str) -> None:
    """Add to one record's inbox, together with an event, until the share is reached."""
    for n in range(int(share)):
        while True:
            before = await store.load(task_id)
            entry = {"type": "count", "by": name, "n": n}
            after = before.changed(version=before.version + 1, inbox=(*before.inbox, entry))
            try:
                await store.commit(before, after, [f"{name}:{n}".encode()])
            except Conflict:
                continue
            break
    say("done")


async def write(store: FileStore, name: str) -> None:
    """Insert Tasks and step them, four at a time, until killed."""
    await store.join(name)

    async def steps(task_id: str) -> None:
        now = datetime.now(UTC)
        task = Task.new(id=task_id, summary="", instructions="", runtime_kind="test", at=now)
        record = Record(apply(task, Dispatch(), now), owner=f"{name}:1")
        await store.insert(record, [b"1:0", b"1:1"])
        say(task_id, 1)
        while True:
            version = record.version + 1
            after = record.changed(
                version=version, step=record.step + 1, state=b'{"n":%d}' % version
            )
            await store.commit(record, after, [b"%d:0" % version, b"%d:1" % version])
            record = after
            say(task_id, version)

    await asyncio.gather(*(steps(f"{name} {n}") for n in range(4)))


async def hold(store: FileStore, host: str, task_id: str) -> None:
    """Join, claim a Task, and stay."""
    await store.join(host)
    claimed = await store.claim(task_id, host)
    say(None if claimed is None else claimed.owner)
    await asyncio.Event().wait()


async def main(folder: str, job: str, *arguments: str) -> None:
    store = FileStore(folder, sizes=SMALL)
    jobs: dict[str, Callable[..., Awaitable[None]]] = {"count": count, "write": write, "hold": hold}
    await jobs[job](store, *arguments)
    store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
