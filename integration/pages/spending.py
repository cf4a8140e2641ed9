"""Every limit of the Loop, asked for more than it allows: what was spent, single and in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from agentic_kernel import Task
from agentic_kernel_engine import Host, Limits, Loop, tool
from agentic_kernel_engine.loop import (
    Action,
    Context,
    Delegate,
    FinalAnswer,
    Plan,
    PushGoal,
    Replay,
    ToolCall,
    Turn,
    Usage,
    replay,
)
from agentic_kernel_engine.seams import ToolError

ASKED: Final = 40
"""Answers, at most; each cap is reached before."""
BATCH: Final = 4
_COST: Final = 0.125


class Ask(NamedTuple):
    """One limit, and a planner that wants more of what it limits."""

    limits: Limits
    act: Callable[[int], Action]
    """The action behind a number."""
    spent: Callable[[Replay, list[str]], float]
    """What a run used up, from its log and the tools that ran."""


def call(name: str) -> Callable[[int], Action]:
    """Calls of a tool that differ from each other."""
    return lambda number: ToolCall(name, {"number": number})


ASKS: Final = {
    "max_iterations": Ask(
        Limits(max_iterations=7), call("work"), lambda log, _: log.spent.iterations
    ),
    "max_tool_calls": Ask(Limits(max_tool_calls=10), call("work"), lambda _, ran: len(ran)),
    "max_failures": Ask(Limits(max_failures=6), call("fail"), lambda _, ran: len(ran)),
    "max_non_progress": Ask(
        Limits(max_non_progress=3, max_reflections=0, max_repeats=ASKED),
        lambda _: ToolCall("same"),
        lambda log, _: log.spent.iterations - 1,
    ),
    "max_reflections": Ask(
        Limits(max_non_progress=1, max_reflections=2, max_repeats=ASKED),
        lambda _: ToolCall("same"),
        lambda log, _: sum("brought nothing new" in getattr(e, "text", "") for e in log.transcript),
    ),
    "max_repeats": Ask(
        Limits(max_repeats=3), lambda _: ToolCall("same"), lambda log, _: log.spent.iterations
    ),
    "max_goal_depth": Ask(
        Limits(max_goal_depth=6), lambda n: PushGoal(f"{n}"), lambda log, _: len(log.goals)
    ),
    "max_seconds": Ask(Limits(max_seconds=9.0), call("work"), lambda _, ran: len(ran)),
    "max_input_tokens": Ask(
        Limits(max_input_tokens=950), call("work"), lambda log, _: log.spent.input_tokens
    ),
    "max_output_tokens": Ask(
        Limits(max_output_tokens=95), call("work"), lambda log, _: log.spent.output_tokens
    ),
    "max_total_tokens": Ask(
        Limits(max_total_tokens=1000),
        call("work"),
        lambda log, _: log.spent.input_tokens + log.spent.output_tokens,
    ),
    "max_cost": Ask(Limits(max_cost=1.0), call("work"), lambda log, _: log.spent.cost),
}
"""In the order of `Limits`; how deep Tasks may delegate is measured apart."""


class Insatiable:
    """A planner that always wants more, so many at a time."""

    def __init__(self, ask: Ask, size: int) -> None:
        self._ask = ask
        self._size = size

    def worst_case(self, context: Context) -> Usage:
        return Usage(100, 20, cost=_COST)

    async def plan(self, context: Context) -> Plan:
        if context.step >= ASKED:
            raise AssertionError("it was given all that it asked for")
        first = context.step * self._size
        actions = tuple(self._ask.act(first + n) for n in range(self._size))
        return Plan(actions, usage=Usage(90, 10, cost=_COST / 2))


async def run(ask: Ask, size: int) -> tuple[float, str]:
    """What one run spent, and why it ended."""
    ran: list[str] = []
    now = 0.0

    @tool(effect="none", inline=True)
    def work(number: int) -> int:
        """Work for a second."""
        nonlocal now
        now += 1.0
        ran.append("work")
        return number

    @tool(effect="none", inline=True)
    def fail(number: int) -> int:
        ran.append("fail")
        raise ToolError(str(number))

    @tool(effect="none", inline=True)
    def same() -> str:
        return "the same"

    planner = Insatiable(ask, size)
    loop = Loop(planner, [work, fail, same], limits=ask.limits, clock=lambda: now)
    async with Host(loop) as host:
        task = Task.new(summary="", instructions="more", runtime_kind="loop")
        done = await host.run(task)
        events = (await host.outcome(task.id)).events
    reason = done.metadata["engine/stop_reason"]
    return ask.spent(replay(events), ran), str(reason)


class Deeper:
    """A planner that gives its work to a child, and waits for it."""

    async def plan(self, context: Context) -> Action:
        last = context.transcript[-1]
        if context.step == 1 and isinstance(last, Turn):
            return Delegate("join", child=last.observations[0].output["child"])
        if context.step == 0:
            return Delegate("spawn", instructions="deeper")
        return FinalAnswer(None)


async def run_deeper(limits: Limits) -> tuple[float, str]:
    """How many Tasks are above the one that wanted to go deeper still, and why that ended."""
    async with Host(Loop(Deeper(), limits=limits)) as host:
        await host.run(Task.new(summary="", instructions="deeper", runtime_kind="loop"))
        tasks = await host.find()
    (last,) = [task for task in tasks if task.failure is not None]
    return len(tasks) - 1, str(last.metadata["engine/stop_reason"])


def spending() -> str:
    """Each limit's cap, what was asked for, and what was spent, as a Markdown table."""
    return asyncio.run(_spending())


async def _spending() -> str:
    rows = []
    for name, ask in ASKS.items():
        single, reason = await run(ask, 1)
        batch, other = await run(ask, BATCH)
        if reason != other:
            raise AssertionError(f"{name}: ended with {reason}, and in batches with {other}")
        cap = getattr(ask.limits, name)
        rows.append(f"| `{name}` | {cap:g} | {single:g} | {batch:g} | `{reason}` |")
    depth = Limits(max_depth=3)
    reached, reason = await run_deeper(depth)
    rows.append(f"| `max_depth` | {depth.max_depth} | {reached:g} | – | `{reason}` |")
    head = f"| limit | cap | spent, one at a time | spent, {BATCH} at a time | stop reason |"
    return "\n".join([head, "|---|---|---|---|---|", *rows])
