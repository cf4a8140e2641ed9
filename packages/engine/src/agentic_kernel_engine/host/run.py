"""Run: one stretch of running, from entry to its last commit, and the only writer meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agentic_kernel import (
    InvalidValue,
    Kill,
    Pause,
    Task,
    TaskNotFound,
    TaskStatus,
    annotate,
    apply,
)
from agentic_kernel.frozen import EMPTY_DICT, freeze
from agentic_kernel.transitions import check_note

from .. import edges, moments, values
from .. import events as vocabulary
from ..errors import Conflict, StoreError, UnknownOutcome
from ..events import Checked, Event
from ..record import Record
from ..store import EventId
from .change import LOOKS, acknowledged, landed
from .fifo import FifoLock

if TYPE_CHECKING:
    from ..receipt import Receipt
    from .job import EventLike
    from .runner import LiveRuns

PAUSE = "pause"
"""Type of the decision that asks for a pause at the next safe point."""
PIECE: Final = 1024 * 1024
"""How long one stored event of text in progress grows, in bytes; the text goes on in the next."""
IN_A_ROW: Final = 16
"""How many commits may follow each other, on a store that never waits, without a look at the rest
of the event loop."""
BUFFER: Final = 64 * 1024 * 1024
"""How much a run may emit and note until it commits, in bytes of JSON."""


class RunEnded(asyncio.CancelledError):
    """The run no longer owns its Task and is being unwound; let it through.

    Attributes:
        reason: ``paused``, ``released``, ``killed``, ``ended`` (from outside) or ``lost``.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Run(FifoLock):
    """The owner's hold on one Task: every write of the Job goes through here.

    One write at a time, by whoever holds it (R7). Each requires version, owner and ``running``
    (R1); when only the inbox moved, the write is made again on top of it; when the Task is no
    longer this run's, the run ends for good.
    """

    __slots__ = (
        "_emitted", "_home", "_hub", "_news", "_notes", "_sealed", "_unwritten", "delegates",
        "ended", "in_slot", "leaving", "owner", "record", "root", "task_id",
    )  # fmt: skip

    def __init__(self, home: LiveRuns, record: Record, *, in_slot: bool) -> None:
        super().__init__()
        assert record.owner is not None
        self._home = home
        self._hub = home.hub
        self.record = record
        self.task_id = record.task.id
        self.owner: str = record.owner
        self.in_slot = in_slot
        self.root: asyncio.Task[Any] | None = None
        self.ended: str | None = None
        self.leaving: str | None = None
        self.delegates = False
        """Whether it may have children in its slot."""
        self._news: asyncio.Future[None] | None = None
        self._emitted: Sequence[_Emitted | bytes] = ()
        self._sealed = 0
        self._notes: Mapping[str, Any] = EMPTY_DICT
        self._unwritten = 0
        """How many bytes were emitted and noted since the last commit."""

    @property
    def now(self) -> datetime:
        return self._hub.clock()

    @property
    def stopping(self) -> bool:
        return self.leaving is not None or pause_waits(self.record)

    def news(self) -> asyncio.Future[None]:
        """Done at the next `nudge`."""
        if self._news is None:
            self._news = asyncio.get_running_loop().create_future()
        return self._news

    def nudge(self) -> None:
        """Let those look again who wait for this run to be `stopping`, or for one another."""
        news, self._news = self._news, None
        if news is not None and not news.done():
            news.set_result(None)

    def leave(self, how: str) -> None:
        """Let go of the Task at the next safe point: ``paused`` or ``released``."""
        self.leaving = how
        self.nudge()

    def end(self, reason: str) -> None:
        """Unwind: the job is dead from now on, and its root task is cancelled (R7).

        The root task itself is not cancelled on top of the `RunEnded` that is about to be raised
        in it: a second cancellation would break the clean-up that the first one set off.
        """
        if self.ended is None:
            self.ended = reason
            if self.root is not None and not self.root.done():
                if self.root is not asyncio.current_task():
                    self.root.cancel(reason)
                self._home.unwinding(self)

    def __call__(self, root: asyncio.Task[Any]) -> None:
        """What `root` calls when it is done: the run itself, which needs no object more for it."""
        self._home.returned(self, root)

    def absorb(self, record: Record) -> None:
        """Take note of a later record; end the run if the Task is no longer its own."""
        if record.version < self.record.version:
            return
        if record.owner == self.owner:
            self.record = record
            self.nudge()
        elif record.task.status.terminal:
            self.end("killed" if record.task.status == "cancelled" else "ended")
        else:
            self.end("lost")

    def check_alive(self) -> None:
        if self.ended is not None:
            raise RunEnded(self.ended)

    def note(self, key: str, value: Any) -> None:
        self.check_alive()
        key = edges.text(key, "notes' key")
        path = f"notes[{edges.came(key)}]"
        text = values.encode(value, path)
        check_note(self.record.task, key)
        self._make_room(len(text), path)
        self._notes = freeze({**self._notes, key: value})

    def emit(self, event: EventLike) -> None:
        self.check_alive()
        now = self._hub.clock()
        made, text = vocabulary.make(event, now)
        self._make_room(len(text), "event")
        self._hub.tell(self.task_id, made)
        if made.type == vocabulary.RUN_DELTA:
            # What a commit in flight is writing is sealed: it must not grow any more.
            last = self._emitted[-1] if len(self._emitted) > self._sealed else None
            if not isinstance(last, _Emitted) or not last.extend(made, len(text)):
                self._emit(_Emitted(made, text))
        else:
            self._emit(text)

    def report(self, events: Sequence[Checked]) -> None:
        self.check_alive()
        lines = vocabulary.stored(events, self._hub.clock())
        if self._hub.observed:
            for line in lines:
                self._hub.tell_stored(self.task_id, None, line)
        self._emitted = [*self._emitted, *lines]

    def _make_room(self, size: int, path: str) -> None:
        """Count what is kept until the next commit; refuse what would be too much of it.

        Raises:
            InvalidValue: It would be.
        """
        if self._unwritten + size > BUFFER:
            raise InvalidValue(
                path,
                f"is {size:,} bytes on top of {self._unwritten:,} that were emitted or noted since "
                f"the last commit, over the limit of {BUFFER:,}; commit first",
            )
        self._unwritten += size

    def _emit(self, each: _Emitted | bytes) -> None:
        if isinstance(self._emitted, list):
            self._emitted.append(each)
        else:
            self._emitted = [*self._emitted, each]

    @property
    def notes(self) -> Mapping[str, Any]:
        return self._notes

    def emitted(self) -> list[bytes]:
        """What was emitted since the last commit, in its stored form."""
        return [each if isinstance(each, bytes) else each.stored() for each in self._emitted]

    async def history(self, after: EventId | None) -> list[Event]:
        self.check_alive()
        return await self._hub.history(self.task_id, after)

    async def read(self, task_id: str) -> tuple[Task, list[Event]]:
        self.check_alive()
        record = await self._hub.store.load(task_id)
        return record.task, await self._hub.history(task_id)

    async def spawn(self, task: Task) -> Receipt:
        self.check_alive()
        self._home.control.check_start(task)
        return await self._hub.owned.run(self._home.control.family.spawn(task, self))

    async def cancel(self, task_id: str) -> Task:
        await self._own(task_id)
        killed = await self._hub.owned.run(self._home.control.end(task_id, Kill()))
        return killed.snapshot

    async def join(self, task_id: str, *statuses: TaskStatus) -> Task:
        await self._own(task_id)
        return await self._hub.wait(task_id, statuses)

    async def tell(self, task_id: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        if not isinstance(decisions, (list, tuple)) or not decisions:
            raise InvalidValue("decisions", "must be a list of at least one decision")
        # Plain copies: foreign mappings are read here, where what they raise fails the run.
        plain = []
        for index, decision in enumerate(decisions):
            path = f"decisions[{index}]"
            plain.append(values.decode(values.encode(values.mapping(decision, path), path)))
        await self._own(task_id)
        await self._hub.owned.run(self._home.control.family.tell(task_id, plain))

    async def _own(self, task_id: str) -> None:
        """Make sure that a Task is a child of this run's.

        Raises:
            TaskNotFound: It is not, or is not there.
        """
        self.check_alive()
        if (await self._hub.store.load(task_id)).parent != self.task_id:
            raise TaskNotFound(task_id)
        self.delegates = True

    async def commit(
        self,
        state: Any,
        events: Sequence[EventLike | Checked],
        consumed: Collection[int],
        *,
        safe: bool,
        pause: str | None = None,
        due: datetime | None = None,
        if_paused: Mapping[str, Any] | None = None,
        progress: bool = True,
    ) -> EventId:
        self.check_alive()
        if due is not None:
            due = moments.aware("due", due)
        text = values.encode(state, "state")
        now = self._hub.clock()
        made = vocabulary.stored(events, now)
        kept = None if text == b"null" else text
        draft = _Draft(kept, consumed, safe, pause, now, due, if_paused, progress)
        await self.hold()
        try:
            self._sealed = len(self._emitted)
            leaving, last = await self._land(draft, made)
        finally:
            self._sealed = 0
            self.let_go()
        if leaving is not None:
            self.end(leaving)
            raise RunEnded(leaving)
        hub = self._hub
        hub.in_a_row += 1
        if hub.in_a_row > IN_A_ROW and hub.immediate:
            # A substrate that never waits would keep the event loop for good.
            hub.in_a_row = 0
            await asyncio.sleep(0)
        return last

    async def _land(self, draft: _Draft, made: list[bytes]) -> tuple[str | None, EventId]:
        """Commit the draft on top of whatever the inbox became.

        Returns:
            How the run leaves, if it does; and a cursor behind all that was written.
        """
        store, live, notes = self._hub.store, self._sealed, self._notes
        made = [*self.emitted(), *made] if live else made
        for _ in range(LOOKS):
            if self.ended is not None:
                raise RunEnded(self.ended)
            before = self.record
            after, leaving, departure = self._next(before, draft, notes)
            written = made if departure is None else [*made, departure]
            try:
                await store.commit(before, after, written)
            except Conflict as refused:
                await self._look(refused.latest)
                if self.record is before and self.ended is None:
                    await acknowledged(store, self.task_id, before.version + 1)
                continue
            except (UnknownOutcome, asyncio.CancelledError) as fault:
                arrived = await self._hub.owned.settle(landed(store, after, written))
                if arrived:
                    self._adopt(after, written, live, notes)
                if isinstance(fault, asyncio.CancelledError):
                    if arrived and leaving is not None:
                        self.end(leaving)
                    raise
                if not arrived:
                    continue
            else:
                self._adopt(after, written, live, notes)
            return leaving, (after.version, len(written) - 1)
        raise StoreError(f"task {self.task_id!r} is contended: {LOOKS} commits in a row refused")

    def _next(
        self, before: Record, draft: _Draft, notes: Mapping[str, Any]
    ) -> tuple[Record, str | None, bytes | None]:
        """The successor of a record; at a safe point it may be the one that lets the Task go."""
        task = annotate(before.task, notes) if notes else before.task
        inbox = before.inbox
        if draft.consumed:
            inbox = tuple(entry for entry in inbox if entry["id"] not in draft.consumed)
        owner: str | None = self.owner
        leaving: str | None = None
        departure: bytes | None = None
        if draft.safe:
            paused = draft.pause is not None or (before.inbox and pause_waits(before))
            leaving = "paused" if paused else self.leaving
        if leaving is not None:
            owner = None
            kind, data = vocabulary.TASK_RELEASED, {"by": self.owner}
            if leaving == "paused":
                if draft.if_paused is not None:
                    values.encode(draft.if_paused, "if_paused")
                task = apply(task, Pause(notes=draft.if_paused), draft.now)
                inbox = without_pause(inbox)
                kind = vocabulary.TASK_PAUSED
                data["reason"] = draft.pause or "requested"
            departure = vocabulary.stored([Event(kind, data)], draft.now)[0]
        attempts = 0 if draft.progress or owner is None else before.attempts
        record = Record(
            task, before.version + 1, draft.state, inbox, owner, before.step + 1, attempts,
            draft.due, before.parent, before.terms, before.realm, before.form,
        )  # fmt: skip
        return record, leaving, departure

    async def _look(self, latest: Record | None) -> None:
        """After a refusal: take the latest record, or end if the Task is lost (R1)."""
        try:
            self.absorb(latest or await self._hub.store.load(self.task_id))
        except TaskNotFound:
            self.end("lost")

    def _adopt(
        self, after: Record, written: Sequence[bytes], live: int, notes: Mapping[str, Any]
    ) -> None:
        if after.version > self.record.version:
            self.record = after
        if live:
            self._emitted = self._emitted[live:] or ()
            self._sealed = 0
        if notes:
            late = {key: value for key, value in self._notes.items() if notes.get(key) is not value}
            self._notes = freeze(late)
        if not self._emitted and not self._notes:
            self._unwritten = 0
        self._hub.published(after, written, live)


class _Draft(msgspec.Struct, frozen=True, gc=False):
    """What one commit of a job says, before it is known on top of which record."""

    state: bytes | None
    consumed: Collection[int]
    safe: bool
    pause: str | None
    now: datetime
    due: datetime | None
    if_paused: Mapping[str, Any] | None
    progress: bool


class _Emitted:
    """Text in progress that observers know and the store does not yet; deltas in a row are one.

    The stored form that was checked at `emit` is kept, because the substrate may change the event
    afterwards. So reading it never raises, and one piece stays far below the limit of a value.
    """

    __slots__ = ("_event", "_frame", "_pieces", "_size", "_text")

    def __init__(self, event: Event, text: bytes) -> None:
        self._event = event
        self._text = text
        self._size = len(text)
        self._frame = -1
        """How many bytes of a delta's stored form are not its text; -1 until it is asked for."""
        self._pieces: list[str] = []

    def extend(self, event: Event, size: int) -> bool:
        """Take in a delta that continues this one; False if it does not, or if it is too much.

        Args:
            size: Of its stored form, in bytes.
        """
        mine = self._event
        if mine.type != event.type or not _same_but_text(mine.data, event.data):
            return False
        if self._frame < 0:
            self._frame = size - len(values.encode(event.data["text"]))
        longer = self._size + size - self._frame
        if longer > PIECE:
            return False
        self._size = longer
        self._pieces.append(event.data["text"])
        return True

    def stored(self) -> bytes:
        if self._pieces:
            event = vocabulary.from_stored(None, self._text)
            text = "".join([event.data["text"], *self._pieces])
            assert event.at is not None
            whole = Event(event.type, {**event.data, "text": text}, event.at)
            _, self._text = vocabulary.make(whole, event.at)
            self._pieces = []
        return self._text


def _same_but_text(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if one.keys() != other.keys() or not isinstance(one.get("text"), str):
        return False
    return isinstance(other["text"], str) and all(
        one[key] == other[key] for key in one if key != "text"
    )


def pause_waits(record: Record) -> bool:
    """Whether a pause request waits in the record's inbox."""
    return any(entry["type"] == PAUSE for entry in record.inbox)


def without_pause(inbox: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """The inbox with every pause request taken out."""
    return tuple(entry for entry in inbox if entry["type"] != PAUSE)
