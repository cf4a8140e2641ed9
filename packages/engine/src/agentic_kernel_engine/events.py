"""Events of a Task, in order, and the event types that the Host itself uses.

A substrate's own events may have any other type, by convention ``<impl>.<what>``. A step that a
crash interrupted, and whose outcome is unknown, is an event ``<impl>.indeterminate`` or
``<impl>/indeterminate``. Its data say which step it is, for a person.

Events are data, kept until their Task is pruned. An event that a Host's verb writes carries ``by``,
the Host, and the number of the ``act``: the two together identify one write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from agentic_kernel import Complete, Fail, InvalidValue, Mutation

from . import moments, values
from .cursor import Cursor, EventId
from .errors import StoreError

TASK_DISPATCHED: Final = "task.dispatched"
"""The Task entered ``running``. Data: ``by``."""
TASK_CLAIMED: Final = "task.claimed"
"""A host took over the Task of a dead owner, or took up a Task without an owner. Data: ``by``."""
TASK_PAUSE_REQUESTED: Final = "task.pause_requested"
"""A pause waits for the next safe point. Data: ``by``."""
TASK_PAUSE_WITHDRAWN: Final = "task.pause_withdrawn"
"""A resume came before the pause took effect. Data: ``by``."""
TASK_PAUSED: Final = "task.paused"
"""The Task entered ``paused``. Data: ``by``, ``reason``."""
TASK_RESUMED: Final = "task.resumed"
"""The Task entered ``running`` again. Data: ``by``, and ``extra`` if there is one."""
TASK_RELEASED: Final = "task.released"
"""The owner released the Task at a safe point; another run may claim it. Data: ``by``."""
TASK_COMPLETED: Final = "task.completed"
"""The Task ended in ``success``. Data: ``by``."""
TASK_FAILED: Final = "task.failed"
"""The Task ended in ``failure``. Data: ``by``, ``code``, ``message``."""
TASK_KILLED: Final = "task.killed"
"""The Task ended in ``cancelled``. Data: ``by``."""
TASK_DECISION_POSTED: Final = "task.decision_posted"
"""A decision waits in the inbox. Data: ``by``, ``decision`` (its type)."""
RESULT_DROPPED: Final = "run.result_dropped"
"""A run produced a result after it had lost the Task. Data: ``by``."""
RUN_ABANDONED: Final = "run.abandoned"
"""A run did not unwind in time and keeps its slot. Live only. Data: ``by``."""
RUN_BEGUN: Final = "run.begun"
"""A run of the Task begins on this Host, at its first entry or a later one. Live only; told only if
it names an Agent or a model. Data: ``agent``, ``model`` (the name by which requests ask for it)."""
RUN_DELTA: Final = "run.delta"
"""Text in progress. Data: ``text``; ``at``, the number of characters of the turn's text before it
on its channel; ``channel``, if it is not the answer itself. `texts.Texts` joins deltas to the text.
Deltas emitted one after the other are stored as one, and may be stored before the next commit of
the run. Versions before 0.2 wrote no ``at``."""
RUN_TURN: Final = "run.turn"
"""The text so far is a finished turn; deltas that follow begin a new text."""

HOST_EVENTS: Final = frozenset(
    {
        TASK_DISPATCHED,
        TASK_CLAIMED,
        TASK_PAUSE_REQUESTED,
        TASK_PAUSE_WITHDRAWN,
        TASK_PAUSED,
        TASK_RESUMED,
        TASK_RELEASED,
        TASK_COMPLETED,
        TASK_FAILED,
        TASK_KILLED,
        TASK_DECISION_POSTED,
        RESULT_DROPPED,
        RUN_ABANDONED,
        RUN_BEGUN,
        RUN_DELTA,
        RUN_TURN,
    }
)
"""Every type above, named one by one, because a stored name is never added by accident."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Event(msgspec.Struct, frozen=True):
    """One event of a Task."""

    type: str
    """The kind of the event, e.g. ``task.paused``."""
    data: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Details, as a JSON object."""
    at: datetime | None = None
    """The moment, in UTC; by the Host's clock if not given. An event to be emitted needs an aware
    moment from `moments.EARLIEST` to `moments.LATEST`."""
    id: EventId | None = None
    """The id once durable; None for an event that is only live so far."""


class TaskEvent(Event, frozen=True):
    """An event with the Task that it belongs to, as `Host.watch` gives it."""

    task_id: str = ""


class Checked(msgspec.Struct, gc=False):
    """An event that the engine builds itself; see `values.encode_checked`."""

    type: str
    data: Any
    """A mapping whose parts have a JSON form."""
    at: int = 0
    """Microseconds since 1970; `stored` sets it."""


def make(event: Any, at: datetime, path: str = "event") -> tuple[Event, bytes]:
    """Check an event; return it with its moment, and its stored form.

    Args:
        event: An `Event`, or a mapping: its ``type`` (``substrate.event`` if there is none)
            names the event and its other items are the data.

    Raises:
        InvalidValue: It is neither, or a part of it may not be stored.
    """
    if not isinstance(event, Event):
        if not isinstance(event, Mapping):
            raise InvalidValue(path, f"must be an Event or a mapping, not {type(event).__name__}")
        data = dict(values.mapping(event, path))
        event = Event(data.pop("type", "substrate.event"), data)
    if not isinstance(event.type, str) or not event.type:
        raise InvalidValue(f"{path}.type", "must be a non-empty string")
    kind = _type_text(event.type, f"{path}.type")
    text = values.encode(event.data, f"{path}.data")
    if not text.startswith(b"{"):
        raise InvalidValue(f"{path}.data", "must be a mapping")
    moment = at if event.at is None else moments.aware(f"{path}.at", event.at)
    line = b'{"type":%b,"at":%d,"data":%b}' % (kind, stamp(moment), text)
    return Event(event.type, event.data, moment), line


def stored(events: Sequence[Any], at: datetime) -> list[bytes]:
    """The stored forms of events that happened at one moment; see `make`.

    Raises:
        InvalidValue: One of the events may not be stored.
    """
    if not events:
        return []
    moment = stamp(at)
    others = False
    for event in events:
        if type(event) is Checked:
            event.at = moment
        else:
            others = True
    if not others:
        return values.encode_lines(events, "event")
    return [
        values.encode_checked(event, "event")
        if type(event) is Checked
        else make(event, at, f"events[{index}]")[1]
        for index, event in enumerate(events)
    ]


def by_act(type: str, data: Mapping[str, Any], act: int, at: datetime) -> bytes:
    """The stored form of a Host's event, with the number of the act that wrote it."""
    return stored([Checked(type, {**data, "act": act})], at)[0]


def stamp(at: datetime) -> int:
    """A moment in microseconds since 1970, as it is stored."""
    since = at - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


_FIRST: Final = stamp(moments.EARLIEST)
_LAST: Final = stamp(moments.LATEST)


@lru_cache(1_000)
def _type_text(type: str, path: str) -> bytes:
    """The JSON text of an event's type; most events have one of a few types."""
    return values.encode(type, path)


def ending(mutation: Mutation, by: str) -> Checked:
    """The event of a Task's end by ``complete``, ``fail`` or ``kill``."""
    if isinstance(mutation, Complete):
        return Checked(TASK_COMPLETED, {"by": by})
    if isinstance(mutation, Fail):
        failure = mutation.failure
        return Checked(TASK_FAILED, {"by": by, "code": failure.code, "message": failure.message})
    return Checked(TASK_KILLED, {"by": by})


class _Stored(msgspec.Struct, gc=False):
    type: str
    at: int
    data: dict[str, Any]


_decoder = msgspec.json.Decoder(_Stored)


_event_id = partial(tuple.__new__, EventId)
"""Makes an id of a store's plain tuple, without a call of a Python function."""


def from_stored(id: Cursor | None, text: bytes) -> Event:
    """Decode an event from its stored form.

    Version 0.1 stored moments too close to the end of the calendar. They are moved into the range
    of `moments`, so that every reader can show them in its time zone.

    Raises:
        StoreError: The text is damaged.
    """
    try:
        stored = _decoder.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as damage:
        raise StoreError(
            f"event {id} is damaged and cannot be read: {damage}; restore it from a copy"
        ) from None
    since = timedelta(microseconds=min(max(stored.at, _FIRST), _LAST))
    return Event(stored.type, stored.data, _EPOCH + since, None if id is None else _event_id(id))
