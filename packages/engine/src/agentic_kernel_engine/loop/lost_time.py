"""Lost time: the work of runs that were cut after their last commit, as far as events show it.

A commit stores the seconds until then (`Spent.seconds`). A run that its process's death or a
cancellation cuts has worked on after that. How long is not known if its process died, because that
may have been long before the take-over. Stored events show a part of it: text in progress was
flushed while the run worked (R20), and a Host that cancels a run releases its Task at that moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from .. import events as host
from ..events import Event
from ..plans import vocabulary

_BEGINNINGS: Final = frozenset({host.TASK_DISPATCHED, host.TASK_RESUMED, host.TASK_CLAIMED})
_DEPARTURES: Final = frozenset({host.TASK_PAUSED, host.TASK_RELEASED})
_EMITTED: Final = frozenset({host.RUN_TURN, vocabulary.TOOL_PROGRESS, vocabulary.TOOL_ABANDONED})
"""Events whose moment is earlier than that of the commit that stores them."""


def lost_seconds(history: Sequence[Event]) -> float:
    """The seconds that runs certainly worked after the last commit of the Task's state.

    It is the time from that commit, or from the entry of a later run, to the last event that shows
    the run at work. If several runs were cut since the commit, their times are added. Versions
    without an event mean a commit without events, whose moment is not known; so only the time
    between two events after it counts.

    Args:
        history: The Task's durable events up to the entry of the present run, in their order.
    """
    total, version = 0.0, 0
    first: datetime | None = None
    last: datetime | None = None
    for event in reversed(history):
        assert event.id is not None
        assert event.at is not None
        if event.id[0] < version - 1:
            break
        version = event.id[0]
        if event.type == host.RUN_DELTA or _was_cut(event):
            first, last = event.at, last or event.at
        elif event.type in _BEGINNINGS:
            total += _between(event.at, last)
            first = last = None
        elif _is_of_commit(event):
            if event.type not in _EMITTED:
                first = event.at
            break
    return total + _between(first, last)


def _was_cut(event: Event) -> bool:
    """True if a Host wrote it when it had cancelled a run: a verb writes it, in the run's name."""
    return (
        event.type in _DEPARTURES
        and "act" in event.data
        and str(event.data.get("by", "")).rpartition(":")[2].isdigit()
    )


def _is_of_commit(event: Event) -> bool:
    """True if a commit of the run wrote the event, with the state."""
    if event.type in _DEPARTURES:
        return "act" not in event.data
    return event.type == host.RUN_TURN or event.type not in host.HOST_EVENTS


def _between(first: datetime | None, last: datetime | None) -> float:
    # The clock may have been set back.
    return 0.0 if first is None or last is None else max((last - first).total_seconds(), 0.0)
