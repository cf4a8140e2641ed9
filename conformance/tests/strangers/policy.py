"""A policy about amounts, writes and hidden tools, and ten mistakes in it."""

from __future__ import annotations

import asyncio
from typing import Any

from agentic_kernel_engine.loop import (
    ALLOW,
    Action,
    Context,
    Decision,
    ToolCall,
    deny,
    require_approval,
    stop,
)
from agentic_kernel_engine.seams import Hiding, Tool

MOST = 100


class HealthyPolicy(Hiding):
    """Hides destructive tools, stops at `rm`, denies high numbers; people decide about writes."""

    def visible(self, tool: Tool, context: Context) -> bool:
        return tool.effect != "destructive"

    async def authorize(self, action: Action, context: Context) -> Decision:
        if not isinstance(action, ToolCall):
            return ALLOW
        return self.judge(action, context)

    def judge(self, call: ToolCall, context: Context) -> Decision:
        if call.tool == "rm":
            return stop("nobody removes anything here")
        if any(number > MOST for number in numbers(call)):
            return deny(f"keep every number to {MOST}")
        effects = {tool.name: tool.effect for tool in context.tools}
        if effects.get(call.tool) in ("write", "destructive"):
            return require_approval("it writes")
        return ALLOW


def numbers(call: ToolCall) -> list[Any]:
    return [each for each in call.arguments.values() if isinstance(each, (int, float))]


class Clamps(HealthyPolicy):
    """Sets a number that is too high to the highest allowed one, in the action itself."""

    def judge(self, call: ToolCall, context: Context) -> Decision:
        for name, value in list(call.arguments.items()):
            if isinstance(value, (int, float)) and value > MOST:
                arguments: Any = call.arguments
                arguments[name] = MOST
        return super().judge(call, context)


class RunningTotal(HealthyPolicy):
    """Adds up the numbers of all Tasks since the process began."""

    def __init__(self) -> None:
        self._total = 0.0

    def judge(self, call: ToolCall, context: Context) -> Decision:
        decision = super().judge(call, context)
        if decision == ALLOW:
            self._total += sum(numbers(call))
            if self._total > 5 * MOST:
                return deny("that is too much in all")
        return decision


class NothingToSay(HealthyPolicy):
    """Falls off its end for a call without arguments."""

    def judge(self, call: ToolCall, context: Context) -> Decision:
        if call.arguments:
            return super().judge(call, context)
        return None  # type: ignore[return-value]


class ByName(HealthyPolicy):
    """Keeps its decision for each tool's name."""

    def __init__(self) -> None:
        self._known: dict[str, Decision] = {}

    def judge(self, call: ToolCall, context: Context) -> Decision:
        if call.tool not in self._known:
            self._known[call.tool] = super().judge(call, context)
        return self._known[call.tool]


class LastContext(HealthyPolicy):
    """Takes the tools from the first context that it saw."""

    def __init__(self) -> None:
        self._effects: dict[str, str] = {}

    def judge(self, call: ToolCall, context: Context) -> Decision:
        if not self._effects:
            self._effects = {tool.name: tool.effect for tool in context.tools}
        decision = super().judge(call, context)
        if decision.verdict in ("allow", "require_approval"):
            writes = self._effects.get(call.tool) in ("write", "destructive")
            return require_approval("it writes") if writes else ALLOW
        return decision


class AsyncVisible(HealthyPolicy):
    """Asks by a coroutine whether a tool is seen, which is always true."""

    async def visible(self, tool: Tool, context: Context) -> bool:  # type: ignore[override]
        return tool.effect != "destructive"


class DeniesWhenInDoubt(HealthyPolicy):
    """Takes its own cancellation for a fault of the risk service."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        try:
            await asyncio.sleep(0.01)  # the risk service
            return await super().authorize(action, context)
        except BaseException as error:
            return deny(f"the risk is not known: {type(error).__name__}")


class NotTwice(HealthyPolicy):
    """Denies a call that it allowed before in the same step."""

    def __init__(self) -> None:
        self._done: set[tuple[str, int, str]] = set()

    def judge(self, call: ToolCall, context: Context) -> Decision:
        decision = super().judge(call, context)
        mark = (context.task.id, context.step, call.tool)
        if decision == ALLOW and mark in self._done:
            return deny("once in a step is enough")
        self._done.add(mark)
        return decision


class FirstWord(HealthyPolicy):
    """Lets the first rule that objects decide, the approval before the denial."""

    def judge(self, call: ToolCall, context: Context) -> Decision:
        effects = {tool.name: tool.effect for tool in context.tools}
        if effects.get(call.tool) in ("write", "destructive"):
            return require_approval("it writes")
        return super().judge(call, context)


class RaisesToStop(HealthyPolicy):
    """Raises where it should return `stop`."""

    def judge(self, call: ToolCall, context: Context) -> Decision:
        decision = super().judge(call, context)
        if decision.verdict == "stop":
            raise PermissionError(decision.reason)
        return decision


FAULTS = {
    "Clamps": "context",
    "RunningTotal": "decide",
    "NothingToSay": "decide",
    "ByName": "decide",
    "LastContext": "decide",
    "AsyncVisible": "visible",
    "DeniesWhenInDoubt": "unwind",
    "NotTwice": "decide",
    "RaisesToStop": "decide",
}
"""The rule that each of them breaks."""
UNPROMISED = ("FirstWord",)
"""No sentence of the documentation orders the rules inside of one policy."""
