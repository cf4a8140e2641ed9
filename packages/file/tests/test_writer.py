"""The writer's thread ends when it is idle; no write waits for a thread that ended or never was."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from agentic_kernel_file import FileStore, writer

from .disks import UnsyncedFiles
from .records import running


class PutAsTheThreadEnds(SimpleQueue[Any]):
    """A queue in which the wait of an idle thread ends only when another request has come.

    The thread finds nothing to do at the moment at which a caller queues a request. That caller
    has seen the thread running, so it starts no other one.
    """

    def __init__(self) -> None:
        self.idle, self.may_end = threading.Event(), threading.Event()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if self.idle.is_set():
            return super().get(block, timeout)
        self.idle.set()
        self.may_end.wait()
        raise Empty


async def test_a_write_that_comes_as_the_writers_thread_ends_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = PutAsTheThreadEnds()
    monkeypatch.setattr(writer, "SimpleQueue", lambda: queue)
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    first, second = running("first", owner=None), running("second", owner=None)
    async with asyncio.timeout(60):
        begun = asyncio.create_task(store.insert(first))
        while not queue.idle.is_set():
            await asyncio.sleep(0)
        late = asyncio.create_task(store.insert(second))
        while queue.qsize() < 2:
            await asyncio.sleep(0)
        queue.may_end.set()
        await begun
        await late
    assert [record.task.id for record in await store.find()] == ["first", "second"]
    store.close()


async def test_a_store_works_where_no_thread_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.12.0 and 3.12.1 start none at the end of the process, where a Host still writes."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    async with asyncio.timeout(60):
        for name in ("first", "second"):
            await store.insert(running(name, owner=None))
        assert [record.task.id for record in await store.find()] == ["first", "second"]
        await store.leave("a-host")
    store.close()
