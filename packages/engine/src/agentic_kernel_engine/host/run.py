"""Run: the only writer of a Task, from an entry of the substrate to the run's last commit."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, Protocol

import msgspec

from agentic_kernel import (
    InvalidValue,
    Pause,
    Task,
    TaskNotFound,
    annotate,
    apply,
)
from agentic_kernel.frozen import EMPTY_DICT, freeze
from agentic_kernel.transitions import check_note

from .. import edges, moments, values
from .. import events as host_events
from ..cursor import Cursor
from ..errors import Conflict, StoreError, UnknownOutcome
from ..events import Checked, Event
from ..faults import reraise_own_cancellation, said
from ..pause_request import pause_waits, without_pause
from ..plans.reasons import STOP_REASON, StopReason
from ..principal import Principal
from ..readback import BUSY, landed
from ..record import Record
from .change import LOOKS, acknowledged
from .emitted import Emitted, Piece, checked, plain
from .history import history, stored
from .in_flight import turn
from .news import News
from .parts import Parts
from .text_flushing import Flushing

_log = logging.getLogger(__name__)
EventLike = Event | Mapping[str, Any]
"""An `Event`, or a mapping with a ``type`` and the event's data as its other items."""

IN_A_ROW: Final = 16
"""The most commits in a row, on a store that never waits, before the event loop gets a turn."""
BUFFER: Final = 64 * 1024 * 1024
"""The most bytes of JSON that a run may emit and note between two commits."""


_DELTA: Final = b'{"type":"%b",' % host_events.RUN_DELTA.encode()
_TURN: Final = b'{"type":"%b",' % host_events.RUN_TURN.encode()


Leaving = Literal["paused", "released"]
"""The two ways in which a run lets go of its Task at a safe point."""
EndOfRun = Literal["finished", "paused", "released", "killed", "ended", "lost"]
"""The end of a run: its own result (``finished``), a release, or a change from outside. ``ended``
is a result or a failure from outside. A ``lost`` Task has another owner, or is pruned."""


class RunEnded(asyncio.CancelledError):
    """The run no longer owns its Task and is being unwound; let this exception pass.

    Attributes:
        reason: See `EndOfRun`.
    """

    def __init__(self, reason: EndOfRun) -> None:
        self.reason: EndOfRun = reason
        super().__init__(reason)


class Home(Protocol):
    """The part of a Host that its runs use; a run reports its end there."""

    parts: Parts
    news: News
    flushing: Flushing
    in_a_row: int
    """The number of commits of runs since a run last let the event loop go on."""

    def unwinding(self, run: Run) -> None:
        """The run was told to unwind."""

    def returned(self, run: Run, root: asyncio.Task[Any]) -> None:
        """The substrate's coroutine is done."""


class FifoLock:
    """A FIFO lock as a base class; it allocates nothing until a caller has to wait.

    `let_go` passes the lock directly to the longest waiting caller, so a newcomer cannot overtake.
    The lock stores no holder: a holder that calls `hold` again waits for itself, and a `let_go` by
    another caller takes the lock from the holder. Each caller pairs the two with ``finally``.

    A base class and not a field, because there is one for each run (memory in benchmarks/host.py).
    """

    __slots__ = ("_held", "_queue")

    def __init__(self) -> None:
        self._held = False
        self._queue: deque[asyncio.Future[None]] | None = None
        """One future for each waiting caller, oldest first; None before the first wait."""

    async def hold(self) -> None:
        """Acquire the lock after the callers that came before; release it by `let_go`.

        It does not suspend if the lock is free. A caller that is cancelled does not get the lock.
        """
        if self.take():
            return
        if self._queue is None:
            self._queue = deque()
        await turn(self._queue, self.let_go)

    def take(self) -> bool:
        """Acquire the lock if it is free, as `hold` does; True if it was free."""
        if self._held:
            return False
        self._held = True
        return True

    def let_go(self) -> None:
        """Release the lock; the longest waiting caller gets it."""
        while self._queue:
            given = self._queue.popleft()
            if not given.done():
                given.set_result(None)
                return
        self._held = False


class Run(FifoLock):
    """One owner's hold on a Task: every write of the Job goes through here.

    A write holds the lock, so there is one write at a time (R7). Each write requires version, owner
    and ``running`` (R1: only the owner commits). If only the inbox moved, the run writes again on
    top of it. If the Task has another owner or has ended, the run ends for good.
    """

    __slots__ = (
        "_emitted", "_home", "_nudged", "_places", "_sealed", "_unwritten", "acted_on", "delegates",
        "ended", "form", "in_slot", "leaving", "notes", "owner", "principal", "record", "root",
        "should_cancel", "task_id",
    )  # fmt: skip

    def __init__(self, home: Home, record: Record, principal: Principal, *, in_slot: bool) -> None:
        super().__init__()
        assert record.owner is not None
        self._home = home
        self.record = record
        self.principal = principal
        self.should_cancel: Callable[[], bool] | None = None
        """Asked at every safe point; the Task is paused if it returns True."""
        self.form = record.form
        """The form of the states of the commits to come; see `Job.tag`."""
        self.task_id = record.task.id
        self.owner: str = record.owner
        self.in_slot = in_slot
        self.root: asyncio.Task[Any] | None = None
        self.ended: EndOfRun | None = None
        self.leaving: Leaving | None = None
        self.delegates = False
        """True if the Task may have children in the slot of this run."""
        self.acted_on: Collection[int] = ()
        """Ids of the decisions that the end of the run acts on."""
        self._nudged: asyncio.Future[None] | None = None
        self._emitted: Sequence[Emitted | bytes] = ()
        """The buffer; a tuple while it is empty, because each waiting run has one (memory in
        benchmarks/host.py)."""
        self._sealed = 0
        self.notes: Mapping[str, Any] = EMPTY_DICT
        """For the next commit. It is replaced and never changed, and its values are frozen."""
        self._unwritten = 0
        """The number of bytes that were emitted and noted since the last commit."""
        self._places: dict[str, int] | None = None
        """The length of the turn's text, by channel; None before its first text."""

    @property
    def now(self) -> datetime:
        return self._home.parts.clock()

    @property
    def writing(self) -> bool:
        """True while the lock is held: a write to the Task is under way on this Host."""
        return self._held

    @property
    def stopping(self) -> bool:
        return self.leaving is not None or pause_waits(self.record) or self._cancelled()

    def look_for_cancellation(self) -> None:
        """Wake the waits for `nudged` if the caller wants the Task paused."""
        try:
            if self._cancelled():
                self.nudge()
        except BaseException as fault:
            reraise_own_cancellation(fault)
            self.nudge()  # The run meets the exception at its next safe point.

    def _cancelled(self) -> bool:
        return self.should_cancel is not None and bool(self.should_cancel())

    def nudged(self) -> asyncio.Future[None]:
        """A future that is done at the next `nudge`."""
        if self._nudged is None:
            self._nudged = asyncio.get_running_loop().create_future()
        return self._nudged

    def nudge(self) -> None:
        """Wake every wait for `nudged`: this run may be `stopping`, or a caller has news for it."""
        nudged, self._nudged = self._nudged, None
        if nudged is not None and not nudged.done():
            nudged.set_result(None)

    def leave(self, how: Leaving) -> None:
        """Let go of the Task at the next safe point."""
        self.leaving = how
        self.nudge()

    def end(self, reason: EndOfRun) -> None:
        """Unwind: the job refuses every call from now on, and its root task is cancelled (R7).

        If the root task itself is the caller, it is not cancelled: `RunEnded` is about to be
        raised in it, and a second cancellation would break the clean-up.
        """
        if self.ended is None:
            self.ended = reason
            if self.root is not None and not self.root.done():
                if self.root is not asyncio.current_task():
                    self.root.cancel(reason)
                self._home.unwinding(self)

    def __call__(self, root: asyncio.Task[Any]) -> None:
        """Done-callback of `root`; saves a closure for each run (memory in benchmarks/host.py)."""
        self._home.returned(self, root)

    def absorb(self, record: Record) -> None:
        """Adopt a later record; end the run if the Task has another owner or has ended."""
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
        try:
            text = values.encode(value)
        except InvalidValue:
            text = values.encode(value, _place_of(key))  # Again: the message names the note.
        check_note(self.record.task, key)
        self._make_room(len(text), key)
        frozen = value if type(value) is str else freeze(value)
        self.notes = {**self.notes, key: frozen}

    def emit(self, event: EventLike) -> None:
        self.check_alive()
        piece = plain(event)
        if piece is not None:
            self._say(piece, None)
            return
        made, text = host_events.make(event, self._home.parts.clock())
        if made.type == host_events.RUN_DELTA:
            piece = checked(made)
            if piece is not None:
                self._say(piece, made)
                return
        self._make_room(len(text))
        if made.type == host_events.RUN_TURN:
            self._places = None
        self._home.news.tell(self.task_id, made)
        self._emit(text)

    def _say(self, piece: Piece, made: Event | None) -> None:
        """Emit a delta at its place in the turn's text.

        Args:
            made: Its event; None if it has only a text, a channel and a place.
        """
        self._make_room(piece.size)
        place = self._place(piece)
        home = self._home
        if home.news.observed:
            if made is None:
                data: dict[str, Any] = {"channel": piece.channel} if piece.rest else {}
                made = Event(
                    host_events.RUN_DELTA, {"text": piece.text, **data}, home.parts.clock()
                )
            if place is not None:
                made = Event(made.type, {**made.data, "at": place}, made.at)
            home.news.tell(self.task_id, made)
        # A commit in flight writes the first `_sealed` entries: they must not grow any more.
        last = self._emitted[-1] if len(self._emitted) > self._sealed else None
        if not isinstance(last, Emitted) or not last.extend(piece, place):
            at = home.parts.clock() if made is None or made.at is None else made.at
            self._emit(Emitted(piece, place, host_events.stamp(at)))
            home.flushing.add(self)

    def _place(self, piece: Piece) -> int | None:
        """The place of a delta in the turn's text, which is given or counted here (R20)."""
        channel = piece.channel
        if channel is None:
            return None
        if self._places is None:
            self._places = {}
        place = self._places.get(channel, 0) if piece.at is None else piece.at
        self._places[channel] = place + len(piece.text)
        return place

    def _told(self, line: bytes) -> bytes:
        """The stored form of an event of a commit; a delta gets its place, as in `emit`."""
        if line.startswith(_TURN):
            self._places = None
        elif line.startswith(_DELTA):
            event = host_events.from_stored(None, line)
            piece = checked(event)
            if piece is not None:
                assert event.at is not None
                return Emitted(piece, self._place(piece), host_events.stamp(event.at)).stored()
        return line

    def announce(self, model: str) -> None:
        agent, news = self.record.task.agent_name, self._home.news
        if news.observed and (agent or model):
            names = {"agent": agent, "model": model}
            data = {key: name for key, name in names.items() if name}
            news.tell(self.task_id, host_events.Event(host_events.RUN_BEGUN, data, self.now))

    def report(self, events: Sequence[Checked], acted_on: Collection[int]) -> None:
        self.check_alive()
        self.acted_on = acted_on
        lines = host_events.stored(events, self._home.parts.clock())
        if self._home.news.observed:
            for line in lines:
                self._home.news.tell(self.task_id, host_events.from_stored(None, line))
        self._emitted = [*self._emitted, *lines]

    def _make_room(self, size: int, key: str | None = None) -> None:
        """Count the bytes that are kept until the next commit.

        Args:
            key: The key of a note; None for an event.

        Raises:
            InvalidValue: They would exceed `BUFFER`.
        """
        if self._unwritten + size > BUFFER:
            raise InvalidValue(
                "event" if key is None else _place_of(key),
                f"is {size:,} bytes on top of {self._unwritten:,} that were emitted or noted since "
                f"the last commit, over the limit of {BUFFER:,}; commit first",
            )
        self._unwritten += size

    def _emit(self, each: Emitted | bytes) -> None:
        if isinstance(self._emitted, list):
            self._emitted.append(each)
        else:
            self._emitted = [*self._emitted, each]

    def emitted(self) -> list[bytes]:
        """The events that were emitted and are not stored yet, in their stored form."""
        return [each if isinstance(each, bytes) else each.stored() for each in self._emitted]

    async def flush(self) -> None:
        """Store the text at the head of the buffer; the record stays as it is (R20).

        Version and step move, so that an answer of the store that is lost is settled as for a
        commit (R5). State, notes, inbox and attempts stay, and no other event is written, because
        none may run ahead of its state. The text stays in the buffer if it cannot be stored.

        Raises:
            StoreError: The store failed; nothing is written.
        """
        if self._held:  # A commit is under way, or a verb holds the run: the next round comes soon.
            self._home.flushing.add(self)
            return
        await self.hold()
        try:
            count = self._text_at_head()
            if count:
                self._sealed = count
                await self._land(None, [])
        except RunEnded:
            return  # The Task is lost; so is the text.
        finally:
            self._sealed = 0
            self.let_go()

    def _text_at_head(self) -> int:
        """The number of entries of the buffer that a flush may write."""
        root = self.root
        if self.ended is not None or self.leaving is not None or root is None or root.done():
            return 0
        count = 0
        for each in self._emitted:
            if not isinstance(each, Emitted):
                break
            count += 1
        return count

    async def history(self, after: Cursor | None) -> list[Event]:
        self.check_alive()
        try:
            found = await stored(self._home.parts.store, self.task_id, after)
        except StoreError as fault:
            # Nothing is written, so the Task stays with this Host, whose polling runs it again.
            _log.warning("task %r goes on at its next attempt: %s", self.task_id, said(fault))
            self.end("released")
            raise RunEnded("released") from fault
        return [host_events.from_stored(*each) for each in found]

    async def read(self, task_id: str) -> tuple[Task, list[Event]]:
        self.check_alive()
        record = await self._home.parts.load(task_id)
        return record.task, await history(self._home.parts.store, task_id)

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
    ) -> Cursor:
        self.check_alive()
        if due is not None:
            due = moments.aware("due", due)
        text = values.encode(state, "state")
        now = self._home.parts.clock()
        made = host_events.stored(events, now)
        if made and type(events[0]) is not Checked:
            made = [self._told(line) for line in made]
        kept = None if text == b"null" else text
        draft = _Draft(kept, consumed, safe, pause, now, due, if_paused, progress)
        if not self.take():
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
        home = self._home
        home.in_a_row += 1
        if home.in_a_row > IN_A_ROW and home.parts.immediate:
            # Otherwise a substrate that never suspends would block the event loop for ever.
            home.in_a_row = 0
            await asyncio.sleep(0)
        return last

    async def _land(self, draft: _Draft | None, made: list[bytes]) -> tuple[Leaving | None, Cursor]:
        """Commit the draft on top of the latest inbox, after the sealed part of the buffer.

        Args:
            draft: The content of the commit; None for a flush, which changes nothing.

        Returns:
            The way in which the run leaves, or None; and a cursor after the last event written.
        """
        store, live = self._home.parts.store, self._sealed
        notes = EMPTY_DICT if draft is None else self.notes
        if live:
            made = [*self.emitted()[:live], *made]
        refused = 0
        for _ in range(LOOKS):
            if self.ended is not None:
                raise RunEnded(self.ended)
            before = self.record
            after, leaving, departure = self._next(before, draft, notes)
            written = made if departure is None else [*made, departure]
            arrived, cancelled = True, None
            try:
                await store.commit(before, after, written)
            except Conflict as moved:
                await self.look(moved.latest)
                if self.record is before and self.ended is None:
                    await acknowledged(store, self.task_id, before.version + 1)
                continue
            except (UnknownOutcome, asyncio.CancelledError) as fault:
                shielded = self._home.parts.shielded
                arrived, cancelled = await shielded.settle(landed(store, after, written))
                if isinstance(fault, asyncio.CancelledError):
                    cancelled = fault
            except StoreError:
                if draft is None or refused == len(BUSY):
                    raise
                await asyncio.sleep(BUSY[refused])
                refused += 1
                continue
            if arrived:
                self._adopt(after, written, live, notes)
            if cancelled is not None:
                if arrived and leaving is not None:
                    self.end(leaving)
                raise cancelled
            if arrived:
                return leaving, (after.version, len(written) - 1)
        raise StoreError(
            f"task {self.task_id!r} is contended: {LOOKS:,} commits in a row were refused because "
            "other writers came first; let fewer of them write to this Task"
        )

    def _next(
        self, before: Record, draft: _Draft | None, notes: Mapping[str, Any]
    ) -> tuple[Record, Leaving | None, bytes | None]:
        """The successor of a record; at a safe point the successor may have no owner any more."""
        if draft is None:
            return before.changed(version=before.version + 1, step=before.step + 1), None, None
        task = annotate(before.task, notes) if notes else before.task
        inbox = before.inbox
        if draft.consumed:
            inbox = tuple(entry for entry in inbox if entry["id"] not in draft.consumed)
        owner: str | None = self.owner
        leaving: Leaving | None = None
        departure: bytes | None = None
        due = draft.due
        if draft.safe:
            if draft.pause is not None or (before.inbox and pause_waits(before)):
                leaving = "paused"
            elif self.should_cancel is not None and self._cancelled():
                leaving, draft = "paused", draft.cancelled()
            else:
                leaving = self.leaving
        if leaving is not None:
            owner = None
            kind, data = host_events.TASK_RELEASED, {"by": self.owner}
            if leaving == "paused":
                if draft.if_paused is not None:
                    values.encode(draft.if_paused, "if_paused")
                task = apply(task, Pause(notes=draft.if_paused), draft.now)
                if pause_waits(before):
                    due = None  # The Task must not wake by itself (R10).
                inbox = without_pause(inbox)
                kind = host_events.TASK_PAUSED
                data["reason"] = draft.pause or "requested"
            departure = host_events.stored([Event(kind, data)], draft.now)[0]
        attempts = 0 if draft.progress or owner is None else before.attempts
        record = Record(
            task, before.version + 1, draft.state, inbox, owner, before.step + 1, attempts,
            due, before.parent, before.terms, before.realm, self.form,
        )  # fmt: skip
        return record, leaving, departure

    async def look(self, latest: Record | None = None) -> None:
        """Adopt the latest record, which may be at hand; end the run if the Task is lost (R1)."""
        try:
            self.absorb(latest or await self._home.parts.load(self.task_id))
        except TaskNotFound:
            self.end("lost")

    def _adopt(
        self, after: Record, written: Sequence[bytes], live: int, notes: Mapping[str, Any]
    ) -> None:
        if after.version > self.record.version:
            self.record = after
        if live:
            gone, self._emitted = self._emitted[:live], self._emitted[live:] or ()
            self._sealed = 0
            if self._emitted or self.notes:
                self._unwritten -= sum(map(_taken, gone))
        if notes:
            late = {key: value for key, value in self.notes.items() if notes.get(key) is not value}
            self.notes = late or EMPTY_DICT
        if not self._emitted and not self.notes:
            self._unwritten = 0
        self._home.news.published(after, written, live)


def _place_of(key: str) -> str:
    """The name of a note in an error."""
    return f"notes[{edges.came(key)}]"


def _taken(each: Emitted | bytes) -> int:
    """The bytes that an entry of the buffer takes of `BUFFER`."""
    return len(each) if isinstance(each, bytes) else each.taken


class _Draft(msgspec.Struct, frozen=True, gc=False):
    """The content of one commit, before the record that it goes on top of is known."""

    state: bytes | None
    consumed: Collection[int]
    safe: bool
    pause: str | None
    now: datetime
    due: datetime | None
    if_paused: Mapping[str, Any] | None
    progress: bool

    def cancelled(self) -> _Draft:
        """The same commit, by which the caller's ``should_cancel`` pauses the Task."""
        note = {STOP_REASON: StopReason.CANCELLED.value}
        return msgspec.structs.replace(
            self, pause=StopReason.CANCELLED.value, if_paused={**(self.if_paused or {}), **note}
        )
