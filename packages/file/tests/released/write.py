"""Writes the two folders beside this file: ``python -I write.py`` with release 0.1.0 installed.

``log`` has everything in its log; ``compacted`` was compacted several times. The zeros at the end
of segments are cut off, and git does not keep the empty folder ``hosts``: who copies one of the
folders makes it.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from agentic_kernel import Complete, Dispatch, Pause, Task, apply
from agentic_kernel_engine import Record
from agentic_kernel_file import FileStore, Sizes

AT = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
FAR = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-14)))
TASKS = 12


def running(task_id: str, minute: int, **fields: Any) -> Record:
    agent, team = fields.pop("agent", None), fields.pop("team", None)
    task = Task.new(
        id=task_id, summary=task_id, instructions="go", runtime_kind="test", agent_name=agent,
        metadata={"label/team": team} if team else {}, at=AT + timedelta(minutes=minute),
    )  # fmt: skip
    return Record(apply(task, Dispatch(), AT + timedelta(hours=1)), **fields)


def events(record: Record) -> list[bytes]:
    return [b'{"version":%d,"index":%d}' % (record.version, index) for index in range(2)]


async def write(folder: Path, sizes: Sizes) -> None:
    store = FileStore(folder, sizes=sizes)

    async def insert(record: Record) -> Record:
        await store.insert(record, events(record))
        return record

    async def commit(before: Record, **fields: Any) -> Record:
        after = before.changed(version=before.version + 1, **fields)
        await store.commit(before, after, events(after))
        return after

    async def step(before: Record) -> Record:
        state = b'{"n":%d}' % (before.version + 1)
        return await commit(before, state=state, step=before.step + 1)

    async def end(before: Record) -> Record:
        ended = AT + timedelta(hours=2)
        return await commit(before, task=apply(before.task, Complete({"n": 1}), ended), owner=None)

    for n in range(TASKS):
        team, agent = ("blue", "red")[n % 2], ("crew/ann", "crew/bob")[n % 3 == 0]
        fresh = running(f"task {n:02}", n * 7 % 12, agent=agent, team=team)
        record = await step(await insert(fresh))
        if n != 5:
            await end(record)
    await insert(running("parent", 20))
    await insert(running("child 1", 21, parent="parent"))
    await end(await insert(running("child 2", 22, parent="parent")))
    edge = await insert(running("edge", 30))
    paused = apply(edge.task, Pause(), AT + timedelta(hours=2))
    await commit(edge, task=paused, due_at=FAR)
    owned = await insert(running("owned", 31, owner="gone:1"))
    for _ in range(3):
        owned = await step(owned)
    store.close()
    for thread in threading.enumerate():
        if thread.name == "file-store-compaction":
            thread.join()


def shorten(folder: Path) -> None:
    for path in folder.glob("log-*"):
        path.write_bytes(path.read_bytes().rstrip(b"\0") + bytes(8))
    (folder / "compaction.lock").unlink(missing_ok=True)


if __name__ == "__main__":
    here = Path(__file__).parent
    for name, sizes in (("log", Sizes()), ("compacted", Sizes(segment=1 << 11, tail=1 << 11))):
        shutil.rmtree(here / name, ignore_errors=True)
        asyncio.run(write(here / name, sizes))
        shorten(here / name)
