"""Instructions: what a model is told beside the conversation, in one text."""

from __future__ import annotations

from ..plans.context import Context


def instructions(context: Context, system: str | None) -> str:
    """What stays the same comes first, so that a vendor's cache of prompts can use it.

    Args:
        system: The planner's own; first of all.
    """
    parts = [] if system is None else [system]
    parts += context.instructions
    if context.memories:
        parts.append("\n".join(["You remember:", *(f"- {each}" for each in context.memories)]))
    if context.goals:
        goals = [f"{number}. {goal}" for number, goal in enumerate(context.goals, 1)]
        parts.append("\n".join(["Goals; the last one is current:", *goals]))
    return "\n\n".join(parts)
