"""Shrinking: the least part of a history that no order explains, and the rule that it breaks.

Each step only takes away what would be explained if the whole were, so what is left is a witness
against the whole: the history up to some moment (what has not returned by then is unknown), the
history from a moment on at which only one state was possible, and the history without operations
that changed nothing or whose callers might as well have heard nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .history import Operation
from .linearizability import STILL, State, Verdict, explains, linearize


@dataclass(frozen=True, slots=True)
class Witness:
    """A small history that no order explains."""

    operations: tuple[Operation, ...]
    start: State
    """The Task before the first of them."""
    verdict: Verdict
    aside: tuple[Operation, ...]
    """Operations of unknown outcome that do not explain it either, and need not be shown."""
    rule: str
    """C2 if mutators were lost, doubled or invented; C7 if only what was read runs backwards."""


_LIMIT = 5_000
"""How many places are looked at for one step; what takes longer is not taken away."""


def fails(history: Sequence[Operation], start: State) -> bool:
    """Whether it is certain that no order explains the history."""
    verdict = linearize(history, start, _LIMIT)
    return verdict.decided and not verdict.holds


def shrink(history: Sequence[Operation], start: State | None = None) -> Witness:
    """The smallest failing part of a history that does not hold."""
    first = State() if start is None else start
    rule = _rule(history, first)
    left = _shortest(sorted(history, key=lambda each: each.called), first)
    left, first = _later(left, first)
    left = _fewer(left, first)
    left, aside = _shown(left, first)
    return Witness(tuple(left), first, linearize(left, first, _LIMIT), tuple(aside), rule)


def _shortest(history: list[Operation], start: State) -> list[Operation]:
    """The history up to the first return that cannot be explained; found by halving.

    What cannot be explained by then cannot be explained later either.
    """
    moments = sorted(each.returned for each in history if each.returned is not None)
    low, high = 0, len(moments) - 1
    while low < high:
        middle = (low + high) // 2
        if fails(_until(history, moments[middle]), start):
            high = middle
        else:
            low = middle + 1
    return _until(history, moments[low])


def _until(history: list[Operation], moment: int) -> list[Operation]:
    return [
        each if each.returned is not None and each.returned <= moment else each.forgotten()
        for each in history
        if each.called <= moment
    ]


def _later(history: list[Operation], start: State) -> tuple[list[Operation], State]:
    """The history from the last moment on when nothing was going on, and the state was certain."""
    for cut in range(len(history) - 1, 0, -1):
        past, rest = history[:cut], history[cut:]
        if all(each.reads or each.effect in STILL for each in rest):
            continue  # somebody reading it will want to see what was lost
        if any(each.returned is None or each.returned > rest[0].called for each in past):
            continue
        states = _possible(past, start)
        if len(states) == 1 and fails(rest, next(iter(states))):
            return rest, next(iter(states))
    return history, start


def _possible(past: list[Operation], start: State) -> set[State]:
    """Every state that some order of a few operations, all of them known, may lead to."""
    ends: set[State] = set()
    met: set[tuple[int, State]] = set()
    stack = [(0, start)]
    whole = (1 << len(past)) - 1
    while stack:
        done, state = stack.pop()
        if (done, state) in met:
            continue
        met.add((done, state))
        if done == whole:
            ends.add(state)
        for index in _next(past, done):
            stack += [(done | 1 << index, after) for after in explains(state, past[index])]
    return ends


def _next(past: list[Operation], done: int) -> Iterator[int]:
    left = [index for index in range(len(past)) if not done >> index & 1]
    for index in left:
        if all((past[each].returned or 0) > past[index].called for each in left):
            yield index


def _fewer(history: list[Operation], start: State) -> list[Operation]:
    """Without what left the Task as it was and is not needed to fail; the latest goes first."""
    for index in range(len(history) - 1, -1, -1):
        shorter = history[:index] + history[index + 1 :]
        if _droppable(history[index]) and fails(shorter, start):
            history = shorter
    return history


def _shown(history: list[Operation], start: State) -> tuple[list[Operation], list[Operation]]:
    """What need be shown, and what does not help to explain any of it, whatever came of it."""
    aside: list[Operation] = []
    for each in reversed(history):
        if each.effect == "transition" or each.reads:
            continue
        others = [other for other in history if other is not each]
        vague = [*aside, each.forgotten()]
        whole = linearize([*others, *vague], start, _LIMIT)
        less = linearize(others, start, _LIMIT)
        certain = whole.decided and less.decided and not whole.holds
        if certain and _known(less.order) >= _known(whole.order):
            history, aside = others, vague
    return history, aside


def _known(order: Sequence[Operation]) -> int:
    return sum(each.returned is not None for each in order)


def _droppable(operation: Operation) -> bool:
    """Whether it left the Task as it was, so that no other can depend on it."""
    if operation.returned is None:
        return operation.reads
    return operation.effect in STILL


def _rule(history: Sequence[Operation], start: State) -> str:
    """C2 if what the mutators were told cannot be explained together with the last read."""
    reads = sorted((each for each in history if each.reads), key=lambda each: each.called)
    last = [each for each in history if not each.reads] + reads[-1:]
    return "C2" if fails(last, start) else "C7"
