"""Instructions: the one text that a model gets beside the conversation."""

from __future__ import annotations

from ..seams.planner import Context


def instructions(context: Context, system: str | None) -> str:
    """The system prompt; parts that stay the same come first, for the vendor's prompt cache.

    Args:
        system: The planner's own text, which comes first of all.
    """
    parts = [] if system is None else [system]
    parts += context.instructions
    if context.memories:
        parts.append("\n".join(["You remember:", *(f"- {each}" for each in context.memories)]))
    if context.goals:
        goals = [f"{number}. {goal}" for number, goal in enumerate(context.goals, 1)]
        parts.append("\n".join(["Goals; the last one is current:", *goals]))
    return "\n\n".join(parts)
