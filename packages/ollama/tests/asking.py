"""Shared by the tests: a step's context, and a question to a planner."""

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
from agentic_kernel_ollama import OllamaPlanner

MODEL: Final = "qwen3:8b"
KEY: Final = "sk-test-0123456789abcdef"


@tool(effect="none", inline=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def task(**metadata: Any) -> Task:
    """A Task with metadata, by the part behind the slash or the whole key."""
    named = {key if "/" in key else f"ollama/{key}": value for key, value in metadata.items()}
    return Task.new(summary="", instructions="", runtime_kind="ollama", metadata=named)


def seen(*more: Entry, **changes: Any) -> Context:
    """The context of a Task that was asked something, with one tool."""
    given: dict[str, Any] = {
        "task": task(),
        "step": sum(isinstance(entry, Turn) for entry in more),
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


@asynccontextmanager
async def planning(host: str, **options: Any) -> AsyncIterator[OllamaPlanner]:
    """A planner at a peer; closed behind the block."""
    given = {"model": MODEL, "host": host, **options}
    planner = OllamaPlanner(given.pop("model"), **given)
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
