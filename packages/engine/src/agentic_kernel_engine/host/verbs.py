"""Verbs: the six verbs and their kin, each one decision committed on the latest record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentic_kernel import (
    CannotStart,
    Complete,
    Dispatch,
    Fail,
    IllegalTransition,
    InvalidValue,
    Kill,
    Mutation,
    Pause,
    Resume,
    Task,
    TaskExists,
    TaskNotFound,
    TaskStatus,
    apply,
)
from agentic_kernel.catalog import check_name
from agentic_kernel.frozen import freeze

from .. import edges, values
from .. import events as vocabulary
from ..errors import Conflict, StoreError, UnknownOutcome, Unreadable
from ..events import Event, from_stored
from ..receipt import Effect, Receipt
from ..record import Record, owner_name
from ..search import check_labels
from ..waiting import WAITING_FOR
from . import inbox
from .change import Change, Decide, Decided, by_act, change, landed, read_back, successor
from .family import Family
from .hub import Hub
from .partial_output import partial_output
from .run import PAUSE, pause_waits, without_pause
from .runner import LiveRuns

_DISPATCH = Dispatch()


class Verbs:
    """What a Host does to Tasks. But for `dispatch` its methods are not shielded: the Host runs
    them in its own tasks.

    Every method raises `TaskNotFound` for an unknown id and `StoreError` if the store fails.
    """

    def __init__(self, hub: Hub, runs: LiveRuns, kinds: frozenset[str] | None) -> None:
        self._hub = hub
        self._store = hub.store
        self._runs = runs
        self._kinds = kinds
        self.family = Family(hub, runs, self)

    def serves(self, kind: str) -> bool:
        """Whether this host runs Tasks of this kind."""
        return self._runs.can_run and (self._kinds is None or kind in self._kinds)

    @property
    def only_kind(self) -> str | None:
        """The one runtime kind that this host serves; None if there are several, or all."""
        return next(iter(self._kinds)) if self._kinds and len(self._kinds) == 1 else None

    def check_start(self, task: Task) -> None:
        """Refuse what must not, or cannot here, be dispatched.

        Raises:
            InvalidValue: The Task carries something that may not be stored; the path is named.
            IllegalTransition: The Task is not ``not_started``.
            CannotStart: This host has no substrate, or does not serve the Task's kind.
        """
        if not isinstance(task, Task):
            raise InvalidValue("task", f"must be a Task, not {type(task).__name__}")
        values.check_id(task.id, "task.id")
        values.check_id(task.runtime_kind, "task.runtime_kind")
        if task.agent_name is not None:
            check_name(task.agent_name, "task.agent_name")
        for name in ("summary", "instructions", "agent_name", "metadata"):
            value = getattr(task, name)
            if value:
                values.encode(value, f"task.{name}")
        if task.metadata:
            check_labels(task)
        if task.status is not TaskStatus.NOT_STARTED:
            raise IllegalTransition(task.id, task.status, Dispatch.verb)
        if not self._runs.can_run:
            raise CannotStart(
                "this Host is a control plane; give it a substrate to run Tasks", task.id
            )
        if not self.serves(task.runtime_kind):
            served = ", ".join(sorted(self._kinds or ()))
            raise CannotStart(
                f"kind {task.runtime_kind!r} is not served here; this Host serves: {served}",
                task.id,
            )

    async def dispatch(self, task: Task, *, parent: str | None, in_slot: bool) -> Receipt:
        """Store the Task as ``running`` and owned by this host, and run it.

        The slot was taken by the caller; it is given back if nothing is stored. Until the
        substrate has accepted the Task a cancellation leaves nothing behind; what comes then is
        shielded from it, if there is anything that it could interrupt (R4).
        """
        try:
            await self._runs.accept(task)
            if in_slot:
                self._runs.slots.check_open(task.id)  # The substrate may have thought for long.
        except BaseException:
            if in_slot:
                self._runs.slots.give_back()
            raise
        work = self._begin(task, parent, in_slot=in_slot)
        return await (work if self._hub.immediate else self._hub.owned.run(work))

    async def _begin(self, task: Task, parent: str | None, *, in_slot: bool) -> Receipt:
        try:
            now = self._hub.clock()
            record = Record(
                apply(task, _DISPATCH, now), owner=owner_name(self._hub.name, 1), attempts=1,
                parent=parent,
            )  # fmt: skip
            by = {"by": record.owner}
            made = by_act(vocabulary.TASK_DISPATCHED, by, next(self._hub.acts), now)
            with self._runs.arriving(task.id):
                await self._insert(record, made)
                self._hub.published(record, [made])
                self._runs.start(record, in_slot=in_slot)
        except BaseException:
            if in_slot:
                self._runs.slots.give_back()
            raise
        return Receipt(record.task, True, record.version, "transition")

    async def _insert(self, record: Record, text: bytes) -> None:
        try:
            await self._store.insert(record, [text])
        except UnknownOutcome:
            current = await read_back(self._store, record.task.id)
            if current is None:
                raise CannotStart(
                    "the store did not answer and nothing was stored; dispatch it again",
                    record.task.id,
                ) from None
            if not await landed(self._store, record, [text]):
                raise TaskExists(record.task.id) from None

    async def pause(self, task_id: str) -> Receipt:
        """Ask the owner to pause at its next safe point; pause at once without one (R10)."""

        async def decide(before: Record) -> Decided:
            task = apply(before.task, Pause(), self._hub.clock())
            if task is before.task:
                return None
            by = {"by": self._hub.name}
            if before.owner is None or not await self._store.alive(before.owner):
                rest = without_pause(before.inbox)
                after = successor(before, task=task, owner=None, inbox=rest)
                return after, [Event(vocabulary.TASK_PAUSED, {**by, "reason": "requested"})]
            if pause_waits(before):
                return None
            entry = freeze({"type": PAUSE, "id": before.version + 1})
            after = successor(before, inbox=(*before.inbox, entry))
            return after, [Event(vocabulary.TASK_PAUSE_REQUESTED, by)]

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
        decision: Mapping[str, Any] | None = None,
    ) -> Receipt:
        """Commit the transition and run the Task here if this host can; else leave it claimable.

        A decision goes into the inbox in the same commit; a Task that runs already is left it.
        A child of a run that is here uses its parent's slot (R9).
        """
        if extra is not None:
            values.encode(Resume(extra).extra, "extra")
        edges.whole_or_none(at_version, "at_version", 1)
        if decision is not None:
            decision = inbox.check(decision)
        taken = in_slot = False

        async def decide(before: Record) -> Decided:
            nonlocal taken, in_slot
            if at_version is not None and before.version != at_version:
                return None
            by = {"by": self._hub.name}
            if pause_waits(before):
                waiting = inbox.added(decision, before, without_pause(before.inbox))
                after = successor(before, inbox=waiting)
                return after, [Event(vocabulary.TASK_PAUSE_WITHDRAWN, by)]
            if decision is not None and before.task.status.terminal:
                raise IllegalTransition(task_id, before.task.status, "decide about")
            if decision is not None and _beside_the_point(decision, before.task):
                return self._posted(before, decision)
            task = apply(before.task, Resume(extra), self._hub.clock())
            if task is before.task:
                return None if decision is None else self._posted(before, decision)
            housed = self.family.houses(before.parent)
            room = housed or self._runs.slots.free
            if not taken and self.serves(task.runtime_kind) and room:
                if not housed:
                    self._runs.slots.take(task_id)
                taken, in_slot = True, not housed
            version = before.version + 1
            owner = owner_name(self._hub.name, version) if taken else None
            waiting = inbox.added(decision, before, before.inbox)
            after = successor(
                before, task=task, owner=owner, attempts=1 if taken else 0, due_at=None,
                inbox=waiting,
            )  # fmt: skip
            data = by if extra is None else {**by, "extra": extra}
            if decision is not None:
                data = {**data, "decision": decision["type"]}
            return after, [Event(vocabulary.TASK_RESUMED, data)]

        with self._runs.arriving(task_id):
            try:
                done = await self._change(task_id, decide)
            except BaseException:
                if in_slot:
                    self._runs.slots.give_back()
                raise
            if isinstance(done, Record):
                if in_slot:
                    self._runs.slots.give_back()
                return _receipt(done)
            if done.after.task.status is done.before.task.status:
                if in_slot:
                    self._runs.slots.give_back()
                withdrawn = pause_waits(done.before)
                return _receipt(done.after, "withdrawn" if withdrawn else "none")
            if taken:
                await self._runs.enter(done.after, in_slot=in_slot)
        await self.family.went_on(done.after)
        return _receipt(done.after, "transition")

    async def end(
        self, task_id: str, mutation: Complete | Fail | Kill, *, force: bool = False
    ) -> Receipt:
        """Commit a terminal status, then cancel the run that is here (R1: it can write no more).

        A kill keeps what the local run noted and emitted, and the text in progress (R11); then it
        sweeps the Task's children (R13).

        Whatever is in the Task's history, notes and buffers, the end is committed: what cannot be
        read or stored of these is left out (R21). A kill of a record that cannot be read buries it
        (R22).

        Args:
            force: Whether to bury also what a newer version of the software can read.
        """
        killed = isinstance(mutation, Kill)
        try:
            done, live = await self._end(task_id, mutation, whole=True)
        except (UnknownOutcome, TaskNotFound, IllegalTransition):
            raise
        except Unreadable as bad:
            if not killed:
                raise
            return await self._bury(bad, force=force)
        except Exception as fault:
            # It may be the texts of the run that the store refuses. If it is not, this fails too.
            done, live = await self._end(task_id, mutation, whole=False)
            self._hub.complain(task_id, _version(done), fault)
        if isinstance(done, Record):
            receipt = _receipt(done)
        else:
            run = self._runs.current.get(task_id)
            if run is not None and run.owner == done.before.owner:
                run.end("killed" if killed else "ended")
            self._hub.landed(done, live=live)
            receipt = _receipt(done.after, "transition")
            if killed and (run is None or run.ended != "killed"):
                # No run of this Task is here, or one that another reason unwinds (R13).
                self._runs.on_killed(done.after)
            await self.family.went_on(done.after)
        if killed:
            await self.family.sweep(task_id)
        return receipt

    async def _bury(self, bad: Unreadable, *, force: bool) -> Receipt:
        """Replace a record that cannot be read by a killed one, then kill its children."""
        task_id, now = bad.task_id, self._hub.clock()
        by = {"by": self._hub.name}
        made = by_act(vocabulary.TASK_KILLED, by, next(self._hub.acts), now)
        try:
            buried = await self._store.bury(task_id, bad.version, [made], force=force, at=now)
        except Conflict:  # It was repaired or buried meanwhile.
            return await self.end(task_id, Kill(), force=force)
        run = self._runs.current.get(task_id)
        if run is not None:
            run.end("killed")
        self._hub.published(buried, [made])
        await self.family.sweep(task_id)
        return _receipt(buried, "transition")

    async def _end(
        self, task_id: str, mutation: Complete | Fail | Kill, *, whole: bool
    ) -> tuple[Change | Record, int]:
        """Commit a terminal status.

        Args:
            whole: Whether what the local run noted and emitted, and a killed Task's text in
                progress, is written with it.

        Returns:
            What `change` returns, and how many of the events were emitted live before.
        """
        emitted: list[bytes] = []

        async def decide(before: Record) -> Decided:
            nonlocal emitted
            run = self._runs.current.get(task_id)
            # A run that lost the Task writes nothing, even before it learns of that (R1).
            here = run is not None and run.ended is None and run.owner == before.owner
            here = here and whole
            emitted = run.emitted() if run is not None and here else []
            notes = dict(run.notes) if run is not None and here else {}
            final: Mutation = mutation
            if whole and isinstance(mutation, Kill) and not before.task.status.terminal:
                live = [from_stored(None, text) for text in emitted]
                said = await self._partial(before, live)
                final = Kill(notes={**said, **notes})
            task = apply(before.task, final, self._hub.clock())
            if task is before.task:
                return None
            after = successor(before, task=task, owner=None, inbox=(), due_at=None)
            return after, [*emitted, vocabulary.ending(mutation, self._hub.name)]

        done = await change(self._hub, task_id, decide, lambda: self._runs.held(task_id))
        return done, len(emitted)

    async def _partial(self, record: Record, emitted: Sequence[Event]) -> Mapping[str, Any]:
        """The text in progress; a log that cannot be read keeps no Task from being killed."""
        try:
            history = await self._hub.history(record.task.id)
        except StoreError:
            history = []
        return partial_output(record.task, [*history, *emitted])

    async def post(self, task_id: str, decision: Mapping[str, Any]) -> int:
        """Append a decision to the inbox; its id is the version that carries it (R12).

        Raises:
            IllegalTransition: The Task is terminal and decides nothing any more.
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
        data = {"by": self._hub.name, "decision": decision["type"]}
        after = successor(before, inbox=inbox.added(decision, before, before.inbox))
        return after, [Event(vocabulary.TASK_DECISION_POSTED, data)]

    async def _change(self, task_id: str, decide: Decide) -> Change | Record:
        """`change`, with the local run and everybody who waits told of it."""
        done = await change(self._hub, task_id, decide, lambda: self._runs.held(task_id))
        if isinstance(done, Change):
            run = self._runs.current.get(task_id)
            if run is not None:
                run.absorb(done.after)
            self._hub.landed(done)
        return done


def _beside_the_point(decision: Mapping[str, Any], task: Task) -> bool:
    """Whether a decision is bound to something else than what the Task is paused for (R3).

    To resume for it would be to go on without the answer, or before the moment. One that fits
    none of several approvals does no harm: what is missing is asked for again.
    """
    waiting = task.metadata.get(WAITING_FOR)
    if task.status is not TaskStatus.PAUSED or not isinstance(waiting, Mapping):
        return False
    return waiting.get("kind") != "approval" and bool(
        decision.get("digest") and decision["digest"] != waiting.get("digest")
    )


def _version(done: Change | Record) -> int:
    return done.version if isinstance(done, Record) else done.after.version


def _receipt(record: Record, effect: Effect = "none") -> Receipt:
    return Receipt(record.task, effect == "transition", record.version, effect)
