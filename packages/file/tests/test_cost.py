"""The cost of a commit, a load and a page, as counts: they are the same under any load."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import Dispatch, Task, apply
from agentic_kernel_engine import Record
from agentic_kernel_file import FileStore

STEPS = 200
EVENT = b'{"type":"run.delta","at":1893553445678901,"data":{"text":"x"}}'
MOST_OF_A_COMMIT = 80
"""Calls of Python functions in a commit by one run, the caller's and the writer's thread together,
the event loop's own not counted; there are 79."""
MOST_OF_A_LOAD = 19
MOST_OF_A_PAGE = 760
"""A page of the hundred oldest of a thousand Tasks."""


class Counts:
    """Calls of Python functions in this thread, and in threads that start under `counting`."""

    def __init__(self) -> None:
        self.here = 0
        self.elsewhere = 0

    def of_caller(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call" and "asyncio" not in frame.f_code.co_filename:
            self.here += 1

    def of_thread(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call" and "asyncio" not in frame.f_code.co_filename:
            self.elsewhere += 1

    @contextmanager
    def caller(self) -> Iterator[None]:
        sys.setprofile(self.of_caller)
        try:
            yield
        finally:
            sys.setprofile(None)


@pytest.fixture
def counting() -> Iterator[Counts]:
    counts = Counts()
    threading.setprofile(counts.of_thread)
    yield counts
    threading.setprofile(None)


@pytest.fixture
def make_store(tmp_path: Path) -> Iterator[Callable[[], FileStore]]:
    made: list[FileStore] = []

    def make() -> FileStore:
        made.append(FileStore(tmp_path / "state"))
        return made[-1]

    yield make
    for store in made:
        store.close()


def new_record(owner: str | None = "host:1") -> Record:
    now = datetime.now(UTC)
    task = Task.new(summary="cost", instructions="go", runtime_kind="cost", at=now)
    return Record(apply(task, Dispatch(), now), owner=owner)


async def test_a_commit_makes_few_calls_in_both_threads(
    counting: Counts, make_store: Callable[[], FileStore]
) -> None:
    store = make_store()
    await store.join("host")
    record = new_record()
    await store.insert(record)

    async def steps(record: Record, many: int) -> Record:
        for _ in range(many):
            version = record.version + 1
            after = record.changed(version=version, state=b"[%d]" % version, step=record.step + 1)
            await store.commit(record, after, (EVENT,))
            record = after
        return record

    # A folder that was made just now is looked through at every commit.
    await asyncio.sleep(0.1)
    record = await steps(record, 20)
    counting.elsewhere = 0
    with counting.caller():
        await steps(record, STEPS)
    calls = (counting.here + counting.elsewhere) / STEPS
    assert counting.elsewhere >= 30 * STEPS, "the writer's thread was not counted"
    assert calls <= MOST_OF_A_COMMIT, (counting.here / STEPS, counting.elsewhere / STEPS)


async def test_a_load_and_a_page_make_few_calls(
    counting: Counts, make_store: Callable[[], FileStore]
) -> None:
    store = make_store()
    records = [new_record(None) for _ in range(1_000)]
    await asyncio.gather(*map(store.insert, records))
    await store.find()
    with counting.caller():
        for record in records[:100]:
            await store.load(record.task.id)
    assert counting.here <= MOST_OF_A_LOAD * 100, counting.here / 100
    counting.here = 0
    with counting.caller():
        found = await store.find()
    assert len(found) == 100
    assert counting.here <= MOST_OF_A_PAGE, counting.here
