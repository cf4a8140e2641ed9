"""Linearizability: is there one order of the operations that explains what everybody was told?

The search is Wing and Gong's: take as the next operation any that was called before every
operation that is left had returned, see whether the model explains what its caller was told, and
go on; if nothing fits, go back. What has been done (a bit mask) and the model's state are
remembered, so that no place is searched twice. An operation of unknown outcome may come anywhere
after its call, or never. A resume whose caller was not told what it did, and whose extra is not
there in the end, can at most have withdrawn a pause.

The model is the kernel's table, reduced to what observers see, and one thing that they do not: a
pause that was asked for and waits for the run's next safe point. A request and the checkpoint that
honours it are two operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

from agentic_kernel import Complete, Dispatch, Fail, Kill, Pause, Resume, TaskStatus
from agentic_kernel.transitions import ILLEGAL, NO_OP, TABLE

from .history import ABSENT, ACCEPTED, REFUSED, UNKNOWN, Operation, View

_RUNNING = TaskStatus.RUNNING


class State(NamedTuple):
    """What the Task is between two operations."""

    view: View = ABSENT
    pause_waits: bool = False
    """A pause was asked for; it takes effect at the next safe point."""


Outcome = tuple[str, State]
"""An effect that a caller may be told, and the state that goes with it."""


def _dispatch(state: State, argument: Any) -> tuple[Outcome, ...]:
    lost = ("lost", state)
    target = TABLE[Dispatch][state.view[0]]
    if target is ILLEGAL:
        return lost, (REFUSED, state)
    return lost, ("transition", State((_status(target), (), "")))


def _pause(state: State, argument: Any) -> tuple[Outcome, ...]:
    """A transition at once where no living run owns the Task, else a request."""
    (told, after), *_ = _honour(state, argument)
    if told != "transition":
        return ((told, state),)
    return (told, after), ("requested", State(state.view, True))


def _honour(state: State, argument: Any) -> tuple[Outcome, ...]:
    """The transition itself, wherever it comes from."""
    status, supplements, _ = state.view
    target = TABLE[Pause][status]
    if target is ILLEGAL or target is NO_OP:
        return _stays(state, target)
    return (("transition", State((_status(target), supplements, ""))),)


def _resume(state: State, argument: Any) -> tuple[Outcome, ...]:
    status, supplements, _ = state.view
    target = TABLE[Resume][status]
    if status is TaskStatus.NOT_STARTED:
        return ((REFUSED, state),)
    if state.pause_waits:
        return (("withdrawn", State(state.view)),)
    if target is ILLEGAL or target is NO_OP:
        return _stays(state, target)
    extras = supplements if argument is None else (*supplements, argument)
    return (("transition", State((_status(target), extras, ""))),)


def _withdraw(state: State, argument: Any) -> tuple[Outcome, ...]:
    """What is left of a resume that is known to have added nothing."""
    if state.pause_waits:
        return (("withdrawn", State(state.view)),)
    if state.view[0] in (TaskStatus.PAUSED, TaskStatus.NOT_STARTED):
        return ()
    return (("none", state),)


def _end(mutation: Any) -> Callable[[State, Any], tuple[Outcome, ...]]:
    def end(state: State, argument: Any) -> tuple[Outcome, ...]:
        status, supplements, _ = state.view
        target = TABLE[mutation][status]
        if status is TaskStatus.NOT_STARTED or target is ILLEGAL:
            return ((REFUSED, state),)
        if target is NO_OP:
            return (("none", state),)
        return (("transition", State((_status(target), supplements, argument or ""))),)

    return end


def _get(state: State, argument: Any) -> tuple[Outcome, ...]:
    return ((REFUSED if state.view[0] is TaskStatus.NOT_STARTED else "none", state),)


def _checkpoint(state: State, entry: Any) -> tuple[Outcome, ...]:
    """A run's safe point: it honours a pause that waits. ``entry``: the supplements it began with.

    Every entry after a pause has more of them than the one before, so they tell the runs apart.
    """
    lost = ("lost", state)
    if state.view[0] is not _RUNNING or state.view[1] != entry:
        return (lost,)
    if state.pause_waits:
        return lost, ("paused", State((TaskStatus.PAUSED, state.view[1], "")))
    return lost, ("kept", state)


def _commit(state: State, entry: Any) -> tuple[Outcome, ...]:
    """A run's commit between two safe points; nothing takes effect there."""
    mine = state.view[0] is _RUNNING and state.view[1] == entry
    return (("lost", state), ("kept", state)) if mine else (("lost", state),)


def _finish(state: State, argument: Any) -> tuple[Outcome, ...]:
    """A run's result, which ends the Task if it is still that run's."""
    entry, end = argument
    if state.view[0] is not _RUNNING or state.view[1] != entry:
        return (("lost", state),)
    return (("transition", State((TaskStatus.SUCCESS, state.view[1], end))),)


def _stays(state: State, target: TaskStatus | str) -> tuple[Outcome, ...]:
    return ((REFUSED if target is ILLEGAL else "none", state),)


def _status(target: TaskStatus | str) -> TaskStatus:
    assert isinstance(target, TaskStatus)
    return target


STILL = frozenset({"none", "kept", "lost", REFUSED})
"""What is told of operations that left the Task as it was."""

VERBS: dict[str, Callable[[State, Any], tuple[Outcome, ...]]] = {
    "dispatch": _dispatch,
    "pause": _pause,
    "resume": _resume,
    "withdraw": _withdraw,
    "kill": _end(Kill),
    "complete": _end(Complete),
    "fail": _end(Fail),
    "get": _get,
    "honour": _honour,
    "checkpoint": _checkpoint,
    "commit": _commit,
    "finish": _finish,
}
"""The outcomes of each verb in a state: what may be told, and what the Task is afterwards."""


def explains(state: State, operation: Operation) -> list[State]:
    """The states after an operation that was told what it was told; empty if it cannot be next."""
    told, view = operation.effect, operation.view
    return [
        after
        for effect, after in VERBS[operation.verb](state, operation.argument)
        if (told in (effect, UNKNOWN) or (told == ACCEPTED and effect != REFUSED))
        and (view is None or view == after.view)
    ]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the search found."""

    holds: bool
    decided: bool
    """Whether the search came to an end within its limit."""
    order: tuple[Operation, ...]
    """An order that explains all; if there is none, the longest that explains something."""
    state: State
    """The state at the end of that order."""


_Link = tuple[int, "_Link"] | None


LIMIT = 1_000_000
"""How many places a search looks at before it gives up; a history that holds takes some dozens."""


def linearize(
    history: Sequence[Operation], start: State | None = None, limit: int = LIMIT
) -> Verdict:
    """Search for an order of the operations that explains what every caller was told.

    Args:
        history: The operations on one Task.
        start: The state before the first of them; by default the Task is not dispatched yet.
        limit: How many places the search looks at.
    """
    operations = sorted(history, key=lambda operation: operation.called)
    calls = [operation.called for operation in operations]
    returns = [inf if o.returned is None else o.returned for o in operations]
    meant = _without_unseen(operations)
    twins = _twins(meant)
    total = len(operations)
    needed = sum(1 << i for i in range(total) if returns[i] != inf)
    first = State() if start is None else start
    best: tuple[int, _Link, State] = (-1, None, first)
    met: set[tuple[int, State]] = set()
    stack: list[tuple[int, State, _Link]] = [(0, first, None)]
    while stack and len(met) < limit:
        done, state, link = stack.pop()
        if (done, state) in met:
            continue
        met.add((done, state))
        branches: list[tuple[float, int, State]] = []
        index = (~done & (done + 1)).bit_length() - 1
        horizon = inf
        while index < total and calls[index] < horizon:
            bit = 1 << index
            if not done & bit:
                returned = returns[index]
                horizon = min(horizon, returned)
                if returned != inf:
                    after = explains(state, meant[index])
                    if after and meant[index].effect in STILL:
                        # What never changes anything may as well come now: start again after it.
                        done, link = done | bit, (index, link)
                        branches.clear()
                        index = (~done & (done + 1)).bit_length() - 1
                        horizon = inf
                        continue
                    branches += [(returned, index, each) for each in after]
                elif twins[index] < 0 or done >> twins[index] & 1:
                    after = explains(state, meant[index])
                    branches += [(returned, index, each) for each in after if each != state]
            index += 1
        explained = (done & needed).bit_count()
        if explained > best[0]:
            best = (explained, link, state)
            if done & needed == needed:
                break
        branches.sort(key=_by_return, reverse=True)
        stack += [(done | 1 << i, after, (i, link)) for _, i, after in branches]
    explained, link, state = best
    order = tuple(operations[i] for i in reversed(_chain(link)))
    holds = explained == needed.bit_count()
    return Verdict(holds, holds or not stack, order, state)


def _by_return(branch: tuple[float, int, State]) -> float:
    return branch[0]


def _chain(link: _Link) -> list[int]:
    chain = []
    while link is not None:
        index, link = link
        chain.append(index)
    return chain


def _without_unseen(operations: Sequence[Operation]) -> Sequence[Operation]:
    """The same, with what is left of resumes whose extras never came.

    That they did not is known if the last operation began when all that returned had returned,
    and its caller saw the Task: supplements are never taken away. Such a resume met no paused
    Task; where no request is on record, it had nothing to withdraw either, and changed nothing.
    """
    last = operations[-1] if operations else None
    if last is None or last.view is None:
        return operations
    if any(o.returned is not None and o.returned > last.called for o in operations[:-1]):
        return operations
    there = {None, *last.view[1]}
    accepted = ACCEPTED if any(o.verb == "pause" for o in operations) else "none"
    return [
        replace(o, verb="withdraw", argument=None, effect=o.effect and accepted)
        if o.verb == "resume" and o.argument not in there and o.effect in (UNKNOWN, ACCEPTED)
        else o
        for o in operations
    ]


def _twins(operations: Sequence[Operation]) -> list[int]:
    """For each operation of unknown outcome the last one before it that is just the same.

    Of such twins the earlier may come wherever the later may, so the later one waits for it.
    """
    last: dict[Any, int] = {}
    twins = []
    for index, operation in enumerate(operations):
        key = operation.verb, repr(operation.argument)
        twins.append(-1 if operation.returned is not None else last.get(key, -1))
        if operation.returned is None:
            last[key] = index
    return twins
