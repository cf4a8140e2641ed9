"""Linearizability: searches for one order of the operations that explains every answer.

The search is Wing and Gong's. The next operation may be any that was called before the first
return of the remaining operations. If the model explains the answer to its caller, the search goes
on. If no operation fits, the search backtracks. The search remembers each pair of the operations
done (a bit mask) and the model's state, and visits no pair twice. An operation of unknown outcome
may take effect at any time after its call, or never. If the caller of a resume was not told its
effect, and the extra is not there in the end, the resume can at most have withdrawn a pause.

The model is the kernel's table, reduced to the facts that observers see, and one hidden fact: a
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
    """The state of the Task between two operations."""

    view: View = ABSENT
    pause_waits: bool = False
    """A pause was asked for; it takes effect at the next safe point."""


Outcome = tuple[str, State]
"""An effect that a caller may be told, and the state after it."""


def _dispatch(state: State, argument: Any) -> tuple[Outcome, ...]:
    lost = ("lost", state)
    target = TABLE[Dispatch][state.view[0]]
    if target is ILLEGAL:
        return lost, (REFUSED, state)
    return lost, ("transition", State((_status(target), (), "")))


def _pause(state: State, argument: Any) -> tuple[Outcome, ...]:
    """A transition if no living run owns the Task, otherwise a request; the model allows both."""
    (told, after), *_ = _honour(state, argument)
    if told != "transition":
        return ((told, state),)
    return (told, after), ("requested", State(state.view, True))


def _honour(state: State, argument: Any) -> tuple[Outcome, ...]:
    """The transition to ``paused``, from whatever cause."""
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
    """A resume that is known to have added no extra: it withdrew a pause, or did nothing."""
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
    """A run's safe point: it honours a pause that waits.

    ``entry`` is the supplements with which the run began. A run after a pause has more of them
    than the run before, so ``entry`` tells the runs apart.
    """
    lost = ("lost", state)
    if state.view[0] is not _RUNNING or state.view[1] != entry:
        return (lost,)
    if state.pause_waits:
        return lost, ("paused", State((TaskStatus.PAUSED, state.view[1], "")))
    return lost, ("kept", state)


def _commit(state: State, entry: Any) -> tuple[Outcome, ...]:
    """A run's commit between two safe points; a pause does not take effect there."""
    mine = state.view[0] is _RUNNING and state.view[1] == entry
    return (("lost", state), ("kept", state)) if mine else (("lost", state),)


def _finish(state: State, argument: Any) -> tuple[Outcome, ...]:
    """A run's result; it ends the Task if the run still owns the Task."""
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
"""The effects of operations that do not change the Task."""

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
"""The possible outcomes of each verb in a state."""


def explains(state: State, operation: Operation) -> list[State]:
    """Return the states that fit the operation's answer; empty if it cannot be the next one."""
    told, view = operation.effect, operation.view
    return [
        after
        for effect, after in VERBS[operation.verb](state, operation.argument)
        if (told in (effect, UNKNOWN) or (told == ACCEPTED and effect != REFUSED))
        and (view is None or view == after.view)
    ]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a search."""

    holds: bool
    decided: bool
    """True if the search ended within its limit."""
    order: tuple[Operation, ...]
    """An order that explains all answers; if there is none, the one that explains most."""
    state: State
    """The state at the end of that order."""


_Link = tuple[int, "_Link"] | None


LIMIT = 1_000_000
"""The most positions that a search visits; a history that holds takes some dozens."""


def linearize(
    history: Sequence[Operation], start: State | None = None, limit: int = LIMIT
) -> Verdict:
    """Search for an order of the operations that explains the answer to every caller.

    Args:
        history: The operations on one Task.
        start: The state before the first of them; by default the Task is not dispatched yet.
        limit: The most positions that the search visits.
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
                        # It changes nothing, so it may come now: start again after it.
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
    """Return the operations; each resume whose extra never came is replaced by a ``withdraw``.

    The last operation shows which extras came, if it was called after all other returns and its
    caller saw the Task, because supplements are never removed. Such a resume met no paused Task.
    If no pause is on record, it had no pause to withdraw either, and changed nothing.
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
    """Return for each operation of unknown outcome the index of its last twin before it, or -1.

    Twins have the same verb and argument. The earlier twin may come wherever the later one may,
    so the search takes the later one only after the earlier one.
    """
    last: dict[Any, int] = {}
    twins = []
    for index, operation in enumerate(operations):
        key = operation.verb, repr(operation.argument)
        twins.append(-1 if operation.returned is not None else last.get(key, -1))
        if operation.returned is None:
            last[key] = index
    return twins
