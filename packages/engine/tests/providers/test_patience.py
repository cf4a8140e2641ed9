"""The waits of a call, each with its own bound and all with one timer."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextvars import ContextVar

import pytest

from agentic_kernel_engine.providers.patience import Patience

SOON = 0.02
LATE = 30.0


async def forever() -> None:
    await asyncio.Event().wait()


async def given(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def test_a_wait_gives_what_it_waits_for_and_leaves_the_task_as_it_was() -> None:
    patience = Patience()
    assert [await patience.wait(LATE, given(each)) for each in range(3)] == [0, 1, 2]
    patience.close()


@pytest.mark.parametrize("earlier", [[], [LATE], [SOON], [SOON / 2, LATE]], ids=str)
async def test_each_wait_has_its_own_bound(earlier: list[float]) -> None:
    patience, clock = Patience(), asyncio.get_running_loop().time
    for seconds in earlier:
        await patience.wait(seconds, given(1))
    began = clock()
    with pytest.raises(TimeoutError):
        await patience.wait(SOON, forever())
    assert clock() - began >= SOON
    assert await patience.wait(LATE, given(2)) == 2
    patience.close()


async def test_a_timer_that_fires_within_a_later_wait_ends_only_that_one_at_its_own_end() -> None:
    patience = Patience()
    await patience.wait(SOON, given(1))
    assert await patience.wait(LATE, asyncio.sleep(2 * SOON, 2)) == 2
    patience.close()


async def test_a_timer_that_fires_between_two_waits_cancels_nothing() -> None:
    patience = Patience()
    await patience.wait(SOON, given(1))
    await asyncio.sleep(2 * SOON)
    with pytest.raises(TimeoutError):
        await patience.wait(SOON, forever())
    patience.close()


async def test_the_waits_of_one_call_may_be_of_several_tasks() -> None:
    patience = Patience()
    await asyncio.create_task(patience.wait(SOON, given(1)))
    with pytest.raises(TimeoutError):
        await asyncio.create_task(patience.wait(SOON, forever()))
    patience.close()


async def test_a_cancellation_of_the_task_is_no_end_of_the_wait() -> None:
    patience = Patience()
    task = asyncio.create_task(patience.wait(LATE, forever()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    patience.close()


async def test_a_cancellation_at_the_end_of_the_wait_counts_before_the_end() -> None:
    patience = Patience()

    async def ended() -> None:
        await patience.wait(SOON, both())

    async def both() -> None:
        try:
            await forever()
        finally:
            task.cancel()

    task = asyncio.create_task(ended())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelling() == 1
    patience.close()


async def test_no_timer_is_left_after_the_last_wait() -> None:
    patience = Patience()
    await patience.wait(LATE, given(1))
    timer = patience._timer
    patience.close()
    assert timer is not None
    assert timer.cancelled()


async def test_a_timer_that_was_given_up_keeps_nothing_of_its_call() -> None:
    """The event loop keeps it for a while."""

    class Response:
        """Something that a call can be asked for in its context."""

    opened: ContextVar[Response] = ContextVar("opened")
    response = Response()
    kept = weakref.ref(response)
    token = opened.set(response)
    patience = Patience()
    await patience.wait(LATE, given(1))
    patience.close()
    opened.reset(token)
    del response, token
    gc.collect()
    assert kept() is None
