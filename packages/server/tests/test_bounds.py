"""The bounds of one tenant, which the other tenants do not notice."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import ExitStack

import pytest

from agentic_kernel_server import Caller, Refused
from agentic_kernel_server.security import Most, TenantBounds

RED, BLUE = Caller("ann", "red"), Caller("bob", "blue")


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Executions:
    """The number that the store would count."""

    def __init__(self) -> None:
        self.open = {"red": 0, "blue": 0}
        self.counts = 0

    async def __call__(self, tenant: str, most: int) -> int:
        self.counts += 1
        await asyncio.sleep(0)
        return min(self.open[tenant], most)


async def sent(bounds: TenantBounds, caller: Caller, times: int) -> int:
    """The number of requests that were let through."""
    through = 0
    for _ in range(times):
        with contextlib.suppress(Refused):
            await bounds.request(caller)
            through += 1
    return through


async def test_requests_over_the_rate_are_refused_until_the_bucket_has_refilled() -> None:
    time = Time()
    bounds = TenantBounds(Most(requests=10, burst=20), Executions(), time)
    assert await sent(bounds, RED, 50) == 20
    assert await sent(bounds, BLUE, 1) == 1
    time.now += 1.0
    assert await sent(bounds, RED, 50) == 10
    with pytest.raises(Refused) as caught:
        await bounds.request(RED)
    assert caught.value.code == "RATE_LIMITED"
    assert caught.value.retry_after is not None
    assert caught.value.retry_after > 0
    time.now += caught.value.retry_after
    assert await sent(bounds, RED, 1) == 1


def test_streams_over_the_bound_are_refused_until_one_is_closed() -> None:
    bounds = TenantBounds(Most(streams=2), Executions())
    with ExitStack() as stack:
        first = bounds.stream(RED)
        first.__enter__()
        stack.enter_context(bounds.stream(RED))
        with pytest.raises(Refused, match="2 open streams"):
            stack.enter_context(bounds.stream(RED))
        stack.enter_context(bounds.stream(BLUE))
        first.__exit__(None, None, None)
        stack.enter_context(bounds.stream(RED))


async def test_executions_over_the_bound_are_refused_until_some_have_ended() -> None:
    time, store = Time(), Executions()
    bounds = TenantBounds(Most(executions=3), store, time)
    store.open["red"] = 2
    await bounds.execution(RED)
    store.open["red"] = 3
    for _ in range(3):
        with pytest.raises(Refused, match="3 unfinished executions"):
            await bounds.execution(RED)
    assert store.counts == 1
    await bounds.execution(BLUE)
    store.open["red"] = 1
    time.now += 1.5
    await bounds.execution(RED)


async def test_far_from_the_bound_the_store_is_rarely_asked() -> None:
    time, store = Time(), Executions()
    bounds = TenantBounds(Most(executions=10_000), store, time)
    for _ in range(1_000):
        time.now += 0.005
        await bounds.execution(RED)
    assert store.counts == 1


async def test_executions_at_one_moment_are_counted_too() -> None:
    store = Executions()
    bounds = TenantBounds(Most(executions=5), store, Time())
    answers = await asyncio.gather(
        *(bounds.execution(RED) for _ in range(20)), return_exceptions=True
    )
    assert sum(answer is None for answer in answers) == 5


async def test_idle_tenants_are_forgotten_and_busy_ones_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agentic_kernel_server.security.bounds.MOST_TENANTS", 10)
    time = Time()
    bounds = TenantBounds(Most(streams=1, requests=10, burst=10), Executions(), time)
    with bounds.stream(RED):
        for number in range(100):
            await bounds.request(Caller("x", f"tenant {number}"))
            time.now += 1.0
        assert len(bounds._tenants) <= 10
        with pytest.raises(Refused), bounds.stream(RED):
            pass
