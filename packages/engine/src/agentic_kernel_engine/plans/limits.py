"""Limits, and the one budget that is held against them.

R17: before each call, a commit reserves the most that the call may use up. After the call, the
reservation is replaced by the real usage. So no cap is passed, whatever happens in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue

from .. import edges
from .action import Action, ToolCall
from .ending import PlannerError
from .observation import Observation
from .plan import LARGEST, NOTHING_USED, Usage
from .reasons import StopReason

BACKSTOP: Final = 1_000
"""The default of ``max_iterations``, so that every run ends."""


_LEAST: Final = {"max_calls_per_answer": 1, "max_repeats": 2}
"""The least value of each limit for which 0 makes no sense."""


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits of a run. None means no limit; a limit that cannot be None has a default.

    Raises:
        InvalidValue: A limit is too low, over `LARGEST`, or of the wrong type.
    """

    max_iterations: int = BACKSTOP
    """Answers of the planner."""
    max_tool_calls: int | None = None
    max_calls_per_answer: int = 128
    """Actions in one answer, tool calls and others. No action of a longer answer is done, and the
    planner is told."""
    max_failures: int | None = None
    """Observations with an error, in the whole run; 0 counts as 1."""
    max_non_progress: int = 5
    """Steps in a row that brought nothing new."""
    max_reflections: int = 2
    """Corrective messages to a stalled run; each one allows one step more than the last."""
    max_repeats: int = 5
    """Steps in a row with the same actions and the same observations; at least 2, because one step
    repeats nothing."""
    max_goal_depth: int = 8
    max_depth: int = 4
    """Levels of children below the outermost Task: 1 allows children and no grandchildren."""
    max_seconds: float | None = None
    """Seconds of work after which the run ends; pauses do not count, nor does the time between the
    last commit of a run and the death of its process. A call of a planner or of a tool that is
    under way is cancelled."""
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
            least = _LEAST.get(name, 0)
            if type(value) not in kinds or not least <= value <= LARGEST:
                what = "a number" if fraction else "a whole number"
                none = ", or leave it out for no limit" if field.default is None else ""
                raise InvalidValue(
                    name, f"is {edges.came(value)}; use {what} from {least} to {LARGEST:,}{none}"
                )

    def changed(self, changes: Mapping[str, Any]) -> Limits:
        """These limits with some of them replaced.

        Raises:
            InvalidValue: There is no such limit, or the value is not valid for it.
        """
        known = {name: getattr(self, name) for name in self.__struct_fields__}
        for name in changes:
            if name not in known:
                raise InvalidValue(
                    name, f"is not a limit; use one of {', '.join(self.__struct_fields__)}"
                )
        return Limits(**{**known, **changes})


def stated(limits: Limits | Mapping[str, Any]) -> dict[str, Any]:
    """The limits that a caller gives for one Task, by name.

    Of `Limits` these are the fields that differ from their defaults; of a mapping all, so that a
    mapping can also remove a limit (None).

    Raises:
        InvalidValue: It is neither, there is no such limit, or a value is not valid for it.
    """
    if isinstance(limits, Limits):
        found: dict[str, Any] = msgspec.to_builtins(limits)
        return found
    if not isinstance(limits, Mapping):
        raise InvalidValue("limits", f"is {edges.came(limits)}; give Limits, or a mapping by name")
    found = dict(edges.entries(limits, "limits"))
    Limits().changed(found)
    return found


class Spent(msgspec.Struct, gc=False, omit_defaults=True):
    """Counts of what a run has used up so far; part of its durable state."""

    iterations: int = 0
    tool_calls: int = 0
    failures: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    """Seconds of work before the present entry of the run, as of the last commit."""

    def bank(self, usage: Usage) -> None:
        """Add the usage of one call."""
        if usage is not NOTHING_USED:
            self.input_tokens += usage.input_tokens
            self.output_tokens += usage.output_tokens
            self.cached_tokens += usage.cached_tokens
            self.reasoning_tokens += usage.reasoning_tokens
            self.cost += usage.cost

    def count(self, action: Action, observation: Observation) -> None:
        """Count an action that was begun, by its observation."""
        if isinstance(action, ToolCall):
            self.tool_calls += 1
        if observation.error:
            self.failures += 1

    @property
    def usage(self) -> Usage:
        """The tokens and the cost of the calls of models."""
        return Usage(
            self.input_tokens, self.output_tokens, self.cached_tokens, self.reasoning_tokens,
            self.cost,
        )  # fmt: skip


def check_usage(usage: Any, code: str) -> None:
    """Refuse an impossible usage, because it would lift the limits or could not be stored.

    Raises:
        PlannerError: It is not a `Usage`, or a field of it is not a number from 0 to `LARGEST`.
    """
    if not isinstance(usage, Usage):
        raise PlannerError(code, f"the usage is a {type(usage).__name__}; give a Usage")
    for name in Usage.__struct_fields__:
        used = getattr(usage, name)
        if type(used) not in ((int, float) if name == "cost" else (int,)) or not (
            0 <= used <= LARGEST
        ):
            shown = edges.came(used)
            raise PlannerError(
                code, f"usage.{name} must be a number from 0 to {LARGEST:,}, not {shown}"
            )


def failed_too_often(limits: Limits, spent: Spent) -> bool:
    """True if the failures have reached ``max_failures``; a limit of 0 counts as 1."""
    return limits.max_failures is not None and spent.failures >= max(limits.max_failures, 1)


def unaffordable(limits: Limits, spent: Spent, worst: Usage) -> StopReason | None:
    """The stop reason if a call that may use up ``worst`` could pass a limit; None otherwise."""
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


def shortfall(limits: Limits, spent: Spent, worst: Usage) -> str:
    """The message about the first limit that a call with this worst case could pass; "" for none.

    It names the limit, its value, what was spent, the worst case, and the remedies.
    """
    used = spent.input_tokens + spent.output_tokens
    more = worst.input_tokens + worst.output_tokens
    for name, limit, so_far, next_call, other in (
        ("max_cost", limits.max_cost, spent.cost, worst.cost, _SHORTER_ANSWER),
        ("max_input_tokens", limits.max_input_tokens, spent.input_tokens, worst.input_tokens,
         _SHORTER_PROMPT),
        ("max_output_tokens", limits.max_output_tokens, spent.output_tokens, worst.output_tokens,
         _SHORTER_ANSWER),
        ("max_total_tokens", limits.max_total_tokens, used, more, _SHORTER_ANSWER),
    ):  # fmt: skip
        if limit is not None and _over(limit, so_far, next_call):
            if not next_call:
                return f"{name} {_shown(limit)}: spent {_shown(so_far)}; raise {name}"
            return (
                f"{name} {_shown(limit)}: spent {_shown(so_far)}, and the next call may use up "
                f"{_shown(next_call)}; raise {name} or {other}"
            )
    return ""


def reached(reason: StopReason, limits: Limits, spent: Spent, seconds: float = 0.0) -> str:
    """The message about the limit that ends a run: its name, its value, the use and the remedy.

    Args:
        reason: The stop reason of that limit.
        seconds: Seconds that the run has worked.
    """
    if reason is StopReason.TIMEOUT:
        name, used = "seconds", f"the run worked for {round(seconds, 2):,g} seconds"
    elif reason in _COUNTED:
        name, noun, verb = _COUNTED[reason]
        used = _counted(getattr(spent, name), noun, verb)
    else:
        return shortfall(limits, spent, NOTHING_USED)
    limit: float | None = getattr(limits, f"max_{name}")
    shown = "none" if limit is None else _shown(limit)
    other = " or remove the cause of the failures" if reason is StopReason.MAX_FAILURES else ""
    return f"max_{name} {shown}: {used}; raise max_{name}{other}"


_COUNTED: Final[Mapping[StopReason, tuple[str, str, str]]] = {
    StopReason.MAX_ITERATIONS: ("iterations", "answer", "of the planner were counted"),
    StopReason.MAX_TOOL_CALLS: ("tool_calls", "tool call", "were made"),
    StopReason.MAX_FAILURES: ("failures", "action", "failed"),
}
"""By stop reason, the count of `Spent` that its limit bounds, and the words for that count."""
_SHORTER_ANSWER: Final = "lower max_tokens"
_SHORTER_PROMPT: Final = "shorten the prompt"


def _counted(number: int, noun: str, verb: str) -> str:
    if number == 1:
        return f"1 {noun} {verb.replace('were', 'was')}"
    return f"{number:,} {noun}s {verb}"


def _shown(number: float) -> str:
    return f"{number:,}" if type(number) is int else f"{number:.6g}"


def _over(limit: float, spent: float, more: float) -> bool:
    """True if ``more`` would pass the limit, or if nothing of the limit is left."""
    return spent + more > limit or spent >= limit


class Remaining(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The rest of each limit, for a planner that adapts to it; None means no limit."""

    iterations: int
    tool_calls: int | None = None
    seconds: float | None = None
    output_tokens: int | None = None
    """The rest of ``max_output_tokens`` or of ``max_total_tokens``, if that is less."""
    cost: float | None = None
    input_tokens: int | None = None
    """The rest of ``max_input_tokens`` or of ``max_total_tokens``, if that is less."""
    total_tokens: int | None = None

    def covers(self, worst: Usage) -> bool:
        """True if a call that may use up ``worst`` passes no limit."""
        needs = (
            (self.input_tokens, worst.input_tokens),
            (self.output_tokens, worst.output_tokens),
            (self.total_tokens, worst.input_tokens + worst.output_tokens),
            (self.cost, worst.cost),
        )
        return all(left is None or (need <= left and left > 0) for left, need in needs)


def remaining(limits: Limits, spent: Spent, seconds: float) -> Remaining:
    """The rest of each limit before the next call."""
    if (given := limits.max_input_tokens) is not None:
        given -= spent.input_tokens
    if (output := limits.max_output_tokens) is not None:
        output -= spent.output_tokens
    if (left := limits.max_total_tokens) is not None:
        left -= spent.input_tokens + spent.output_tokens
        given = left if given is None else min(given, left)
        output = left if output is None else min(output, left)
    if (calls := limits.max_tool_calls) is not None:
        calls -= spent.tool_calls
    if (time := limits.max_seconds) is not None:
        time -= seconds
    if (cost := limits.max_cost) is not None:
        cost -= spent.cost
    iterations = limits.max_iterations - spent.iterations
    return Remaining(iterations, calls, time, output, cost, given, left)
