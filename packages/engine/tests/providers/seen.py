"""A step's context, as the Loop would show it to a planner."""

from __future__ import annotations

from typing import Any

from agentic_kernel import Task
from agentic_kernel_engine import tool
from agentic_kernel_engine.loop import Context, Observation, Plan, Remaining, Turn, UserMessage
from agentic_kernel_engine.plans.transcript import Entry, Transcript
from agentic_kernel_engine.principal import NOBODY
from agentic_kernel_engine.seams import Tool


@tool(effect="none", inline=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def seen(*more: Entry, metadata: dict[str, Any] | None = None, **changes: Any) -> Context:
    """The context of a Task that was told to do something."""
    task = Task.new(summary="", instructions="do it", runtime_kind="test", metadata=metadata or {})
    tools: list[Tool] = [add]
    given: dict[str, Any] = {
        "task": task,
        "step": len(more),
        "transcript": Transcript([UserMessage("do it"), *more]),
        "tools": tools,
        "goals": [],
        "remaining": Remaining(1_000),
        "principal": NOBODY,
        "variables": {},
        "instructions": [],
        "memories": [],
        "output_schema": None,
        "continuation": "",
    }
    return Context(**given | changes)


def turn(*actions: Any, said: str = "", provider: Any = None, **result: Any) -> Turn:
    """A step, and one result for each of its actions."""
    observation = Observation(**result)
    return Turn(Plan(actions, text=said, provider=provider), (observation,) * len(actions))
