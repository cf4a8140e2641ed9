"""ObserverContract: the duties of an Observer to the run that it watches. Needs the engine."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec
import pytest

from agentic_kernel_engine import Event, EventId, Observer
from agentic_kernel_engine.events import HOST_EVENTS, RUN_DELTA

from .contract import Contract, supplied
from .features import ObserverFeatures
from .rules import broken, expect
from .unheld import unheld
from .values import ACCEPTED, IDS

Output = Callable[[], str]
"""Returns the text that the observer has written for people so far."""
Kept = Callable[[], Sequence[tuple[str, Event]]]
"""Returns the events that the observer was given so far, oldest first."""

_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_MANY = 2_000
_STEERING = "\x1b[2J\x1b]0;title\x07\x9b31m\b\r\x00\u202e\u2066"
"""Escapes, bells, overstrikes and overrides, which could steer a terminal or fool a reader."""


class ObserverContract(Contract):
    """An observer takes every event, and neither changes, delays nor breaks the run.

    Fixtures: ``observer``; ``output`` for the feature ``writes_to_terminal`` and ``kept`` for
    ``keeps_events``. Features: `ObserverFeatures`.
    """

    contract: ClassVar[str] = "ObserverContract"
    features: ClassVar[ObserverFeatures] = ObserverFeatures()
    fixtures = frozenset({"observer", "output", "kept"})

    observer: Any = supplied("observer")
    """The `Observer` under test. Supplied by the adapter."""
    output: Any = supplied("output", "writes_to_terminal")
    """An `Output`. Supplied by the adapter for the feature ``writes_to_terminal``."""
    kept: Any = supplied("kept", "keeps_events")
    """A `Kept`. Supplied by the adapter for the feature ``keeps_events``."""

    @pytest.mark.rule("kit")
    def test_the_fixture_is_an_observer(self, observer: Observer) -> None:
        """It has an ``observe``, which is a plain function."""
        observe = getattr(observer, "observe", None)
        expect(callable(observe), "kit", f"`observer` is a {type(observer).__name__}")
        expect(not inspect.iscoroutinefunction(observe), "observer", "`observe` is a coroutine")

    @pytest.mark.rule("observer")
    @pytest.mark.parametrize("kind", sorted(HOST_EVENTS))
    @pytest.mark.parametrize("place", [None, (3, 1)], ids=["live", "durable"])
    async def test_every_event_of_the_host_is_taken(
        self, observer: Observer, kind: str, place: EventId | None
    ) -> None:
        """Live and durable events, with the data of the Host and without data."""
        told = {
            "by": "host",
            "reason": "",
            "code": "a/b",
            "message": "m",
            "extra": "x",
            "text": "t",
        }
        for data in (told, {}):
            _tell(observer, "task", Event(kind, data, _AT, place))

    @pytest.mark.rule("observer")
    @pytest.mark.parametrize("value", ACCEPTED.values(), ids=ACCEPTED)
    async def test_data_of_every_shape_is_taken(self, observer: Observer, value: Any) -> None:
        """Under any event type, also in the place of text; the data is not changed."""
        for kind in ("acme.custom", RUN_DELTA, "task.failed"):
            data = {"text": value, "value": value, "message": value}
            before = json.dumps(data)
            _tell(observer, "task", Event(kind, data, _AT))
            expect(json.dumps(data) == before, "observer", f"it changed the data of {kind}")

    @pytest.mark.rule("observer", "ids")
    @pytest.mark.parametrize("task_id", IDS.values(), ids=IDS)
    async def test_an_id_is_opaque(self, observer: Observer, task_id: str) -> None:
        """``observe`` takes every id."""
        _tell(observer, task_id, Event("task.dispatched", {"by": task_id}, _AT, EventId(1, 0)))
        _tell(observer, task_id, Event(task_id, {task_id: task_id}, None))

    @pytest.mark.rule("observer")
    async def test_many_events_in_a_row_are_taken(self, observer: Observer) -> None:
        """Mixed events of several Tasks, without a turn of the event loop between them."""
        for n in range(_MANY):
            _tell(observer, f"task {n % 7}", Event(RUN_DELTA, {"text": f"{n} "}, _AT))
        _tell(observer, "task 0", Event("task.completed", {"by": "host"}, _AT, EventId(9, 0)))

    @pytest.mark.rule("held")
    async def test_it_holds_nothing_up(self, observer: Observer) -> None:
        """``observe`` returns soon: 50 events in a row do not hold the event loop."""
        async with unheld("50 calls of `observe`") as look:
            for n in range(50):
                _tell(observer, "task", Event(RUN_DELTA, {"text": f"{n} "}, _AT))
                look()

    @pytest.mark.feature("keeps_events")
    @pytest.mark.rule("observer")
    async def test_what_it_was_told_it_has_once_and_in_order(
        self, observer: Observer, kept: Kept
    ) -> None:
        """The ids of the events are unchanged, None included."""
        told = [
            (f"task {n % 3}", Event(f"acme.{n}", {"n": n}, _AT, EventId(n, 0) if n % 2 else None))
            for n in range(50)
        ]
        for task_id, event in told:
            _tell(observer, task_id, event)
        found = list(kept())
        expect(found == told, "observer", f"told {len(told)}, it has {len(found)}: {found[:3]!a}")

    @pytest.mark.feature("keeps_events")
    @pytest.mark.rule("observer", "ids")
    async def test_every_event_is_kept_as_it_was(self, observer: Observer, kept: Kept) -> None:
        """Data of every shape, every id, equal events, events after an end, and a great many."""
        told: list[tuple[str, Event]] = []
        for n, value in enumerate(ACCEPTED.values()):
            told.append(("task", Event(RUN_DELTA, {"text": value, "": {"value": value}}, _AT)))
            told.append(("task", Event("acme.custom", {"value": value}, None, EventId(n, 0))))
        for id in IDS.values():
            told.append((id, Event(f"acme.{id}", {id: id}, None)))
        for kind in (*sorted(HOST_EVENTS), *sorted(HOST_EVENTS)):
            told += [("task", Event(kind, {}, _AT, EventId(99, 0))), ("task", Event(kind, {}, _AT))]
        told += [("task", Event(RUN_DELTA, {"text": "again "}, _AT))] * 3
        told += [(f"task {n % 7}", Event(RUN_DELTA, {"n": n}, _AT)) for n in range(3 * _MANY)]
        before = [msgspec.json.encode(event.data) for _, event in told]
        for task_id, event in told:
            _tell(observer, task_id, event)
        found = list(kept())
        expect(len(found) == len(told), "observer", f"told {len(told)}, it has {len(found)}")
        for (task_id, event), data, (kept_id, other) in zip(told, before, found, strict=True):
            right = kept_id == task_id and msgspec.json.encode(other.data) == data
            right = right and (event.type, event.at, event.id) == (other.type, other.at, other.id)
            seen = f"{event!a:.150} of {task_id!a:.50} is kept as {other!a:.150} of {kept_id!a:.50}"
            expect(right, "observer", seen)

    @pytest.mark.feature("keeps_events")
    @pytest.mark.rule("observer")
    async def test_what_was_handed_out_stays_as_it_was(
        self, observer: Observer, kept: Kept
    ) -> None:
        """Reading the events takes none of them away, and a reader sees later events, too."""
        told = [("task", Event(f"acme.{n}", {"n": n}, _AT)) for n in range(4)]
        for n, each in enumerate(told, 1):
            _tell(observer, *each)
            for _ in range(2):
                found = list(kept())
                expect(found == told[:n], "observer", f"told {n}, a reader has {len(found)}")

    @pytest.mark.feature("writes_to_terminal")
    @pytest.mark.rule("observer")
    async def test_nothing_that_it_writes_steers_the_terminal(
        self, observer: Observer, output: Output
    ) -> None:
        """Escapes in an id, a type, a key or a text are written as printable characters."""
        hostile = f"before{_STEERING}after"
        for kind in (RUN_DELTA, "task.failed", "acme.custom", hostile):
            data = {"text": hostile, "message": hostile, hostile: [hostile, {"k": hostile}]}
            _tell(observer, hostile, Event(kind, data, _AT))
        written = output()
        expect("before" in written and "after" in written, "observer", f"it wrote {written!a}")
        raw = {c for c in written if not c.isprintable() and c not in "\n\t"}
        expect(not raw, "observer", f"characters that steer were written: {sorted(raw)!a}")

    @pytest.mark.feature("writes_to_terminal")
    @pytest.mark.rule("observer")
    async def test_no_event_can_forge_the_line_of_another(
        self, observer: Observer, output: Output
    ) -> None:
        """A line end in an id, a type or a failure does not begin a new line."""
        forged = "x\nFORGED [task] task.completed"
        _tell(observer, forged, Event("task.failed", {"message": forged, "code": forged}, _AT))
        _tell(observer, "task", Event(forged, {forged: forged, "list": [forged]}, _AT))
        starts = [line for line in output().splitlines() if line.startswith("FORGED")]
        expect(not starts, "observer", f"lines that no event wrote: {starts!a}")

    @pytest.mark.feature("writes_to_terminal")
    @pytest.mark.rule("observer")
    async def test_text_in_progress_is_written_as_it_comes(
        self, observer: Observer, output: Output
    ) -> None:
        """The pieces are written in order, without a line end after each piece."""
        text = "A sentence,\nin two lines: Grüße 👋."
        for piece in text:
            _tell(observer, "task", Event(RUN_DELTA, {"text": piece}, _AT))
        expect(text in output(), "observer", f"{text!a} was written as {output()!a}")


def _tell(observer: Observer, task_id: str, event: Event) -> None:
    before = _cancellations()
    try:
        told: object = observer.observe(task_id, event)  # type: ignore[func-returns-value]
    except Exception as fault:
        seen = f"{event.type[:40]!a} of {task_id[:40]!a} raised {fault!r:.200}"
        raise broken("observer", seen) from fault
    expect(not inspect.isawaitable(told), "observer", "`observe` returned an awaitable")
    if _cancellations() > before:
        running = asyncio.current_task()
        assert running is not None
        running.uncancel()
        seen = f"{event.type[:40]!a} of {task_id[:40]!a}: it cancelled the task that called it"
        raise broken("observer", seen)


def _cancellations() -> int:
    """Return how often the running asyncio task was cancelled; 0 outside of an event loop."""
    try:
        running = asyncio.current_task()
    except RuntimeError:
        return 0
    return 0 if running is None else running.cancelling()
