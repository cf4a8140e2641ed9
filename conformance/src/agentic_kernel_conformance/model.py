"""The model: every state of one Task, with the facts that its Host hides, and every move.

Observers see the status. Four facts are hidden: a pause that was asked for and waits; the owner
(no Host, a living one, or one that died); a write of the owner's run that is under way; and a
run that lost the Task and does not know it. `edges` enumerates all moves from the start. The
documentation draws them, and recorded traces are compared with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import NamedTuple

from agentic_kernel import Complete, Fail, Kill, Mutation, Pause, Resume, TaskStatus
from agentic_kernel.transitions import TABLE

_RUNNING, _PAUSED = TaskStatus.RUNNING, TaskStatus.PAUSED


class Owner(str, Enum):
    """The owner of a Task: the host whose run may write."""

    NOBODY = "nobody"
    ALIVE = "a living host"
    DEAD = "a dead host"


class Move(str, Enum):
    """A move of a Task; each but the last three is one commit."""

    DISPATCH = "dispatch"
    ASK = "a pause is asked for"
    WITHDRAW = "the pause is withdrawn"
    PAUSE = "paused from outside"
    HONOUR = "paused by its owner"
    RESUME = "resume"
    KILL = "kill"
    COMPLETE = "complete"
    FAIL = "fail"
    SUCCEED = "its run succeeds"
    BREAK = "its run fails"
    STEP = "its run commits"
    RELEASE = "its owner lets go"
    CLAIM = "claim"
    DROP = "a late result is dropped"
    POST = "a decision is posted"
    BEGIN = "a commit is under way"
    REFUSE = "a late write is refused"
    DIE = "its owner dies"


SILENT = frozenset({Move.BEGIN, Move.REFUSE, Move.DIE})
"""Moves that leave nothing in the store."""


class Point(NamedTuple):
    """One state of a Task, hidden facts included."""

    status: TaskStatus = TaskStatus.NOT_STARTED
    pause_waits: bool = False
    owner: Owner = Owner.NOBODY
    under_way: bool = False
    """The owner's run has sent a write that has not landed."""
    stale: bool = False
    """A run that lost the Task may still be going on, and may still send a write."""


def moves(point: Point) -> Iterator[tuple[Move, Point]]:
    """Yield each move that may come next, and the state after it."""
    if point.status is TaskStatus.NOT_STARTED:
        yield Move.DISPATCH, Point(_RUNNING, owner=Owner.ALIVE)
        return
    if point.stale:
        yield Move.REFUSE, point
    if point.status.terminal:
        return
    yield Move.POST, point
    if point.stale:
        yield Move.DROP, point
    if point.status is _PAUSED:
        running = point._replace(status=_leads(Resume, _PAUSED))
        yield Move.RESUME, running
        yield Move.RESUME, running._replace(owner=Owner.ALIVE)
        yield Move.KILL, point._replace(status=_leads(Kill, _PAUSED))
        return
    # If a running Task is taken from its owner, the owner's run goes on and does not know it.
    lost = Point(_RUNNING, stale=point.stale or point.owner is not Owner.NOBODY)
    yield Move.KILL, lost._replace(status=_leads(Kill, _RUNNING))
    yield Move.COMPLETE, lost._replace(status=_leads(Complete, _RUNNING))
    yield Move.FAIL, lost._replace(status=_leads(Fail, _RUNNING))
    if point.pause_waits:
        yield Move.WITHDRAW, point._replace(pause_waits=False)
    elif point.owner is Owner.ALIVE:
        yield Move.ASK, point._replace(pause_waits=True)
    if point.owner is not Owner.ALIVE:
        yield Move.PAUSE, lost._replace(status=_leads(Pause, _RUNNING))
        yield Move.CLAIM, lost._replace(owner=Owner.ALIVE, pause_waits=point.pause_waits)
    if point.owner is not Owner.NOBODY:
        yield from _owned(point)


def _owned(point: Point) -> Iterator[tuple[Move, Point]]:
    """Yield the moves of the owner's run; a dead owner's run may go on until it is replaced."""
    free = Point(_RUNNING, stale=point.stale)
    unwinding = Point(_RUNNING, stale=True)  # it may swallow its cancellation
    if point.owner is Owner.ALIVE:
        yield Move.DIE, point._replace(owner=Owner.DEAD)
    if not point.under_way:
        yield Move.BEGIN, point._replace(under_way=True)
    yield Move.STEP, point._replace(under_way=False)
    yield Move.SUCCEED, free._replace(status=_leads(Complete, _RUNNING))
    yield Move.BREAK, free._replace(status=_leads(Fail, _RUNNING))
    yield Move.HONOUR, unwinding._replace(status=_leads(Pause, _RUNNING))
    if not point.pause_waits:
        yield Move.RELEASE, unwinding


class Edge(NamedTuple):
    """One move between two states."""

    before: Point
    move: Move
    after: Point


@cache
def edges() -> tuple[Edge, ...]:
    """Return every move between reachable states, in the order in which they are reached."""
    start = Point()
    found: list[Edge] = []
    met, waiting = {start}, deque([start])
    while waiting:
        before = waiting.popleft()
        for move, after in moves(before):
            found.append(Edge(before, move, after))
            if after not in met:
                met.add(after)
                waiting.append(after)
    return tuple(found)


@cache
def points() -> frozenset[Point]:
    """Return every reachable state."""
    return frozenset({Point()} | {edge.after for edge in edges()})


def seen_edges() -> tuple[tuple[TaskStatus, Move, TaskStatus], ...]:
    """Return the moves that change the status that observers see, each once."""
    visible = ((edge.before.status, edge.move, edge.after.status) for edge in edges())
    return tuple(dict.fromkeys(edge for edge in visible if edge[0] is not edge[2]))


def illegal(point: Point) -> str:
    """Return the defect of a state that must never be reached, or "" for a legal state."""
    if point.status is not _RUNNING and point.owner is not Owner.NOBODY:
        return f"{point.status} and owned by {point.owner.value}"
    if point.pause_waits and point.owner is Owner.NOBODY:
        return "a pause waits and there is nobody to honour it"
    if point.under_way and point.owner is Owner.NOBODY:
        return "a write is under way and there is no owner"
    return ""


def _leads(mutation: type[Mutation], status: TaskStatus) -> TaskStatus:
    target = TABLE[mutation][status]
    assert isinstance(target, TaskStatus)
    return target
