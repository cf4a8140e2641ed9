"""FifoLock and Slots: the callers that wait get it in order, and a cancelled wait loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from agentic_kernel_engine.host.in_flight import Slots
from agentic_kernel_engine.host.run import FifoLock

Wait = Callable[[], Awaitable[object]]
GiveBack = Callable[[], None]


@pytest.fixture(params=["turns", "slots"])
def taken(request: pytest.FixtureRequest) -> tuple[Wait, GiveBack]:
    """Waits for the only one, which is taken, and gives it back."""
    if request.param == "turns":
        turns = FifoLock()
        asyncio.run(turns.hold())
        return turns.hold, turns.let_go
    slots = Slots(1)
    slots.take("first")
    return (lambda: slots.wait("later")), slots.give_back


async def _waits(wait: Wait, who: str, got: list[str]) -> None:
    await wait()
    got.append(who)


async def _waiting(wait: Wait, *names: str) -> tuple[list[str], list[asyncio.Task[None]]]:
    got: list[str] = []
    tasks = [asyncio.create_task(_waits(wait, name, got)) for name in names]
    await asyncio.sleep(0)
    assert got == []
    return got, tasks


async def _settled(tasks: list[asyncio.Task[None]]) -> list[BaseException | None]:
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_who_came_first_is_served_first(taken: tuple[Wait, GiveBack]) -> None:
    wait, give_back = taken
    got, tasks = await _waiting(wait, "a", "b")
    give_back()
    await tasks[0]
    assert got == ["a"]
    give_back()
    await tasks[1]
    assert got == ["a", "b"]


async def test_a_cancelled_wait_is_passed_over(taken: tuple[Wait, GiveBack]) -> None:
    wait, give_back = taken
    got, tasks = await _waiting(wait, "a", "b")
    tasks[0].cancel()
    await asyncio.wait([tasks[0]])
    give_back()
    await tasks[1]
    assert tasks[0].cancelled()
    assert got == ["b"]


async def test_it_is_passed_on_by_a_wait_that_is_cancelled_in_the_same_moment(
    taken: tuple[Wait, GiveBack],
) -> None:
    wait, give_back = taken
    got, tasks = await _waiting(wait, "a", "b")
    give_back()
    tasks[0].cancel()
    await _settled(tasks)
    assert tasks[0].cancelled()
    assert got == ["b"]


async def test_a_wait_that_is_cancelled_just_before_its_turn_ends_as_cancelled(
    taken: tuple[Wait, GiveBack],
) -> None:
    wait, give_back = taken
    got, tasks = await _waiting(wait, "a", "b")
    tasks[0].cancel()
    give_back()
    await _settled(tasks)
    assert tasks[0].cancelled()
    assert got == ["b"]
