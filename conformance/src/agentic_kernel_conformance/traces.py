"""Traces: the durable events of a Task, compared with the model.

The events of a commit name its move. They do not show hidden facts, for example whether the owner
is alive. So a trace follows every possibility, and is refused when no possibility is left.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Event, Record
from agentic_kernel_engine import events as vocabulary
from agentic_kernel_engine.pause_request import pause_waits
from agentic_kernel_engine.record import host_of

from .history import View, seen, view_of
from .model import SILENT, Move, Owner, Point, moves
from .rules import broken, expect

_MOVES: Mapping[str, Move] = {
    vocabulary.TASK_DISPATCHED: Move.DISPATCH,
    vocabulary.TASK_CLAIMED: Move.CLAIM,
    vocabulary.TASK_PAUSE_REQUESTED: Move.ASK,
    vocabulary.TASK_PAUSE_WITHDRAWN: Move.WITHDRAW,
    vocabulary.TASK_PAUSED: Move.PAUSE,
    vocabulary.TASK_RESUMED: Move.RESUME,
    vocabulary.TASK_RELEASED: Move.RELEASE,
    vocabulary.TASK_COMPLETED: Move.COMPLETE,
    vocabulary.TASK_FAILED: Move.FAIL,
    vocabulary.TASK_KILLED: Move.KILL,
    vocabulary.TASK_DECISION_POSTED: Move.POST,
    vocabulary.RESULT_DROPPED: Move.DROP,
}
_BY_OWNER = {Move.PAUSE: Move.HONOUR, Move.COMPLETE: Move.SUCCEED, Move.FAIL: Move.BREAK}
_OF_OWNERS = frozenset({Move.HONOUR, Move.SUCCEED, Move.BREAK, Move.RELEASE})
_RULES = {Move.CLAIM: "R14", **dict.fromkeys((*_OF_OWNERS, Move.STEP), "R1")}


@dataclass(slots=True)
class Trace:
    """The events of a Task, followed through the model from its dispatch.

    Args:
        mortal: The hosts that may have died meanwhile; None if any host may have died.
    """

    mortal: Collection[str] | None = None
    points: frozenset[Point] = frozenset({Point()})
    """The states of the model that the Task may be in."""
    version: int = 0
    owner: str | None = None
    """The owner's name, or the host alone if the events do not give the version."""
    views: dict[int, tuple[TaskStatus, tuple[str, ...]]] = field(default_factory=dict)
    """The status and the supplements at each version."""

    def follow(self, events: Iterable[Event]) -> None:
        """Take the next events, commit by commit.

        Raises:
            RuleError: The model does not allow them.
        """
        for version, commit in groupby(events, lambda event: (event.id or (0, 0))[0]):
            while self.version + 1 < version:
                self._take(self.version + 1, Move.STEP, None)
            expect(version == self.version + 1, "R15", f"version {version} after {self.version}")
            self._commit(version, list(commit))

    def _commit(self, version: int, commit: Sequence[Event]) -> None:
        told = [event for event in commit if event.type in _MOVES]
        expect(len(told) < 2, "C2", f"one commit that is two: {[event.type for event in told]}")
        self._take(version, *((_MOVES[told[0].type], told[0]) if told else (Move.STEP, None)))

    def _take(self, version: int, move: Move, event: Event | None) -> None:
        by = "" if event is None else str(event.data.get("by"))
        status, supplements = self.views.get(self.version, (TaskStatus.NOT_STARTED, ()))
        if ":" in by and move is not Move.DISPATCH:
            move = _BY_OWNER.get(move, move)
            if move in _OF_OWNERS and by != self.owner:
                raise broken(
                    "R1", f"version {version}: {move.value}, by {by}; owned by {self.owner}"
                )
        allowed = _led_to(self._closed(), move)
        if not allowed:
            where = f"{status}, owned by {self.owner}" if status is TaskStatus.RUNNING else status
            rule = "R1" if status.terminal else _RULES.get(move, "C2")
            raise broken(rule, f"version {version}: {move.value!r}, and the Task is {where}")
        self._own(version, move, by)
        if event is not None and "extra" in event.data and move is Move.RESUME:
            supplements = (*supplements, event.data["extra"])
        self.version, self.points = version, allowed
        self.views[version] = next(iter(allowed)).status, supplements

    def _own(self, version: int, move: Move, by: str) -> None:
        if move is Move.DISPATCH:
            self.owner = by
        elif move in (Move.CLAIM, Move.RESUME):
            self.owner = f"{by}:{version}"
        elif move not in (Move.ASK, Move.WITHDRAW, Move.STEP, Move.POST, Move.DROP):
            self.owner = None

    def _closed(self) -> frozenset[Point]:
        """Return the states that silent moves may lead to: moves without a trace in the store."""
        mortal = self.mortal is None or (
            self.owner is not None and host_of(self.owner) in self.mortal
        )
        return _hidden(self.points, mortal)

    def expect_seen(self, version: int, view: View, rule: str = "C3") -> None:
        """Compare the view that a caller was given at a version with the events.

        Args:
            rule: The rule that is broken if they differ.

        Raises:
            RuleError: They differ.
        """
        if version not in self.views and version > self.version:
            self._take(version, Move.STEP, None)
        status, supplements = self.views.get(version, (TaskStatus.NOT_STARTED, ()))
        if (status, supplements) != view[:2]:
            told = seen((status, supplements, ""))
            raise broken(
                rule, f"version {version} was given as {seen(view)}; its events say {told}"
            )

    def expect_left(self, record: Record) -> None:
        """Compare the final record with the end of the trace.

        Raises:
            RuleError: The events lead to another record.
        """
        while self.version < record.version:
            self._take(self.version + 1, Move.STEP, None)
        expect(record.version == self.version, "R15", f"events go to version {self.version}")
        self.expect_seen(record.version, view_of(record.task))
        for point in self._closed():
            owned = point.owner is not Owner.NOBODY
            if point.pause_waits is pause_waits(record) and owned is (record.owner is not None):
                return
        raise broken("C2", f"{record.owner=}, inbox {record.inbox}: not where the events lead")


@cache
def _hidden(points: frozenset[Point], mortal: bool) -> frozenset[Point]:
    """Return the points, and all points that silent moves lead to from there."""
    met, waiting = set(points), list(points)
    while waiting:
        for move, after in moves(waiting.pop()):
            hidden = move in SILENT and (move is not Move.DIE or mortal)
            if hidden and after not in met:
                met.add(after)
                waiting.append(after)
    return frozenset(met)


@cache
def _led_to(points: frozenset[Point], move: Move) -> frozenset[Point]:
    """Return the points that the move leads to from any of the given points."""
    return frozenset(after for point in points for taken, after in moves(point) if taken is move)


def expect_steps(events: Iterable[Event], kind: str, record: Record) -> None:
    """Check the steps that runs left as events of one kind, with ``run`` and ``step`` as data.

    Steps only go up, the events of a run are contiguous, and the state is that of the last step.

    Raises:
        RuleError: A step was written twice, or by a replaced run, or is not in the state.
    """
    last, runs = 0, list[str]()
    for event in events:
        if event.type != kind:
            continue
        run, step = event.data["run"], event.data["step"]
        expect(step > last, "R5", f"step {step} of {run} after step {last}: written twice")
        if not runs or runs[-1] != run:
            expect(run not in runs, "R1", f"{run} writes after {runs[-1:]} replaced it")
            runs.append(run)
        last = step
    state = 0 if record.state is None else json.loads(record.state)
    expect(state == last, "R5", f"the state is that of step {state}, the events go to {last}")
