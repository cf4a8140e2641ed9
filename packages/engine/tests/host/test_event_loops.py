"""A Host belongs to one event loop: its runs, its polling and its connections are there."""

from __future__ import annotations

import asyncio

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Job, MemoryStore, WrongEventLoop


class Work:
    """Counts its runs."""

    runs = 0

    async def execute(self, job: Job) -> str:
        self.runs += 1
        return job.task.instructions


def new_task() -> Task:
    return Task.new(summary="", instructions="do it", runtime_kind="count")


def test_a_host_that_has_written_is_refused_in_a_second_event_loop() -> None:
    store, work = MemoryStore(), Work()
    host = Host(work, store)
    first, second = new_task(), new_task()
    assert asyncio.run(host.run(first)).result == "do it"
    for verb in (host.run, host.dispatch):
        with pytest.raises(WrongEventLoop, match=r"make all calls in one asyncio\.run\(\)"):
            asyncio.run(verb(second))
    with pytest.raises(WrongEventLoop):
        asyncio.run(host.kill(first.id))
    assert asyncio.run(host.get(first.id)).status is TaskStatus.SUCCESS
    assert work.runs == 1
    assert asyncio.run(host.get_many([second.id])) == {}
    assert asyncio.run(Host(work, store).run(second)).result == "do it"


def test_a_host_that_has_only_read_belongs_to_no_event_loop() -> None:
    host = Host(Work(), MemoryStore())
    for _ in range(2):
        assert asyncio.run(host.get_many(["none"])) == {}
    assert asyncio.run(host.run(new_task())).result == "do it"
