"""Execution: one stretch of running, as the Loop holds it between two commits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from agentic_kernel import Task

from .. import events as host
from ..events import Event, make_checked
from ..job import Job, Stored
from . import vocabulary
from .limits import Limits, Remaining, remaining
from .reasons import STOP_REASON, StopReason
from .state import State, dump, load
from .transcript import Entry, entries, opening

Clock = Callable[[], float]
"""Seconds on a clock that never runs backwards."""
_IF_PAUSED: Final = {STOP_REASON: StopReason.INTERRUPT.value}


class Execution:
    """A job, its state, and what the next commit will say.

    Args:
        job: What the Host gave.
        limits: As configured; those that were changed on the running Task are applied on top.
        clock: Measures how long the run works.
    """

    __slots__ = (
        "_base", "_began", "_clock", "after", "consumed", "ending", "events", "job", "limits",
        "one_step", "state", "task", "transcript",
    )  # fmt: skip

    def __init__(self, job: Job, limits: Limits, clock: Clock) -> None:
        self.job = job
        self.task: Task = job.task
        self.state = State() if job.state is None else load(job.state)
        self.transcript: list[Entry] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        """Of the step so far, in order."""
        self.consumed: list[int] = []
        """Decisions that the next commit acts on."""
        self.one_step = False
        """Whether to pause after this step."""
        self.ending: Any = None
        """An `End` that is due once this step is on record."""
        self.after: Callable[[], Awaitable[None]] | None = None
        """What pauses the Task once this step is on record."""
        self._base = limits
        self.limits = limits.changed(self.state.limits) if self.state.limits else limits
        self._clock = clock
        self._began = clock()

    async def enter(self) -> bool:
        """Read the history once (R15), and settle the last entry's reservation (R17).

        A reservation counts as spent if the call may have been made: not if the commit that
        carries it is the one that let the Task go.

        Returns:
            Whether this is the first entry of all.
        """
        state = self.state
        history = await self.job.history()
        self.transcript = [*opening(self.task), *entries(history)]
        if self.job.state is None:
            return True
        if state.reserved is not None and not _let_go(history):
            state.spent.iterations += 1
            state.spent.bank(state.reserved)
            self.record(vocabulary.RUN_ENTERED, forfeited=msgspec.to_builtins(state.reserved))
            state.reserved = None
        return False

    def record(self, type: str, **data: Any) -> None:
        """Say something with the next commit."""
        self.events.append((type, data))

    def tell(self, type: str, text: str, **data: Any) -> None:
        """The same, for something that the planner is to read."""
        self.record(type, text=text, **data)
        self.transcript += entries([Event(type, {"text": text, **data})])

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
        return remaining(self.limits, self.state.spent, self.seconds)

    def retune(self, changes: Mapping[str, Any]) -> None:
        """Change limits from now on, across pauses and crashes.

        Raises:
            InvalidValue: There is no such limit, or its value is none.
        """
        wanted = {**self.state.limits, **changes}
        self.limits = self._base.changed(wanted)
        self.state.limits = wanted

    async def commit(self) -> None:
        """Make what was said durable, and go on."""
        events, consumed = self._settle()
        await self.job.commit(dump(self.state), events, consumed=consumed)

    async def checkpoint(self) -> None:
        """The same at a safe point; a pause that takes effect there leaves its reason."""
        events, consumed = self._settle()
        await self.job.checkpoint(dump(self.state), events, consumed=consumed, if_paused=_IF_PAUSED)

    async def pause(self, reason: str, due: Any = None) -> None:
        """The same, and pause."""
        events, consumed = self._settle()
        await self.job.pause(dump(self.state), events, reason, consumed=consumed, due=due)

    def _settle(self) -> tuple[list[Stored], list[int]]:
        at = self.job.now
        events = [make_checked(kind, data, at) for kind, data in self.events]
        self.events.clear()
        consumed, self.consumed = self.consumed, []
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
