"""Budget: the limits that the Tasks of a family share, and the arithmetic of its parts (R18).

*Shared* are the limits that add up: iterations (if a limit is given, because the backstop is not
one), tool calls, tokens and cost. A Task reserves a part of what it has left for each child: a
*grant*. See `accounts` for the grants in a Task's state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import methodcaller
from typing import Annotated, Any, Final, NoReturn

import msgspec

from agentic_kernel import InvalidValue

from .. import edges
from .limits import BACKSTOP, Limits, Spent
from .plan import LARGEST, NOTHING_USED, Usage

SECONDS: Final = "seconds"
"""In a grant as it is stored with a child: the seconds that the parent had left."""


class Amounts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A number for each shared limit. In a grant and in limits, None means no limit."""

    iterations: int | None = None
    tool_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cost: float | None = None


NAMES: Final = Amounts.__struct_fields__
UNLIMITED: Final = Amounts()
NONE_USED: Final = Amounts(0, 0, 0, 0, 0, 0.0)
_LIMITS: Final = tuple(f"max_{name}" for name in NAMES)
amounts_of = msgspec.structs.astuple
_set = msgspec.structs.force_setattr
_copy: Callable[[Limits], Limits] = methodcaller("__copy__")
"""`copy.copy` without its search for the way to copy; each child costs three copies
(benchmarks/family.py)."""


def plus(first: Amounts, *others: Amounts) -> Amounts:
    """The sum. An amount without a limit counts as 0, because it cannot be added up."""
    # Written out, because each child costs several sums (benchmarks/family.py).
    steps, calls, given, made, total, cost = amounts_of(first)
    for other in others:
        more = amounts_of(other)
        steps = (steps or 0) + (more[0] or 0)
        calls = (calls or 0) + (more[1] or 0)
        given = (given or 0) + (more[2] or 0)
        made = (made or 0) + (more[3] or 0)
        total = (total or 0) + (more[4] or 0)
        cost = (cost or 0) + (more[5] or 0)
    return Amounts(steps or 0, calls or 0, given or 0, made or 0, total or 0, cost or 0.0)


def minus(limits: Amounts, *taken: Amounts) -> Amounts:
    """The rest of the limits; it may be negative. No limit stays no limit."""
    steps, calls, given, made, total, cost = amounts_of(limits)
    gone = amounts_of(plus(*taken))
    return Amounts(
        None if steps is None else steps - gone[0],
        None if calls is None else calls - gone[1],
        None if given is None else given - gone[2],
        None if made is None else made - gone[3],
        None if total is None else total - gone[4],
        None if cost is None else cost - gone[5],
    )


def most(first: Amounts, second: Amounts) -> Amounts:
    """The higher one of each amount; None is higher than every number."""
    return each(lambda a, b: None if a is None or b is None else max(a, b), first, second)


def each(work: Callable[..., Any], *amounts: Amounts) -> Amounts:
    """The amounts that ``work`` returns for those of the same name."""
    return Amounts(*map(work, *map(amounts_of, amounts)))


def lower(first: Any, second: Any) -> Any:
    """The lower one of two limits; None is no limit."""
    if first is None:
        return second
    return first if second is None else min(first, second)


def share(left: Amounts, parts: int) -> Amounts:
    """One of so many equal parts of what is left.

    A whole number is rounded down, but a part is at least 1 as long as 1 is left.
    """
    return Amounts(
        _part(left.iterations, parts), _part(left.tool_calls, parts),
        _part(left.input_tokens, parts), _part(left.output_tokens, parts),
        _part(left.total_tokens, parts),
        None if left.cost is None else max(left.cost / parts, 0.0),
    )  # fmt: skip


def _part(left: int | None, parts: int) -> int | None:
    return None if left is None else min(max(left // parts, 1), max(left, 0))


def lacking(grant: Amounts) -> str:
    """The limit of which a grant has nothing for a call of a model; "" if it has enough."""
    for limit, amount in zip(_LIMITS, amounts_of(grant), strict=True):
        if amount is not None and amount <= 0 and limit != "max_tool_calls":
            return limit
    return ""


def worst_case(usage: Usage) -> Amounts:
    """One call of a model that uses up this much."""
    given, made = usage.input_tokens, usage.output_tokens
    return Amounts(1, 0, given, made, given + made, usage.cost)


def used_by(spent: Spent, reserved: Usage | None = None) -> Amounts:
    """The amounts that a run has used itself, with a reservation if a call may be under way."""
    more, calls = (NOTHING_USED, 0) if reserved is None else (reserved, 1)
    given = spent.input_tokens + more.input_tokens
    made = spent.output_tokens + more.output_tokens
    cost = spent.cost + more.cost
    return Amounts(spent.iterations + calls, spent.tool_calls, given, made, given + made, cost)


def shared(limits: Limits, granted: Amounts | None) -> Amounts:
    """The shared part of a run's limits.

    Args:
        granted: The grant that the limits are within; None for a Task without one.
    """
    counted = limits.max_iterations != BACKSTOP
    if granted is not None and granted.iterations is not None:
        counted = True
    return Amounts(
        limits.max_iterations if counted else None, limits.max_tool_calls,
        limits.max_input_tokens, limits.max_output_tokens, limits.max_total_tokens,
        limits.max_cost,
    )  # fmt: skip


def within(limits: Limits, granted: Amounts | None, seconds: float | None = None) -> Limits:
    """These limits, none of them higher than the grant."""
    capped = _copy(limits)
    for name, amount in zip(_LIMITS, amounts_of(granted or UNLIMITED), strict=True):
        if amount is not None:
            held = getattr(limits, name)
            if held is None or amount < held:
                _set(capped, name, amount)
    if seconds is not None:
        _set(capped, "max_seconds", lower(limits.max_seconds, seconds))
    return capped


def without(limits: Limits, held: Amounts, taken: Amounts) -> Limits:
    """These limits without what the children hold and used; 0 if nothing is left.

    Args:
        held: The `shared` part of the limits.
    """
    rest = _copy(limits)
    for name, amount, less in zip(_LIMITS, amounts_of(held), amounts_of(taken), strict=True):
        if amount is not None:
            left = amount - less if less else amount
            _set(rest, name, left if left > 0 else 0)
    return rest


def divide(
    caps: Sequence[Amounts], before: Amounts, after: Amounts, left: Amounts, room: Amounts
) -> list[Amounts]:
    """The new caps of the open children of a Task whose limits change.

    Of a raise, each child and the Task itself get an equal part. If a cut leaves too little, the
    Task itself keeps one part of what is left, as if it were one child more; the children keep the
    rest in proportion to their caps.

    Args:
        caps: The caps of the children so far.
        before: The limits so far.
        after: The new limits.
        left: The amounts that the new limits leave for the children together.
        room: The amounts that they leave beside the children's grants; negative if too little.
    """
    columns = [
        _divided(list(held), *values, whole=name != "cost")
        for name, held, *values in zip(
            NAMES, zip(*map(amounts_of, caps), strict=True), *map(amounts_of, (before, after, left,
            room)), strict=True,
        )
    ]  # fmt: skip
    return [Amounts(*row) for row in zip(*columns, strict=True)]


def _divided(held: list[Any], old: Any, new: Any, left: Any, room: Any, *, whole: bool) -> Any:
    """The new caps of all children for one limit that changes from ``old`` to ``new``."""
    parts = len(held) + 1
    if new == old:
        return held
    if new is None:
        return [None] * len(held)
    if old is None:
        part = _rounded(max(left, 0) / parts, whole)
        return [lower(cap, part) for cap in held]
    if new > old:
        more = _rounded(max(min(new - old, room), 0) / parts, whole)
        return [None if cap is None else cap + more for cap in held]
    total = sum(cap for cap in held if cap is not None)
    if room >= 0 or not total:
        return held
    kept = min(max(left, 0) * len(held) / parts / total, 1)
    return [None if cap is None else _rounded(cap * kept, whole) for cap in held]


def _rounded(amount: float, whole: bool) -> Any:
    return math.floor(amount) if whole else amount


def checked_grant(grant: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A grant as it is stored with a child.

    Raises:
        InvalidValue: As `granted_to`.
    """
    granted_to(grant)
    return None if grant is None else dict(grant)


def granted_to(
    grant: Mapping[str, Any] | None, path: str = "grant"
) -> tuple[Amounts | None, float | None]:
    """Check a stored grant; return its amounts, and the seconds that the parent had left.

    Raises:
        InvalidValue: It has a name that no shared limit has, or a value that no limit may have.
    """
    if grant is None:
        return None, None
    try:
        # Every child takes this way (benchmarks/family.py).
        *found, seconds = amounts_of(msgspec.convert(grant, _Stored))
    except msgspec.ValidationError:
        return _refused(grant, path)
    amounts = Amounts(*found)
    return (None if amounts == UNLIMITED else amounts), seconds


_Whole = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)] | None
_Number = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)] | None


class _Stored(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A grant as it is stored: the amounts in their order, and `SECONDS`."""

    iterations: _Whole = None
    tool_calls: _Whole = None
    input_tokens: _Whole = None
    output_tokens: _Whole = None
    total_tokens: _Whole = None
    cost: _Number = None
    seconds: _Number = None


def _refused(grant: Any, path: str) -> NoReturn:
    """Raise the error about a stored grant that does not fit.

    Raises:
        InvalidValue: Always.
    """
    if not isinstance(grant, Mapping):
        raise InvalidValue(path, f"is {edges.came(grant)}; give a mapping of amounts by name")
    for name, value in grant.items():
        if name not in NAMES and name != SECONDS:
            raise InvalidValue(
                f"{path}.{edges.came(name)}", f"is not shared; use one of {', '.join(NAMES)}"
            )
        kinds = (int, float) if name in ("cost", SECONDS) else (int,)
        if type(value) not in kinds or not 0 <= value <= LARGEST:
            raise InvalidValue(
                f"{path}.{name}", f"is {edges.came(value)}; use a number from 0 to {LARGEST:,}"
            )
    raise InvalidValue(path, "is not a grant; give a mapping of amounts by name")
