"""Shared by the tests of tools: one call of a tool, and tools that are one value."""

from __future__ import annotations

from typing import Any

from agentic_kernel_engine.plans.action import ToolCall
from agentic_kernel_engine.plans.observation import Observation
from agentic_kernel_engine.principal import Principal
from agentic_kernel_engine.tools.call import Invocation, perform
from agentic_kernel_engine.tools.tool import Tool, ToolContext
from agentic_kernel_engine.values import encode

ANYTHING = {"type": "object"}


def context(reports: list[Any] | None = None, *scopes: str) -> ToolContext:
    principal = Principal("user:7", "acme", frozenset(scopes), "trace-1")
    report = (lambda _: None) if reports is None else reports.append
    return ToolContext("task-1", 3, 1, "task-1:3:1:abc", principal, report)


_EMPTY: dict[str, Any] = {}


async def call(
    target: Tool, arguments: Any = _EMPTY, told: ToolContext | None = None
) -> Observation:
    asked = ToolCall(target.name, arguments, "call-1")
    observation = await perform(Invocation(target, arguments, asked, told or context()))
    assert (observation.call, observation.tool) == ("call-1", target.name)
    assert bool(observation.error) is bool(observation.message)
    encode({"message": observation.message, "output": observation.output})
    assert len(observation.message) <= 3_000
    return observation


def returning(value: Any, **declared: Any) -> Tool:
    async def handler(arguments: dict[str, Any]) -> Any:
        return value

    return Tool("give", handler, input_schema=ANYTHING, **declared)


async def echo(arguments: dict[str, Any]) -> Any:
    return arguments
