"""Plan: one answer of a planner, and its usage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec

from .action import Action


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The tokens and the cost that one call of a model used up, or may use up at most."""

    input_tokens: int = 0
    output_tokens: int = 0
    """Reasoning included."""
    cached_tokens: int = 0
    """The part of the input that was read from a cache."""
    reasoning_tokens: int = 0
    """The part of the output that was spent on reasoning."""
    cost: float = 0.0
    """In the currency of ``Limits.max_cost``."""


NOTHING_USED: Final = Usage()
LARGEST: Final = 10**12
"""The largest number of a usage, and of a limit: more is a mistake, and could not be added up."""


class Delta(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A piece of a streamed answer."""

    text: str
    channel: str = ""
    """Empty for the answer itself; else ``reasoning``, ``arguments``, or ``progress``."""
    usage: Usage | None = None
    """The most that the call has used up if it ends after this piece; None if this piece tells
    nothing about it. The Loop counts the last one if the call gives no plan. A piece with a usage
    may have no text."""
    at: int | None = None
    """The number of characters of the channel's text before this piece. None for the end of the
    text; the first piece of a call begins the text anew. A planner that continues
    ``Context.continuation`` gives the length of that text with its first piece."""


class Plan(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A planner's next actions: one, or a batch in the order of the list."""

    actions: tuple[Action, ...]
    text: str = ""
    """Text of the model beside its actions."""
    reasoning: str = ""
    usage: Usage = NOTHING_USED
    provider: Mapping[str, Any] | None = None
    """Data that the planner gets back with this turn; the Loop does not read it."""
    model: str = ""
    """Name of the model that answered."""


PlanLike = Plan | Action | tuple[Action, ...] | list[Action]
"""The forms of a plan that a planner may return, or give at the end of a stream."""
PlanStream = AsyncIterator[Delta | PlanLike]
"""Pieces of the answer, and the plan as the last one."""
