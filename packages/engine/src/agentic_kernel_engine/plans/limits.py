"""Limits, and the one budget that is held against them.

What a call may use up at most is reserved before it, in a commit (R17); afterwards the reservation
is replaced by what was really used. So no cap is passed, whatever happens in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue

from .. import edges
from .action import Action, ToolCall
from .observation import Observation
from .plan import LARGEST, NOTHING_USED, Usage
from .reasons import StopReason

BACKSTOP: Final = 1_000
"""How many iterations a run has when nobody said."""


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a run may go. None is no limit, but for the backstops.

    Raises:
        InvalidValue: A limit is negative, over `LARGEST`, or of the wrong type.
    """

    max_iterations: int = BACKSTOP
    """Answers of the planner."""
    max_tool_calls: int | None = None
    max_calls_per_answer: int = 128
    """Actions in one answer, tool calls and others; of a longer one nothing is done, and the
    planner is told."""
    max_failures: int | None = None
    """Observations that went wrong, in all."""
    max_non_progress: int = 5
    """Steps in a row that brought nothing new."""
    max_reflections: int = 2
    """How often a stalled run is given a corrective message; each time it may go on for longer."""
    max_repeats: int = 5
    """Steps in a row with the same actions and the same observations."""
    max_goal_depth: int = 8
    max_depth: int = 4
    """How deep Tasks may delegate to children of children."""
    max_seconds: float | None = None
    """How long the run may work before nothing new is begun; time spent paused does not count."""
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    max_total_tokens: int | None = None
    max_cost: float | None = None

    def __post_init__(self) -> None:
        for field in msgspec.structs.fields(Limits):
            name = field.name
            value = getattr(self, name)
            if value is None and field.default is None:
                continue
            fraction = name in ("max_seconds", "max_cost")
            kinds = (int, float) if fraction else (int,)
            least = 1 if name == "max_calls_per_answer" else 0
            if type(value) not in kinds or not least <= value <= LARGEST:
                what = "a number" if fraction else "a whole number"
                none = ", or leave it out for no limit" if field.default is None else ""
                raise InvalidValue(
                    name, f"is {edges.came(value)}; use {what} from {least} to {LARGEST:,}{none}"
                )

    def changed(self, changes: Mapping[str, Any]) -> Limits:
        """These limits with some of them replaced.

        Raises:
            InvalidValue: There is no such limit, or its value is none.
        """
        known = {name: getattr(self, name) for name in self.__struct_fields__}
        for name in changes:
            if name not in known:
                raise InvalidValue(
                    name, f"is no limit; there are {', '.join(self.__struct_fields__)}"
                )
        try:
            return msgspec.convert({**known, **changes}, Limits)
        except msgspec.ValidationError as error:
            raise InvalidValue("limits", str(error)) from error


class Spent(msgspec.Struct, gc=False, omit_defaults=True):
    """What a run has used up so far; part of its durable state."""

    iterations: int = 0
    tool_calls: int = 0
    failures: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    """Worked before this entry, as of the last commit."""

    def bank(self, usage: Usage) -> None:
        """Count what a call used up."""
        if usage is not NOTHING_USED:
            self.input_tokens += usage.input_tokens
            self.output_tokens += usage.output_tokens
            self.cached_tokens += usage.cached_tokens
            self.reasoning_tokens += usage.reasoning_tokens
            self.cost += usage.cost

    def count(self, action: Action, observation: Observation) -> None:
        """Count what came of an action that was begun."""
        if isinstance(action, ToolCall):
            self.tool_calls += 1
        if observation.error:
            self.failures += 1

    @property
    def usage(self) -> Usage:
        """The part of it that models used up."""
        return Usage(
            self.input_tokens, self.output_tokens, self.cached_tokens, self.reasoning_tokens,
            self.cost,
        )  # fmt: skip


def exceeded(limits: Limits, spent: Spent) -> StopReason | None:
    """Why no further call may be made; None if one may, as far as counts go."""
    if spent.iterations >= limits.max_iterations:
        return StopReason.MAX_ITERATIONS
    if limits.max_failures is not None and failed_too_often(limits, spent):
        return StopReason.MAX_FAILURES
    return None


def failed_too_often(limits: Limits, spent: Spent) -> bool:
    """Whether the failures have reached their cap; the first one does where the cap is none."""
    return limits.max_failures is not None and spent.failures >= max(limits.max_failures, 1)


def unaffordable(limits: Limits, spent: Spent, worst: Usage) -> StopReason | None:
    """Why a call that may use up ``worst`` must not be made; None if it may."""
    limit: float | None = limits.max_cost
    if limit is not None and _over(limit, spent.cost, worst.cost):
        return StopReason.MAX_COST
    limit = limits.max_input_tokens
    if limit is not None and _over(limit, spent.input_tokens, worst.input_tokens):
        return StopReason.MAX_TOKENS
    limit = limits.max_output_tokens
    if limit is not None and _over(limit, spent.output_tokens, worst.output_tokens):
        return StopReason.MAX_TOKENS
    limit = limits.max_total_tokens
    if limit is not None:
        used = spent.input_tokens + spent.output_tokens
        if _over(limit, used, worst.input_tokens + worst.output_tokens):
            return StopReason.MAX_TOKENS
    return None


def _over(limit: float, spent: float, more: float) -> bool:
    """Whether so much more would pass the limit; with nothing left, nothing more is begun."""
    return spent + more > limit or spent >= limit


class Remaining(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What is left of the limits, for a planner that adapts to it; None is no limit."""

    iterations: int
    tool_calls: int | None = None
    seconds: float | None = None
    output_tokens: int | None = None
    """Of those of the output and those in all, what is less."""
    cost: float | None = None
    input_tokens: int | None = None
    """Of those of the input and those in all, what is less."""
    total_tokens: int | None = None

    def covers(self, worst: Usage) -> bool:
        """Whether a call fits that may use up so much."""
        needs = (
            (self.input_tokens, worst.input_tokens),
            (self.output_tokens, worst.output_tokens),
            (self.total_tokens, worst.input_tokens + worst.output_tokens),
            (self.cost, worst.cost),
        )
        return all(left is None or (need <= left and left > 0) for left, need in needs)


def remaining(limits: Limits, spent: Spent, seconds: float) -> Remaining:
    """What is left before the next call."""
    given, output, left = limits.max_input_tokens, limits.max_output_tokens, limits.max_total_tokens
    given = None if given is None else given - spent.input_tokens
    output = None if output is None else output - spent.output_tokens
    if left is not None:
        left -= spent.input_tokens + spent.output_tokens
        given = left if given is None else min(given, left)
        output = left if output is None else min(output, left)
    calls, time, cost = limits.max_tool_calls, limits.max_seconds, limits.max_cost
    return Remaining(
        limits.max_iterations - spent.iterations,
        None if calls is None else calls - spent.tool_calls,
        None if time is None else time - seconds,
        output,
        None if cost is None else cost - spent.cost,
        given,
        left,
    )
