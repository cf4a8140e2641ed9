"""Bad answers: the errors about an answer of a planner that no run can use."""

from __future__ import annotations

from typing import Final

from ..plans.ending import PlannerError

WANTED: Final = (
    "it must give an action, several, a Plan, or a stream of pieces (Delta) that ends with one"
)


def bad_plan(message: str) -> PlannerError:
    """The error about an answer of a planner that is no plan."""
    return PlannerError("engine/bad_plan", message)


def not_awaitable(answer: object) -> PlannerError:
    """The error about a planner whose ``plan`` gave neither an awaitable nor a stream."""
    return bad_plan(
        f"plan() of the planner gave a {kind_of_value(answer)}, which cannot be awaited; write "
        f"'async def plan', and {WANTED}"
    )


def kind_of_value(value: object) -> str:
    """The type of a value, for a message."""
    return "None" if value is None else type(value).__name__[:80]
