"""Isolation: a driver that cancels itself, does not end, or ends while its caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from agentic_kernel_guard import (
    CapabilityRequest,
    DriverCall,
    Frame,
    Indeterminate,
    InMemoryDriver,
    NoEffect,
    RawResult,
    StaticRouter,
)
from agentic_kernel_guard.drivers import isolation

from .guards import ANN, WHY, World


class Acting:
    """A driver that does what a test says, once it is told to go on."""

    def __init__(self, act: Callable[[Acting], Any]) -> None:
        self.name = "acting"
        self.began, self.ends = asyncio.Event(), asyncio.Event()
        self._act = act

    async def call(self, call: DriverCall) -> RawResult:
        self.began.set()
        result: RawResult = await self._act(self)
        return result


def world_of(driver: Any) -> World:
    world = World(ann="admin")
    router = StaticRouter({f"crm/{name}": [driver] for name in ("find", "change")})
    world.guard._calls._router = router
    return world


async def change(world: World, name: str = "change", timeout: float = 30.0) -> Frame | None:
    request = CapabilityRequest(f"crm/{name}", {"id": 1}, key=f"key-{name}")
    token = await world.guard.grant_capability(request, ANN, WHY)
    return await world.guard.invoke(token, ANN, {"id": 1}, "table", timeout=timeout)


async def kinds(world: World) -> list[tuple[str, str]]:
    links = await world.store.links()
    return [(link.entry["kind"], link.entry.get("outcome", "")) for link in links][-2:]


def done() -> RawResult:
    return RawResult("done", "acting", "acting")


async def cancels_itself_and_waits(acting: Acting) -> RawResult:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.Event().wait()
    return done()


async def cancels_itself_and_returns(acting: Acting) -> RawResult:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return done()


async def stubborn(acting: Acting) -> RawResult:
    while not acting.ends.is_set():
        with suppress(asyncio.CancelledError):
            await acting.ends.wait()
    return done()


async def says_so_when_it_is_cancelled(acting: Acting) -> RawResult:
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    return done()


async def refuses_when_it_is_cancelled(acting: Acting) -> RawResult:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise NoEffect("nothing was sent yet") from None
    return done()


async def waits(acting: Acting) -> RawResult:
    await asyncio.Event().wait()
    return done()


@pytest.mark.parametrize("act", [cancels_itself_and_waits, cancels_itself_and_returns])
async def test_a_driver_that_cancels_its_own_task_does_not_cancel_its_caller(act: Any) -> None:
    world = world_of(Acting(act))
    with pytest.raises(Indeterminate, match="CancelledError"):
        await change(world)
    assert await kinds(world) == [("began", ""), ("ended", "indeterminate")]
    with pytest.raises(NoEffect, match="CancelledError"):
        await change(world, "find")
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_a_driver_that_does_not_end_after_its_time_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(isolation, "GRACE", 0.01)
    acting = Acting(stubborn)
    world = world_of(acting)
    with pytest.raises(Indeterminate, match="TimeoutError"):
        await change(world, timeout=0.01)
    assert await kinds(world) == [("began", ""), ("ended", "indeterminate")]
    (left,) = isolation._LEFT
    acting.ends.set()
    await asyncio.wait([left])
    assert not isolation._LEFT


@pytest.mark.parametrize(
    ("act", "ends", "again"),
    [
        (says_so_when_it_is_cancelled, [("began", ""), ("ended", "succeeded")], "done"),
        (refuses_when_it_is_cancelled, [("began", ""), ("ended", "failed")], NoEffect),
        (waits, [("granted", ""), ("began", "")], Indeterminate),
    ],
    ids=["says so", "refuses", "waits"],
)
async def test_what_a_driver_says_while_its_caller_is_cancelled_is_recorded(
    act: Any, ends: list[tuple[str, str]], again: Any
) -> None:
    acting = Acting(act)
    world = world_of(acting)
    running = asyncio.create_task(change(world))
    await acting.began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await kinds(world) == ends
    if isinstance(again, str):
        frame = await change(world)
        assert frame is not None
        assert frame.rows == (again,)
    else:
        with pytest.raises(again):
            await change(world)


@pytest.mark.parametrize("turns", range(12))
async def test_a_call_without_a_wait_has_an_end_wherever_it_is_cancelled(turns: int) -> None:
    world = world_of(InMemoryDriver({"change": at_once}))
    running = asyncio.create_task(change(world))
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    frame = await change(world)
    assert frame is not None
    assert frame.rows == (1,)
    assert [kind for kind, _ in await kinds(world)] != ["granted", "began"]


async def at_once(id: int) -> int:
    return id


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
async def test_an_order_to_end_the_program_reaches_the_caller(error: type[BaseException]) -> None:
    async def act(acting: Acting) -> RawResult:
        raise error

    with pytest.raises(error):
        await change(world_of(Acting(act)))
