"""LoopRun: one stretch of running, as the Loop holds it between two commits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agentic_kernel import Task

from .. import events as host
from ..events import Checked, Event
from ..faults import report
from ..host.job import Job
from ..plans import vocabulary
from ..plans.limits import Limits, Remaining, remaining
from ..plans.plan import Plan
from ..plans.reasons import STOP_REASON, WAITING_FOR, StopReason
from ..plans.transcript import Transcript, UserMessage, read
from .state import VERSION, AtHand, State, dump, load

if TYPE_CHECKING:
    from ..plans.ending import End
    from ..seams.memory import Scope
    from ..tools.registry import ToolRegistry

Clock = Callable[[], float]
"""Seconds on a clock that never runs backwards."""
PROGRESS: Final = 1_000_000
"""How much the tools of a step may report between two commits, in bytes of JSON."""
_IF_PAUSED: Final = {STOP_REASON: StopReason.INTERRUPT.value}


class LoopRun:
    """A job, its state, and what the next commit will say.

    Args:
        job: What the Host gave.
        limits: As configured; those that were changed on the running Task are applied on top.
        clock: Measures how long the run works.
        compacts: Whether its transcript is ever compacted; where it may be cut is noted then.
    """

    __slots__ = (
        "_base",
        "_began",
        "_clock",
        "_compacts",
        "after",
        "consumed",
        "ending",
        "events",
        "instructions",
        "job",
        "limits",
        "one_step",
        "opening",
        "outcome_unknown",
        "progress_room",
        "refused",
        "scope",
        "state",
        "task",
        "tools",
        "transcript",
    )  # fmt: skip

    def __init__(self, job: Job, limits: Limits, clock: Clock, *, compacts: bool) -> None:
        self.job = job
        self.task: Task = job.task
        self.state = State(VERSION) if job.state is None else load(job.state)
        self.opening = UserMessage(self.task.instructions)
        self.transcript = Transcript([self.opening])
        self.events: list[Checked] | tuple[()] = ()
        """Of the step so far, in order."""
        self.consumed: tuple[int, ...] = ()
        """Decisions that the next commit acts on."""
        self.one_step = False
        """Whether to pause after this step."""
        self.ending: Any = None
        """An `End` that is due once this step is on record."""
        self.after: Callable[[], Awaitable[None]] | None = None
        """What pauses the Task once this step is on record."""
        self.tools: ToolRegistry
        """What may be called, before the policy's `visible`; set at entry."""
        self.instructions: Sequence[str] = ()
        """Of the capabilities of the Task's Agent."""
        self.scope: Scope | None = None
        """Where the Task's memory is, once it was asked for."""
        self.refused = ""
        """Why nothing of the planner's answer is done, for the planner; "" if that is not so."""
        self.progress_room = PROGRESS
        """How much tools may still report during this step, in bytes."""
        self.outcome_unknown = False
        """Whether what this step's calls did is not known, because of a crash."""
        self._base = limits
        self.limits = limits.changed(self.state.limits) if self.state.limits else limits
        self._clock = clock
        self._compacts = compacts
        self._began = clock()

    async def enter(self) -> bool:
        """Read the history behind the cursor, once (R15); settle the last reservation (R17).

        A reservation counts as spent if the call may have been made: not if the commit that
        carries it is the one that let the Task go. The next commit, whichever it is, no longer says
        that the Task waits or why it paused; what the run still waits for, it asks for again.

        Returns:
            Whether this is the first entry of all.
        """
        state = self.state
        if self.job.fresh:
            return True
        if self.task.metadata.get(STOP_REASON) is not None:
            self.job.note(STOP_REASON, None)
        history = await self.job.history(state.cursor)
        self.transcript = read(history, [self.opening])
        if self.job.state is None:
            return True
        if state.waiting is not None:
            self.job.note(WAITING_FOR, None)
        if state.reserved is not None and not _let_go(history):
            state.spent.iterations += 1
            state.spent.bank(state.reserved)
            self.record(vocabulary.RUN_ENTERED, forfeited=msgspec.to_builtins(state.reserved))
            state.reserved = None
        return False

    def record(self, type: str, **data: Any) -> None:
        """Say something with the next commit."""
        if self.events:
            self.events.append(Checked(type, data))
        else:
            self.events = [Checked(type, data)]

    def planned(self, plan: Plan, form: msgspec.Raw) -> AtHand:
        """Take a plan in hand: what it used up takes the place of what was reserved (R17).

        Args:
            form: The JSON form that goes on record.

        Raises:
            End: The run is over because of it.
        """
        state = self.state
        state.spent.iterations += 1
        state.spent.bank(plan.usage)
        state.reserved = None
        state.said = ""
        made = Checked(vocabulary.PLAN_MADE, form)
        self.events = [*self.events, made] if self.events else [made]
        if self.ending is not None:
            raise self.ending
        return AtHand(plan, [])

    def log(self, end: End) -> None:
        """Log the bug that ends the run, if one does, with the step in which it happened."""
        if end.fault is not None:
            report(end.fault, self.task.id, self.state.step, end.where)

    def tell(self, type: str, text: str, **data: Any) -> None:
        """The same, for something that the planner is to read."""
        self.record(type, text=text, **data)
        self.transcript += read([Event(type, {"text": text, **data})])

    @property
    def seconds(self) -> float:
        """How long the run has worked, pauses not counted."""
        return self.state.spent.seconds + self._clock() - self._began

    @property
    def out_of_time(self) -> bool:
        """Whether the run has worked for as long as it may."""
        limit = self.limits.max_seconds
        return limit is not None and self.seconds >= limit

    @property
    def remaining(self) -> Remaining:
        """What is left of the limits."""
        limits = self.limits
        seconds = 0.0 if limits.max_seconds is None else self.seconds
        return remaining(limits, self.state.spent, seconds)

    def retune(self, changes: Mapping[str, Any]) -> None:
        """Change limits from now on, across pauses and crashes.

        Raises:
            InvalidValue: There is no such limit, or its value is none.
        """
        wanted = {**(self.state.limits or {}), **changes}
        self.limits = self._base.changed(wanted)
        self.state.limits = wanted

    async def commit(self) -> None:
        """Put on record what is about to happen, and go on."""
        events, consumed = self._settle()
        cursor = await self.job.commit(dump(self.state), events, consumed=consumed, progress=False)
        if self._compacts and self.state.at_hand is None:
            self.transcript.may_be_cut(cursor)

    async def checkpoint(self) -> None:
        """Put on record what came of it: a safe point; a pause that takes effect leaves its reason.

        A step that only found out what a crash has left unknown brings the Task no further.
        """
        events, consumed = self._settle()
        progress, self.outcome_unknown = not self.outcome_unknown, False
        cursor = await self.job.checkpoint(
            dump(self.state), events, consumed=consumed, if_paused=_IF_PAUSED, progress=progress
        )
        if self._compacts and self.state.at_hand is None:
            self.transcript.may_be_cut(cursor)

    async def pause(self, reason: str, due: Any = None) -> None:
        """The same, and pause."""
        events, consumed = self._settle()
        await self.job.pause(dump(self.state), events, reason, consumed=consumed, due=due)

    def _settle(self) -> tuple[Sequence[Checked], Sequence[int]]:
        events, self.events = self.events, ()
        consumed, self.consumed = self.consumed, ()
        self.progress_room = PROGRESS
        now = self._clock()
        self.state.spent.seconds += now - self._began
        self._began = now
        return events, consumed


def _let_go(history: list[Event]) -> bool:
    """Whether the last commit of the run is the one that paused or released the Task."""
    version, let_go = 0, False
    for event in history:
        assert event.id is not None
        if event.type in vocabulary.LOOP_EVENTS:
            version, let_go = event.id[0], False
        elif event.type in (host.TASK_PAUSED, host.TASK_RELEASED):
            let_go = let_go or event.id[0] == version
    return let_go
