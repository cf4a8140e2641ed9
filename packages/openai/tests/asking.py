"""Shared by the tests: a step's context, planners of both APIs, and a question to one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from agentic_kernel import Task
from agentic_kernel_engine import tool
from agentic_kernel_engine.loop import (
    Context,
    Delta,
    Entry,
    Observation,
    Plan,
    PlannerError,
    Principal,
    Remaining,
    Turn,
    UserMessage,
)
from agentic_kernel_engine.seams import Tool
from agentic_kernel_openai import OpenAIChatPlanner, OpenAIPlanner

PLANNERS: Final = {"responses": OpenAIPlanner, "chat": OpenAIChatPlanner}
KEY: Final = "sk-test-0123456789abcdef"


@tool(effect="none", inline=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def seen(*more: Entry, metadata: dict[str, Any] | None = None, **changes: Any) -> Context:
    """The context of a Task that was asked something, with one tool."""
    task = Task.new(summary="", instructions="", runtime_kind="openai", metadata=metadata or {})
    given: dict[str, Any] = {
        "task": task,
        "step": len(more),
        "transcript": [UserMessage("How much is 1 + 2?"), *more],
        "tools": [add],
        "goals": [],
        "remaining": Remaining(1_000),
        "principal": Principal(),
        "variables": {},
        "instructions": [],
        "memories": [],
        "output_schema": None,
        "continuation": "",
    }
    return Context(**given | changes)


def turn(*actions: Any, said: str = "", provider: Any = None, **result: Any) -> Turn:
    """A step, with the same result for each of its actions."""
    return Turn(
        Plan(actions, text=said, provider=provider), (Observation(**result),) * len(actions)
    )


def without_tools(**changes: Any) -> Context:
    """A question and nothing else."""
    tools: Sequence[Tool] = []
    return seen(tools=tools, **changes)


@asynccontextmanager
async def planning(api: str, url: str, **options: Any) -> AsyncIterator[Any]:
    """A planner of an API, at a peer; closed behind the block."""
    given = {"model": "gpt-4o", "api_key": KEY, "base_url": f"{url}/v1", **options}
    planner = PLANNERS[api](given.pop("model"), **given)
    try:
        yield planner
    finally:
        await planner.close()


async def ask(planner: Any, context: Context) -> tuple[list[Delta], Plan]:
    """The pieces of an answer, and its plan."""
    given = planner.plan(context)
    if not hasattr(given, "__aiter__"):
        return [], await given
    *pieces, plan = [piece async for piece in given]
    assert isinstance(plan, Plan)
    return pieces, plan


async def failure(planner: Any, context: Context) -> PlannerError:
    """The failure of an answer."""
    try:
        given = await ask(planner, context)
    except PlannerError as error:
        return error
    raise AssertionError(f"it answered {given}")


def told(pieces: Sequence[Delta], channel: str = "") -> str:
    """The pieces of one channel, put together."""
    return "".join(piece.text for piece in pieces if piece.channel == channel)
