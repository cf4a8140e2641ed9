"""Plan: one answer of a planner, and what it used up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec

from .action import Action


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What one call of a model used up, or may use up at most."""

    input_tokens: int = 0
    output_tokens: int = 0
    """Reasoning included."""
    cached_tokens: int = 0
    """Of the input, those that were read from a cache."""
    reasoning_tokens: int = 0
    """Of the output, those that were spent on reasoning."""
    cost: float = 0.0
    """In the currency that the limits are meant in."""


NOTHING_USED: Final = Usage()
LARGEST: Final = 10**12
"""How much of anything one call may use up: more is a mistake, and could not be added up."""


class Delta(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A piece of an answer that is on its way."""

    text: str
    channel: str = ""
    """Empty for the answer itself; ``reasoning``, ``arguments``, or ``progress`` towards one."""


class Plan(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a planner wants done next: one action, or a batch in the order of the list."""

    actions: tuple[Action, ...]
    text: str = ""
    """What the model said beside its actions."""
    reasoning: str = ""
    usage: Usage = NOTHING_USED
    provider: Mapping[str, Any] | None = None
    """Whatever the planner wants to see again with this turn, unread by the Loop."""
    model: str = ""
    """Which model answered."""


PlanLike = Plan | Action | tuple[Action, ...] | list[Action]
"""What a planner may return, or give at the end of a stream."""
PlanStream = AsyncIterator[Delta | PlanLike]
"""Pieces of the answer, and the plan as the last one."""
