"""Durations: the time that a Task ran, without its pauses, from its events.

A run begins with the dispatch, a resume or a claim, and it lasts until the Task pauses, is released
or ends. A process that dies writes no event. So if another process claims or pauses the Task after
that, the run lasted at least until its last event. If it has no event but its beginning, the
history tells no time of it. If another process kills the Task, the run lasted until then, because
the history does not tell if its process was alive.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from agentic_kernel_engine import Event
from agentic_kernel_engine import events as host_events

_BEGINNINGS: Final = (
    host_events.TASK_DISPATCHED, host_events.TASK_RESUMED, host_events.TASK_CLAIMED,
)  # fmt: skip
_ENDS: Final = (
    host_events.TASK_PAUSED, host_events.TASK_RELEASED, host_events.TASK_COMPLETED,
    host_events.TASK_FAILED, host_events.TASK_KILLED,
)  # fmt: skip
_OTHERS: Final = (
    host_events.TASK_PAUSE_REQUESTED, host_events.TASK_PAUSE_WITHDRAWN,
    host_events.TASK_DECISION_POSTED, host_events.RESULT_DROPPED,
)  # fmt: skip
"""Events that do not show that the run is alive, because other processes or earlier runs write
them."""


class Duration:
    """Reads the events of one Task, and adds up the time that it ran."""

    def __init__(self) -> None:
        self._whole = False
        """True if the dispatch was read: the history is read from its beginning."""
        self._past = timedelta()
        self._begun: datetime | None = None
        self._seen: datetime | None = None
        """The moment of the last event of the run that is open."""
        self._runs = False
        """True if a process certainly ran the run that is open. A resume may wait for a Host."""
        self._died = False
        """True if the process of an earlier run died, at some moment after the last event."""

    def take(self, event: Event) -> None:
        """Read the next event."""
        if event.at is None:
            return
        if event.type in _BEGINNINGS:
            self._whole = self._whole or event.type == host_events.TASK_DISPATCHED
            self._end(event.at, alive=False)
            self._begun = self._seen = event.at
            self._runs = event.type != host_events.TASK_RESUMED
        elif event.type in _ENDS:
            # Another process pauses a Task only if no process runs it (R10).
            self._end(event.at, alive=event.type != host_events.TASK_PAUSED or _by_its_run(event))
        elif event.type not in _OTHERS:
            self._seen = event.at
            self._runs = True

    def seconds(self, until: datetime | None = None) -> float | None:
        """The seconds that the Task ran, or ran at least if a process died.

        None if these are not all of its events, or if they tell no time of a run that died.

        Args:
            until: The moment until which an open run counts; None if its process died.
        """
        if not self._whole:
            return None
        open_until = self._seen if until is None else until
        past = self._past if open_until is None else self._until(open_until, alive=True)
        return past.total_seconds() if past or self._exact(until) else None

    def told(self, until: datetime | None = None) -> str | None:
        """The same for people, such as ``4.2 s`` or ``at least 4.2 s``; None for at least 0.0 s."""
        seconds = self.seconds(until)
        if seconds is None:
            return None
        told = f"{seconds:.1f} s"
        if self._exact(until):
            return told
        return None if told == "0.0 s" else f"at least {told}"

    def _exact(self, until: datetime | None) -> bool:
        return not (self._died or (until is None and self._runs))

    def _end(self, at: datetime, *, alive: bool) -> None:
        """End the run that is open, if there is one."""
        self._died = self._died or (self._runs and not alive)
        self._past = self._until(at, alive=alive)
        self._begun, self._runs = None, False

    def _until(self, at: datetime, *, alive: bool) -> timedelta:
        """The time of all runs, if the open one lasted until then, or until its last event."""
        if self._begun is None or self._seen is None:
            return self._past
        # The clocks of two machines may differ, and a substrate chooses the moment of its events.
        end = at if alive else min(self._seen, at)
        return self._past + max(end - self._begun, timedelta())


def duration_in(events: Iterable[Event]) -> Duration:
    """The duration of a Task with this history."""
    found = Duration()
    for event in events:
        found.take(event)
    return found


def _by_its_run(event: Event) -> bool:
    """True if a run wrote the event: its name is that of a Host and a number."""
    return str(event.data.get("by", "")).rpartition(":")[2].isdigit()
