"""Large results: the event loop goes on, and the work has a bound."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_guard import (
    AsGiven,
    CapabilityRequest,
    CapabilitySpec,
    Firewall,
    Frame,
    Guard,
    InMemoryDriver,
    MemoryGuardStore,
    NotShown,
    RawResult,
    Redactor,
    Registry,
    RulePolicy,
    SafetyClass,
    StaticRouter,
    large_values,
)
from agentic_kernel_guard.firewall import FrameLimits
from agentic_kernel_guard.rules import parse

from .guards import ANN, KEYS

ALL = "version: 1\nrules: [{name: all, priority: 1, effect: allow, match: {capability: '*'}}]"
LARGE = "1\n" * 50_000


class Slow(Firewall):
    """Makes no frame until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()
        self.began = threading.Event()
        self.waited: list[bool] = []

    def frame(self, raw: RawResult, **rest: Any) -> Frame:
        self.began.set()
        self.waited.append(self.may.wait(20))
        return super().frame(raw, **rest)


def guarded(result: Any, firewall: Firewall | None = None) -> Guard:
    specs = [CapabilitySpec("a/read", "read", "read", safety=SafetyClass.READ)]
    driver = InMemoryDriver({"read": lambda **given: result})
    return Guard(
        Registry(specs), StaticRouter({"a/read": [driver]}), policy=RulePolicy(parse(ALL)),
        store=MemoryGuardStore(), keys=KEYS, resolver=AsGiven(), firewall=firewall,
    )  # fmt: skip


async def call(guard: Guard, timeout: float = 20.0, **given: Any) -> Frame:
    request = CapabilityRequest("a/read", given)
    token = await guard.grant_capability(request, ANN)
    frame = await guard.invoke(token, ANN, given, "table", timeout=timeout)
    assert frame is not None
    return frame


async def test_the_event_loop_goes_on_while_a_large_result_is_shown() -> None:
    slow = Slow()
    running = asyncio.ensure_future(call(guarded(LARGE, slow)))
    while not slow.began.is_set() and not running.done():
        await asyncio.sleep(0)
    slow.may.set()
    frame = await running
    assert frame.handle is not None
    assert slow.waited == [True]


async def test_expanding_a_large_result_leaves_the_event_loop_alone() -> None:
    slow = Slow()
    slow.may.set()
    guard = guarded(LARGE, slow)
    frame = await call(guard)
    assert frame.handle is not None
    slow.may.clear()
    slow.began.clear()
    running = asyncio.ensure_future(guard.expand(frame.handle, ANN))
    while not slow.began.is_set() and not running.done():
        await asyncio.sleep(0)
    slow.may.set()
    assert (await running).rows
    assert slow.waited == [True, True]


async def test_the_time_of_a_call_is_also_for_showing_its_result() -> None:
    slow = Slow()
    guard = guarded(LARGE, slow)
    with pytest.raises(NotShown, match=r"within the 0\.05 seconds"):
        await call(guard, timeout=0.05)
    slow.may.set()
    ended = [link.entry for link in await guard.store.links()][-1]
    assert (ended["kind"], ended["outcome"], ended["code"]) == (
        "ended",
        "succeeded",
        "TimeoutError",
    )


def cyclic() -> list[Any]:
    made: list[Any] = ["x" * 30_000]
    made.append(made)
    return made


@pytest.mark.parametrize(
    "result", ["x" * 200_000, b"x" * 200_000, [{"a": 1}] * 20_000, {"x" * 200_000: 1}, cyclic()],
    ids=["text", "bytes", "rows", "name", "cycle"],
)  # fmt: skip
async def test_a_result_over_the_limit_is_not_looked_at(
    result: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_values, "MOST", 100_000)
    with pytest.raises(NotShown, match="over 100,000 characters; ask for a part"):
        await call(guarded(result))


async def test_arguments_over_the_limit_are_refused() -> None:
    guard = guarded("x")
    with pytest.raises(InvalidValue, match="over 1,000,000 characters"):
        await call(guard, text="1\n" * 600_000)
    assert [link.entry["kind"] for link in await guard.store.links()] == ["granted"]


@pytest.mark.parametrize("part", ["1\n", "12 34 ", "2024-01-02 12:33:44.123\n", "411 ", "4321 "])
def test_a_table_of_numbers_costs_few_steps_for_each_character(part: str) -> None:
    text = part * (10_000 // len(part))
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    redactor = Redactor()
    redactor.text(text[:100])
    sys.setprofile(count)
    try:
        redactor.text(text)
    finally:
        sys.setprofile(None)
    assert calls < 6 * len(text)


def test_a_summary_of_huge_texts_reads_their_beginnings() -> None:
    class Counting(Redactor):
        seen = 0

        def text(self, text: str) -> tuple[str, int]:
            Counting.seen += len(text)
            return super().text(text)

        def value(self, value: Any) -> tuple[Any, int]:
            Counting.seen += len(str(value))
            return super().value(value)

    rows = [{"a": f"{number}" + "1\n" * 500_000} for number in range(3)]
    Firewall(redactor=Counting()).frame(
        RawResult(rows, "d", "s"), mode="summary", constraints=FrameLimits()
    )
    assert Counting.seen < 500_000


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "x"])
async def test_a_wrong_timeout_is_refused_before_anything_is_recorded(timeout: Any) -> None:
    guard = guarded("x")
    with pytest.raises(InvalidValue, match="timeout"):
        await call(guard, timeout=timeout)
    assert [link.entry["kind"] for link in await guard.store.links()] == ["granted"]


async def test_the_agent_the_task_and_the_key_are_redacted_in_the_trace() -> None:
    guard = guarded("x")
    key = "AKIAIOSFODNN7EXAMPLE"
    request = CapabilityRequest("a/read", {}, agent=key, task=f"t {key}", key=f"k {key}")
    await guard.invoke(await guard.grant_capability(request, ANN), ANN, {})
    assert key not in "".join(link.body for link in await guard.store.links())
