"""The Host checks the values of a run, and stores them as they were given."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import InvalidValue
from agentic_kernel_engine import Job, MemoryStore

from ..conftest import Acting, NewTask

Host = partial(engine.Host, grace=0)


@pytest.mark.rule("R21")
async def test_a_note_is_stored_as_it_was_given(new_task: NewTask, acting: type[Acting]) -> None:
    """The substrate goes on with the list that it gave."""
    store, found = MemoryStore(), ["first"]

    async def act(job: Job) -> Any:
        job.note("acme/found", found)
        found.append("second")
        await job.commit({"n": 1})
        return "done"

    async with Host(acting(act), store) as host:
        ended = await host.run(new_task())
    assert list(ended.metadata["acme/found"]) == ["first"]


@pytest.mark.parametrize("channel", ["a\0b", "\0"])
async def test_a_channel_that_no_store_keeps_is_refused(
    new_task: NewTask, acting: type[Acting], channel: str
) -> None:
    """As one in any other event is."""
    store = MemoryStore()

    async def act(job: Job) -> Any:
        with pytest.raises(InvalidValue, match="channel"):
            job.emit({"type": "run.delta", "text": "x", "channel": channel})
        return "refused"

    async with Host(acting(act), store) as host:
        assert (await host.run(new_task())).result == "refused"


@pytest.mark.parametrize("child", ["a text", None])
async def test_a_child_that_is_no_task_is_refused_by_name(
    new_task: NewTask, acting: type[Acting], child: Any
) -> None:
    async def act(job: Job) -> Any:
        with pytest.raises(InvalidValue, match="task: must be a Task, not"):
            await job.spawn(child)
        return "refused"

    async with Host(acting(act), MemoryStore()) as host:
        assert (await host.run(new_task())).result == "refused"
