"""What a turn costs, as a count of calls: it is the same on every machine and under any load."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agentic_kernel_engine.loop.action import FinalAnswer, ToolCall
from agentic_kernel_engine.loop.context import Context
from agentic_kernel_engine.loop.limits import Limits
from agentic_kernel_engine.loop.plan import Plan

from .conftest import Runner

TURNS = 1_020
MOST = 100
"""Calls of Python functions in a turn; there are about 80. A seam that is not used adds none."""


@contextmanager
def counted(calls: list[int]) -> Iterator[None]:
    """Adds to the last number for every call of a Python function."""

    def count(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            calls[-1] += 1

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)


async def test_a_tool_turn_makes_few_calls_and_no_more_of_them_after_a_thousand(
    runner: Runner,
) -> None:
    calls = [0]

    class Turning:
        async def plan(self, context: Context) -> Any:
            calls.append(0)
            if context.step == TURNS:
                return FinalAnswer(None)
            return Plan((ToolCall("add", {"a": context.step, "b": 1}),))

    limits = Limits(max_iterations=TURNS + 1)
    with counted(calls):
        task = await runner.run(planner=Turning(), limits=limits)
    assert task.status == "success"
    early, late = calls[10:20], calls[1_000:1_010]
    assert max(early) <= MOST, early
    assert sorted(late)[5] <= sorted(early)[5] + 2, (early, late)
