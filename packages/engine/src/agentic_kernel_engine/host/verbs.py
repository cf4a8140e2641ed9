"""Verbs: the changes that a Host makes to one Task; each is one decision on the latest record.

The module `family` adds the consequences for the Task's parent and children.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from agentic_kernel import (
    CannotStart,
    Complete,
    Dispatch,
    Fail,
    IllegalTransition,
    InvalidValue,
    Kill,
    Pause,
    Resume,
    Task,
    TaskExists,
    TaskNotFound,
    TaskStatus,
    annotate,
    apply,
)
from agentic_kernel.catalog import check_name
from agentic_kernel.frozen import freeze

from .. import edges, values
from .. import events as host_events
from ..errors import Conflict, StoreError, UnknownOutcome, Unreadable
from ..events import Event, from_stored
from ..pause_request import PAUSE, pause_waits, without_pause
from ..plans import vocabulary
from ..plans.lineage import DEPTH, PARENT, depth
from ..readback import landed, patiently, read_back
from ..receipt import Effect, Receipt
from ..record import FENCED, Record, owner_name
from ..search import check_labels
from ..waiting import WAITING_FOR
from . import inbox
from .admission import Binding
from .change import Change, Decide, Decided, change, successor
from .history import history
from .in_flight import answered
from .live_runs import Arrival, LiveRuns
from .partial_output import partial_output

_DISPATCH = Dispatch()


class Verbs:
    """The verbs `dispatch`, `pause`, `resume`, `end`, `post`, `fence` and `regrant` of a Task.

    Every method raises `TaskNotFound` for an unknown id and `StoreError` if the store fails. Only
    `dispatch` shields its own write; the Host runs the other methods in tasks of its own.
    """

    def __init__(self, live: LiveRuns) -> None:
        self._parts = live.parts
        self._store = live.parts.store
        self._news = live.news
        self._live = live

    def check_start(self, task: Task) -> None:
        """Refuse a Task that must not be dispatched, or that this Host cannot dispatch.

        Raises:
            InvalidValue: A part of the Task may not be stored; the message names its path.
            IllegalTransition: The Task is not ``not_started``.
            CannotStart: This Host has no substrate, or does not serve the Task's kind.
        """
        if not isinstance(task, Task):
            raise InvalidValue("task", f"must be a Task, not {type(task).__name__}")
        values.check_id(task.id, "task.id")
        values.check_id(task.runtime_kind, "task.runtime_kind")
        if task.agent_name is not None:
            check_name(task.agent_name, "task.agent_name")
            values.encode(task.agent_name, "task.agent_name")
        if not values.plain(task.summary):
            values.encode(task.summary, "task.summary")
        if not values.plain(task.instructions):
            values.encode(task.instructions, "task.instructions")
        if task.metadata:
            values.encode(task.metadata, "task.metadata")
            check_labels(task)
        if task.status is not TaskStatus.NOT_STARTED:
            raise IllegalTransition(task.id, task.status, Dispatch.verb)
        if not self._live.serves(task.runtime_kind):
            raise self._live.not_served(task)

    async def dispatch(
        self,
        task: Task,
        parent: str | None,
        arrival: Arrival,
        bound: Binding,
        first: Mapping[str, Any] | None = None,
    ) -> Receipt:
        """Store the Task as ``running`` and owned by this Host, and run it.

        A cancellation before the substrate has accepted the Task leaves no trace. The write that
        follows is shielded from a cancellation, if the store suspends at all (R4).

        Args:
            first: A decision that waits in the inbox from the beginning.
        """
        if self._live.accepting is not None:
            try:
                await self._live.ask(self._live.accepting, task)
                if arrival.in_slot:
                    self._live.slots.check_open(task.id)  # The substrate may have taken its time.
            except BaseException:
                arrival.give_up()
                raise
        parts = self._parts

        async def begin() -> Receipt:
            with arrival:
                now = parts.clock()
                arrival.principal, terms, realm = bound
                record = Record(
                    apply(task, _DISPATCH, now), owner=owner_name(parts.name, 1), attempts=1,
                    parent=parent, terms=terms, realm=realm,
                    inbox=() if first is None else (freeze({**first, "id": 1}),),
                )  # fmt: skip
                await self._insert(record, host_events.TASK_DISPATCHED, record.owner, now)
                self._live.start(record, arrival)
            return Receipt(record.task, True, record.version, "transition")

        return await (begin() if parts.immediate else parts.shielded.run(begin()))

    async def _insert(self, record: Record, type: str, by: str | None, now: datetime) -> None:
        """Store a new record with its first event, and pass the two on."""
        made = host_events.by_act(type, {"by": by}, next(self._parts.acts), now)
        try:
            await answered(self._store.insert(record, [made]))
        except UnknownOutcome:
            current = await read_back(self._store, record.task.id)
            if current is None:
                raise CannotStart(
                    "the store did not answer and nothing was stored; dispatch it again",
                    record.task.id,
                ) from None
            if not await landed(self._store, record, [made]):
                raise TaskExists(record.task.id) from None
        self._news.published(record, [made])

    async def pause(self, task_id: str) -> Receipt:
        """Ask the owner to pause at its next safe point; without a living owner pause now (R10)."""

        async def decide(before: Record) -> Decided:
            task = apply(before.task, Pause(), self._parts.clock())
            if task is before.task:
                return None
            by = {"by": self._parts.name}
            if before.owner is None or not await self._store.alive(before.owner):
                rest = without_pause(before.inbox)
                after = successor(before, task=task, owner=None, inbox=rest)
                return after, [Event(host_events.TASK_PAUSED, {**by, "reason": "requested"})]
            if pause_waits(before):
                return None
            entry = freeze({"type": PAUSE, "id": before.version + 1})
            after = successor(before, inbox=(*before.inbox, entry))
            return after, [Event(host_events.TASK_PAUSE_REQUESTED, by)]

        done = await self._change(task_id, decide)
        if isinstance(done, Record):
            return _receipt(done, "requested" if pause_waits(done) else "none")
        effect: Effect = "requested" if pause_waits(done.after) else "transition"
        return _receipt(done.after, effect)

    async def resume(
        self,
        task_id: str,
        extra: str | None,
        at_version: int | None,
        decision: Mapping[str, Any] | None,
        arrival: Arrival,
    ) -> tuple[Record | None, Receipt]:
        """Commit the transition to running; this Host becomes the owner if it can run the Task now.

        A decision goes into the inbox in the same commit, also if the Task runs already. A child
        of a run that is here uses its parent's slot (R9).

        Args:
            arrival: Takes a slot if the Task needs one here.

        Returns:
            The resumed record, with this Host as owner if it is to run the Task; None if no paused
            Task was resumed.
        """
        if extra is not None:
            values.encode(Resume(extra).extra, "extra")
        edges.whole_or_none(at_version, "at_version", 1)
        if decision is not None:
            decision = inbox.check(decision)
        here = False

        async def decide(before: Record) -> Decided:
            nonlocal here
            if at_version is not None and before.version != at_version:
                return None
            if pause_waits(before):
                return self._withdrawn(before, decision)
            if decision is not None and before.task.status.terminal:
                raise IllegalTransition(task_id, before.task.status, "decide about")
            if decision is not None and _beside_the_point(decision, before.task):
                return self._posted(before, decision)
            task = apply(before.task, Resume(extra), self._parts.clock())
            if task is before.task:
                return None if decision is None else self._posted(before, decision)
            here = here or await self._live.takes(before, arrival)
            return self._resumed(before, task, extra, decision, here=here)

        done = await self._change(task_id, decide)
        if isinstance(done, Record):
            return None, _receipt(done)
        if done.after.task.status is done.before.task.status:
            return None, _receipt(done.after, "withdrawn" if pause_waits(done.before) else "posted")
        return done.after, _receipt(done.after, "transition")

    def _withdrawn(self, before: Record, decision: Mapping[str, Any] | None) -> Decided:
        """Withdraw a pause that waits, and keep the decision (R10)."""
        waiting = inbox.added(decision, before, without_pause(before.inbox))
        data = {"by": self._parts.name}
        after = successor(before, inbox=waiting)
        return after, [Event(host_events.TASK_PAUSE_WITHDRAWN, data)]

    def _resumed(
        self,
        before: Record,
        task: Task,
        extra: str | None,
        decision: Mapping[str, Any] | None,
        *,
        here: bool,
    ) -> Decided:
        version = before.version + 1
        after = successor(
            before, task=task, owner=owner_name(self._parts.name, version) if here else None,
            attempts=1 if here else 0, due_at=None,
            inbox=inbox.added(decision, before, before.inbox),
        )  # fmt: skip
        data: dict[str, Any] = {"by": self._parts.name}
        if extra is not None:
            data["extra"] = extra
        if decision is not None:
            data["decision"] = decision["type"]
        return after, [Event(host_events.TASK_RESUMED, data)]

    async def end(
        self, task_id: str, mutation: Complete | Fail | Kill, *, force: bool
    ) -> tuple[Record | None, Receipt]:
        """Commit a terminal status, then cancel the run that is here (R1: it can write no more).

        The end keeps the notes and the events of the local run, and a kill also the text in
        progress as a note (R11). The end is committed whatever the Task's history, notes and
        buffers hold: a part of these that cannot be read or stored is left out (R21). A kill of a
        record that cannot be read buries it (R22).

        Args:
            force: True to bury also a record that a newer version of the software can read.

        Returns:
            The record that this call ended, or None if it ended none or buried it.
        """
        killed = isinstance(mutation, Kill)
        try:
            done, live = await patiently(lambda: self._end(task_id, mutation, whole=True))
        except (UnknownOutcome, TaskNotFound, IllegalTransition):
            raise
        except Unreadable as bad:
            if not killed:
                raise
            return await self._bury(bad, force=force)
        except Exception as fault:
            # The store may refuse the texts of the run. If it refuses the rest too, this raises.
            done, live = await self._end(task_id, mutation, whole=False)
            did = "is ended without the text, the notes and the events of its run"
            version = done.version if isinstance(done, Record) else done.after.version
            self._parts.complaints.add(task_id, version, fault, did)
        if isinstance(done, Record):
            return None, _receipt(done)
        run = self._live.current.get(task_id)
        if run is not None and run.owner == done.before.owner:
            run.end("killed" if killed else "ended")
        self._news.published(done.after, done.events, live)
        if killed and (run is None or run.ended != "killed"):
            # No run here reports the kill: there is none, or it unwinds for another reason (R13).
            self._live.on_killed(done.after)
        return done.after, _receipt(done.after, "transition")

    async def _bury(self, bad: Unreadable, *, force: bool) -> tuple[Record | None, Receipt]:
        """Replace a record that cannot be read by a killed one."""
        task_id, now = bad.task_id, self._parts.clock()
        by = {"by": self._parts.name}
        made = host_events.by_act(host_events.TASK_KILLED, by, next(self._parts.acts), now)
        try:
            buried = await self._store.bury(task_id, bad.version, [made], force=force, at=now)
        except Conflict:  # Another host repaired or buried it meanwhile.
            return await self.end(task_id, Kill(), force=force)
        run = self._live.current.get(task_id)
        if run is not None:
            run.end("killed")
        self._news.published(buried, [made])
        return None, _receipt(buried, "transition")

    async def _end(
        self, task_id: str, mutation: Complete | Fail | Kill, *, whole: bool
    ) -> tuple[Change | Record, int]:
        """Commit a terminal status.

        Args:
            whole: True to write also what the local run noted and emitted, and the text in
                progress of a killed Task.

        Returns:
            The result of `change`, and the number of its events that were emitted live before.
        """
        emitted: list[bytes] = []

        async def decide(before: Record) -> Decided:
            nonlocal emitted
            run = self._live.current.get(task_id)
            # A run that lost the Task writes nothing, even before it learns of that (R1).
            here = run is not None and run.ended is None and run.owner == before.owner
            if not here or not whole:
                run = None
            emitted = [] if run is None else run.emitted()
            notes = {} if run is None else run.notes
            if whole and isinstance(mutation, Kill) and not before.task.status.terminal:
                live = [from_stored(None, text) for text in emitted]
                notes = {**await self._partial(before, live), **notes}
            task = apply(annotate(before.task, notes), mutation, self._parts.clock())
            if task is before.task:
                return None
            after = successor(before, task=task, owner=None, inbox=(), due_at=None)
            left = inbox.left_over(before, () if run is None else run.acted_on)
            return after, [*emitted, *left, host_events.ending(mutation, self._parts.name)]

        done = await change(self._parts, task_id, decide, lambda: self._live.held(task_id))
        return done, len(emitted)

    async def _partial(self, record: Record, emitted: Sequence[Event]) -> Mapping[str, Any]:
        """The text in progress; a history that cannot be read does not prevent the kill."""
        stored: Sequence[Event] = ()
        with suppress(StoreError):
            stored = await history(self._store, record.task.id)
        return partial_output(record.task, [*stored, *emitted])

    async def post(self, task_id: str, decision: Mapping[str, Any]) -> int:
        """Append a decision to the inbox; its id is the version that carries it (R12).

        Raises:
            IllegalTransition: The Task is terminal.
        """
        checked = inbox.check(decision)

        async def decide(before: Record) -> Decided:
            if before.task.status.terminal:
                raise IllegalTransition(task_id, before.task.status, "post to")
            return self._posted(before, checked)

        done = await self._change(task_id, decide)
        assert isinstance(done, Change)
        return done.after.version

    def _posted(self, before: Record, decision: Mapping[str, Any]) -> Decided:
        data = {"by": self._parts.name, "decision": decision["type"]}
        after = successor(before, inbox=inbox.added(decision, before, before.inbox))
        return after, [Event(host_events.TASK_DECISION_POSTED, data)]

    async def regrant(self, task_id: str, grant: Mapping[str, Any], seq: int) -> None:
        """Put a changed grant into the inbox of a child, unless the child has ended (R18)."""

        async def decide(before: Record) -> Decided:
            if before.task.status.terminal:
                return None
            waiting = inbox.regranted(grant, seq, before)
            if waiting is None:
                return None
            data = {"by": self._parts.name, "decision": vocabulary.GRANT}
            posted = Event(host_events.TASK_DECISION_POSTED, data)
            return successor(before, inbox=waiting), [posted]

        await self._change(task_id, decide)

    async def fence(self, task_id: str, parent: Task) -> None:
        """Store a Task that is not stored as cancelled, so that no process can begin it (R18)."""
        now = self._parts.clock()
        task = Task.new(
            summary="(never begun)", instructions="", runtime_kind=parent.runtime_kind, id=task_id,
            metadata={PARENT: parent.id, DEPTH: depth(parent) + 1},
        )  # fmt: skip
        ended = apply(apply(task, _DISPATCH, now), Kill(), now)
        record = Record(ended, state=FENCED, parent=parent.id)
        with suppress(TaskExists):
            await self._insert(record, host_events.TASK_KILLED, self._parts.name, now)

    async def _change(self, task_id: str, decide: Decide) -> Change | Record:
        """Call `change`, then tell the local run and the waiting callers."""
        done = await change(self._parts, task_id, decide, lambda: self._live.held(task_id))
        if isinstance(done, Change):
            run = self._live.current.get(task_id)
            if run is not None:
                run.absorb(done.after)
            self._news.published(done.after, done.events)
        return done


def _beside_the_point(decision: Mapping[str, Any], task: Task) -> bool:
    """True if the decision answers a different question than the Task's, or comes too early (R3).

    Otherwise the Task would go on without its answer, or before it is due. A decision that fits
    none of several approvals does no harm: the Task asks again for those that are missing.
    """
    waiting = task.metadata.get(WAITING_FOR)
    if task.status is not TaskStatus.PAUSED or not isinstance(waiting, Mapping):
        return False
    return waiting.get("kind") != "approval" and bool(
        decision.get("digest") and decision["digest"] != waiting.get("digest")
    )


def _receipt(record: Record, effect: Effect = "none") -> Receipt:
    return Receipt(record.task, effect == "transition", record.version, effect)
