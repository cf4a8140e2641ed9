"""Shielded: work that runs to its end whoever stops waiting for it (R4)."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from agentic_kernel_engine import UnknownOutcome
from agentic_kernel_engine.host.in_flight import Shielded


async def _given(value: Any) -> Any:
    await asyncio.sleep(0)
    if isinstance(value, BaseException):
        raise value
    return value


async def test_the_caller_gets_what_comes_of_the_work() -> None:
    owned = Shielded()
    assert await owned.run(_given(5)) == 5
    with pytest.raises(ValueError, match="on purpose"):
        await owned.run(_given(ValueError("on purpose")))
    for stray in (asyncio.CancelledError("a driver's own"), SystemExit("a driver's own")):
        with pytest.raises(UnknownOutcome, match="instead of an answer: a driver's own"):
            await owned.run(_given(stray))
    assert await owned.idle(5)


@pytest.mark.rule("R4")
async def test_work_goes_on_without_a_caller_who_was_cancelled() -> None:
    owned, go_on, done = Shielded(), asyncio.Event(), list[str]()

    async def work() -> None:
        await go_on.wait()
        done.append("work")

    async def call() -> None:
        await owned.run(work())

    caller = asyncio.create_task(call())
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    assert caller.cancelled()
    assert done == []
    go_on.set()
    assert await owned.idle(5)
    assert done == ["work"]


async def test_nobody_is_told_of_an_error_that_nobody_waits_for() -> None:
    owned, go_on, reported = Shielded(), asyncio.Event(), list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    async def work() -> None:
        await go_on.wait()
        raise ValueError("on purpose")

    async def call() -> None:
        await owned.run(work())

    caller = asyncio.create_task(call())
    owned.start(work())
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    go_on.set()
    assert await owned.idle(5)
    await asyncio.sleep(0)
    gc.collect()
    assert reported == []


async def test_work_that_waits_for_nothing_is_done_at_once() -> None:
    owned, done = Shielded(), list[Any]()

    async def work() -> None:
        done.append("work")

    owned.at_once(work())
    assert done == ["work"]
    assert await owned.idle(0)


async def test_work_that_was_begun_at_once_and_waits_goes_on_in_a_task() -> None:
    owned, go_on, done = Shielded(), asyncio.Event(), list[Any]()

    async def work() -> None:
        done.append(asyncio.current_task() is began)
        await asyncio.sleep(0)
        await go_on.wait()
        async with asyncio.timeout(5):
            with pytest.raises(ValueError, match="on purpose"):
                await _given(ValueError("on purpose"))
        done.append(asyncio.current_task() is not began)

    began = asyncio.current_task()
    owned.at_once(work())
    assert done == [True]
    await asyncio.sleep(0.01)
    go_on.set()
    assert await owned.idle(5)
    assert done == [True, True]


async def test_work_that_was_begun_at_once_can_be_cancelled_where_it_waits() -> None:
    owned, done = Shielded(), list[str]()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            done.append("cleaned up")

    owned.at_once(work())
    (task,) = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.sleep(0)
    task.cancel()
    assert await owned.idle(5)
    assert task.cancelled()
    assert done == ["cleaned up"]


async def test_an_error_of_work_that_was_begun_at_once_is_for_who_began_it() -> None:
    async def work() -> None:
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        Shielded().at_once(work())
