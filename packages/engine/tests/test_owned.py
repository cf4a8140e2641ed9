"""Owned: work that runs to its end whoever stops waiting for it (R4)."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from agentic_kernel_engine.owned import Owned


async def _given(value: Any) -> Any:
    await asyncio.sleep(0)
    if isinstance(value, BaseException):
        raise value
    return value


async def test_the_caller_gets_what_comes_of_the_work() -> None:
    owned = Owned()
    assert await owned.run(_given(5)) == 5
    with pytest.raises(ValueError, match="on purpose"):
        await owned.run(_given(ValueError("on purpose")))
    with pytest.raises(asyncio.CancelledError):
        await owned.run(_given(asyncio.CancelledError()))
    assert await owned.idle(5)


@pytest.mark.rule("R4")
async def test_work_goes_on_without_a_caller_who_was_cancelled() -> None:
    owned, go_on, done = Owned(), asyncio.Event(), list[str]()

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
    owned, go_on, reported = Owned(), asyncio.Event(), list[Any]()
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
