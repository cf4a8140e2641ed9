"""Shrinking: reduce a history that no order explains to a small part, and name the broken rule.

An order that explained the whole history would also explain each part made here. So a part that no
order explains is a witness against the whole. The steps: cut off the operations after a moment (an
operation that has not returned by then becomes unknown); cut off the operations before a moment
with only one possible state; drop operations that changed nothing; and set aside operations if
their outcome does not help to explain the rest.
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
    """The state of the Task before the first operation."""
    verdict: Verdict
    aside: tuple[Operation, ...]
    """Operations left out of the report: with unknown outcomes they do not explain it either."""
    rule: str
    """C2 if mutators were lost, doubled or invented; C7 if only the reads run backwards."""


_LIMIT = 5_000
"""The most places that one search visits; a step that needs more is not taken."""


def fails(history: Sequence[Operation], start: State) -> bool:
    """True if the search has proved that no order explains the history."""
    verdict = linearize(history, start, _LIMIT)
    return verdict.decided and not verdict.holds


def shrink(history: Sequence[Operation], start: State | None = None) -> Witness:
    """Return a small failing part of a history that no order explains."""
    first = State() if start is None else start
    rule = _rule(history, first)
    left = _shortest(sorted(history, key=lambda each: each.called), first)
    left, first = _later(left, first)
    left = _fewer(left, first)
    left, aside = _shown(left, first)
    return Witness(tuple(left), first, linearize(left, first, _LIMIT), tuple(aside), rule)


def _shortest(history: list[Operation], start: State) -> list[Operation]:
    """Return the history up to the first return that no order explains, by binary search.

    If no order explains the history up to a moment, no order explains a longer part either.
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
    """Return the failing rest after the last moment with one possible state, and that state.

    No operation may be under way at that moment.
    """
    for cut in range(len(history) - 1, 0, -1):
        past, rest = history[:cut], history[cut:]
        if all(each.reads or each.effect in STILL for each in rest):
            continue  # a reader of the report wants to see the change that was lost
        if any(each.returned is None or each.returned > rest[0].called for each in past):
            continue
        states = _possible(past, start)
        if len(states) == 1 and fails(rest, next(iter(states))):
            return rest, next(iter(states))
    return history, start


def _possible(past: list[Operation], start: State) -> set[State]:
    """Return every state that an order of these operations, all of known outcome, leads to."""
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
    """Drop operations that changed nothing and are not needed to fail, the latest first."""
    for index in range(len(history) - 1, -1, -1):
        shorter = history[:index] + history[index + 1 :]
        if _droppable(history[index]) and fails(shorter, start):
            history = shorter
    return history


def _shown(history: list[Operation], start: State) -> tuple[list[Operation], list[Operation]]:
    """Split the history into operations to show and operations that do not help to explain it."""
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
    """True if the operation left the Task as it was, so that no other one depends on it."""
    if operation.returned is None:
        return operation.reads
    return operation.effect in STILL


def _rule(history: Sequence[Operation], start: State) -> str:
    """Return C2 if no order explains the mutators with the last read alone, else C7."""
    reads = sorted((each for each in history if each.reads), key=lambda each: each.called)
    last = [each for each in history if not each.reads] + reads[-1:]
    return "C2" if fails(last, start) else "C7"
