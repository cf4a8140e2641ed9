"""Job: a substrate's handle on the Task that it works on."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from agentic_kernel import InvalidValue, Task, TaskStatus
from agentic_kernel.frozen import EMPTY_DICT

from .. import edges, values
from ..cursor import Cursor
from ..events import Checked, Event
from ..pause_request import without_pause
from ..principal import Principal
from ..receipt import Receipt
from ..terms import NONE, Terms, decoded
from .run import EventLike, Run

if TYPE_CHECKING:
    from ..plans.accounts import Account
    from ..plans.limits import Limits


class Children(Protocol):
    """The verbs by which a Job reaches the children of its run."""

    async def spawn(
        self,
        run: Run,
        task: Task,
        limits: Limits | Mapping[str, Any] | None = None,
        grant: Mapping[str, Any] | None = None,
    ) -> Receipt: ...
    async def account(self, task_id: str) -> Account: ...
    async def fence(self, run: Run, task_id: str) -> None: ...
    async def regrant(self, run: Run, task_id: str, grant: Mapping[str, Any], seq: int) -> None: ...
    async def cancel(self, run: Run, task_id: str) -> Task: ...
    async def join(self, run: Run, task_id: str, statuses: Collection[TaskStatus]) -> Task: ...
    async def tell(
        self, run: Run, task_id: str, decisions: Sequence[Mapping[str, Any]]
    ) -> None: ...


class Job:
    """One run of a Task: its snapshot, the state of its last commit, and the verbs of its owner.

    Every write requires that this run still owns the Task (R1). The first refusal ends the job:
    its calls then raise `RunEnded` without touching the store. The Host unwinds a run by
    cancelling the asyncio task that `execute` runs in, also if a child of that task made the call.
    """

    __slots__ = ("_children", "_run", "grants", "state", "task", "terms")

    task: Task
    """The snapshot at entry, supplements included."""
    state: Any
    """The state of the last commit; None at the first entry."""
    terms: Terms
    """The terms that were set at dispatch: the principal's name and tenant, limits, the grant."""
    grants: Mapping[str, Mapping[str, Any]]
    """The grants of children by id, as the run has recorded them; `spawn` stores a child's grant
    with the child (R18)."""

    def __init__(self, run: Run, children: Children) -> None:
        self._run = run
        self._children = children
        record = run.record
        self.task = record.task
        self.state = None if record.state is None else values.decode(record.state)
        self.grants = EMPTY_DICT
        self.terms = NONE if record.terms is None else decoded(record.terms)

    @property
    def principal(self) -> Principal:
        """The principal that this run acts for, as it was resolved at entry (R19)."""
        return self._run.principal

    def holds(self, state: Any) -> bool:
        """True if the last commit that this run knows of stored this state.

        So the caller of a `commit` that was cut short can tell whether it has landed.
        """
        return (self._run.record.state or b"null") == values.encode(state, "state")

    @property
    def stopping(self) -> bool:
        """True if a pause or a drain waits for the next checkpoint; long work should hurry."""
        return self._run.stopping

    def news(self) -> asyncio.Future[None]:
        """A future that is done when `stopping` may have changed, or at a `nudge`.

        Ask for a new future before each wait.
        """
        return self._run.nudged()

    def nudge(self) -> None:
        """Wake every wait for `news` in this run."""
        self._run.nudge()

    @property
    def killed(self) -> bool:
        """True if the run is being unwound because the Task was killed."""
        return self._run.ended == "killed"

    @property
    def fresh(self) -> bool:
        """True if the record has not changed since the dispatch.

        It is False at the next entry even if the first one committed nothing: a flush of its text
        changes the record, and so does a claim.
        """
        return self._run.record.version == 1

    @property
    def attempts(self) -> int:
        """The number of runs, this one included, since one made progress or let the Task go."""
        return self._run.record.attempts

    @property
    def now(self) -> datetime:
        """The time, by the Host's clock."""
        return self._run.now

    @property
    def inbox(self) -> Sequence[Mapping[str, Any]]:
        """Decisions that wait for this run, oldest first; each has an ``id`` (R12).

        Consume one by passing its id with the commit that acts on it.
        """
        inbox = self._run.record.inbox
        return without_pause(inbox) if inbox else inbox

    def tag(self, form: str) -> None:
        """Name the form of the states of all commits to come, so that readers can tell (R23).

        A Host takes a Task whose state has a form only if its substrate is `Reading` and names
        that form. So tag a state whose reader must know more than an older version does.

        Args:
            form: The substrate's name and the oldest version that reads the state, such as
                ``acme/2``.

        Raises:
            InvalidValue: It is not a text of 1 to 64 characters.
        """
        if not 0 < len(edges.text(form, "form")) <= 64:
            raise InvalidValue("form", f"has {len(form)} characters; use 1 to 64, as in 'acme/2'")
        self._run.form = form

    def check(self) -> None:
        """Raise if this run was told to end; call it just before an effect.

        Raises:
            RunEnded: The run was told to end, or no longer owns the Task.
        """
        self._run.check_alive()

    async def history(self, after: Cursor | None = None) -> list[Event]:
        """The Task's durable events after a cursor, in order; read them once per entry (R15).

        If the store cannot be read, the run ends and the Task does not: the Host runs it again as
        its next attempt (R21).

        Raises:
            InvalidValue: The cursor is not an `EventId`.
            RunEnded: This run no longer owns the Task, or the store cannot be read.
            StoreError: An event is damaged.
        """
        return await self._run.history(edges.cursor(after, "after"))

    async def read(self, task_id: str) -> tuple[Task, list[Event]]:
        """Another Task: its snapshot, and its durable events, which may be newer than the snapshot.

        Reading needs no ownership and changes nothing; the other Task may be pruned at any time.

        Raises:
            TaskNotFound: No such Task is stored, or it was pruned meanwhile.
            RunEnded: This run no longer owns its own Task.
        """
        return await self._run.read(task_id)

    async def commit(
        self,
        state: Any,
        events: Sequence[EventLike | Checked] = (),
        *,
        consumed: Collection[int] = (),
        progress: bool = True,
    ) -> Cursor:
        """Make the state and the events durable, together or not at all; never unwinds (R6).

        The same write stores the events and notes since the last commit.

        Args:
            state: Everything that the next entry needs, as JSON; replaces the previous state.
            events: Appended to the Task's history, in order.
            consumed: Ids of decisions in the `inbox` that this commit acts on.
            progress: False if the commit only announces the next action: a run that dies after it
                has made no progress; see ``max_attempts`` of the `Host`.

        Returns:
            A cursor after the last event written so far; `history` after it has the later ones.

        Raises:
            InvalidValue: The state or an event is not JSON; nothing is written.
            StoreError: The store failed three times; nothing is written.
            RunEnded: This run no longer owns the Task.
        """
        return await self._run.commit(state, events, consumed, safe=False, progress=progress)

    async def checkpoint(
        self,
        state: Any,
        events: Sequence[EventLike | Checked] = (),
        *,
        consumed: Collection[int] = (),
        if_paused: Mapping[str, Any] | None = None,
        progress: bool = True,
    ) -> Cursor:
        """`commit`, and a safe point: a pause or a drain that waits takes effect here (R6).

        The transition is part of the same commit; the run is then unwound, and the next entry
        finds this state.

        Args:
            if_paused: Notes for the Task if this commit pauses it.
            progress: As for `commit`.

        Raises:
            InvalidValue, StoreError, RunEnded: As for `commit`.
        """
        return await self._run.commit(
            state, events, consumed, safe=True, if_paused=if_paused, progress=progress
        )

    async def pause(
        self,
        state: Any,
        events: Sequence[EventLike | Checked] = (),
        reason: str = "",
        *,
        consumed: Collection[int] = (),
        due: datetime | None = None,
    ) -> NoReturn:
        """Pause the Task from within, with the state and the events, and unwind.

        Args:
            due: The moment at which a Host that serves the Task's kind resumes it; None for never.

        Raises:
            InvalidValue, StoreError: As for `commit`; the Task runs on.
            RunEnded: Always, once the Task is paused.
        """
        await self._run.commit(
            state, events, consumed, safe=True, pause=reason or "substrate", due=due
        )
        raise AssertionError("a run that paused its Task was not unwound")

    def note(self, key: str, value: Any) -> None:
        """Add a note to the Task's metadata with the next commit, or with a kill by this Host.

        Args:
            key: ``<impl>/<name>``; not a key that came in with the Task.

        Raises:
            InvalidValue: The key is not free for notes, or the value is not JSON.
            RunEnded: This run no longer owns the Task.
        """
        self._run.note(key, value)

    def announce(self, model: str = "") -> None:
        """Tell observers which Agent and which model this run works with; nothing is stored.

        Call it at the begin of `execute`. It does nothing if there is neither.

        Args:
            model: The name by which the run asks its model; "" if there is none.
        """
        self._run.announce(model)

    def emit(self, event: EventLike) -> None:
        """Tell observers at once; the next commit, or a kill by this Host, stores the event.

        Text in progress, that is ``run.delta`` events, may be emitted in small pieces: neighbouring
        ones are stored as one, and they are stored while the run goes on, unless another event
        came before them (R20). The Host gives each delta its place in the turn's text, ``at``: a
        run's first delta begins the text anew, each further one follows the one before, and
        ``run.turn`` ends the turn. A run that continues the text of an earlier one gives ``at``
        with its first delta: the number of characters before it.

        Raises:
            InvalidValue: The event is not JSON, or ``at`` is not a place.
            RunEnded: This run no longer owns the Task.
        """
        self._run.emit(event)

    def report(self, events: Sequence[Checked], *, acted_on: Collection[int] = ()) -> None:
        """`emit` for the last events of a run, which the engine builds itself.

        Args:
            acted_on: Ids of the decisions in the `inbox` that the run has acted on since its last
                commit; the Host records all others as ignored.

        Raises:
            InvalidValue: A text in one of them may not be stored; none is emitted.
            RunEnded: This run no longer owns the Task.
        """
        self._run.report(events, acted_on)

    async def spawn(
        self,
        task: Task,
        *,
        limits: Limits | Mapping[str, Any] | None = None,
        grant: Mapping[str, Any] | None = None,
    ) -> Receipt:
        """Dispatch a child of this Task on the same Host; it uses this Task's slot (R9).

        The child acts for the principal of this Task (R19). Record the child's id by a commit
        first: a child that is already stored with this Task as its parent counts as spawned, so
        spawning again after a crash is safe (R13).

        Args:
            limits: The child's own limits.
            grant: The part of this Task's budget that the child gets (R18); None for the one in
                `grants`, if there is one.

        Raises:
            TaskExists: The id belongs to a Task with another parent.
            CannotStart: The substrate refuses the child.
        """
        if grant is None and isinstance(task, Task):
            grant = self.grants.get(task.id)
        return await self._children.spawn(self._run, task, limits, grant)

    async def account(self, task_id: str) -> Account:
        """Return the use of the grant of a Task of the same family, as its record says (R18).

        Raises:
            TaskNotFound: No such Task is stored.
        """
        self._run.check_alive()
        return await self._children.account(task_id)

    async def fence(self, task_id: str) -> None:
        """Store a child that is not stored as cancelled, so that no process can begin it (R18).

        Nothing is done if the child is stored already.
        """
        await self._children.fence(self._run, task_id)

    async def regrant(self, task_id: str, grant: Mapping[str, Any], seq: int) -> None:
        """Tell a Task of the same family its new grant; a Task that has ended hears nothing (R18).

        Args:
            grant: Amounts by name.
            seq: The number of the change; a Task ignores an older change than the last one.

        Raises:
            TaskNotFound: No such Task is stored.
        """
        await self._children.regrant(self._run, task_id, grant, seq)

    async def cancel(self, task_id: str) -> Task:
        """Kill a child of this Task, and return its terminal snapshot.

        Raises:
            TaskNotFound: This Task has no such child.
        """
        return await self._children.cancel(self._run, task_id)

    async def join(self, task_id: str, *statuses: TaskStatus) -> Task:
        """Wait until a child is in one of these statuses, or has ended; return that snapshot.

        Raises:
            TaskNotFound: This Task has no such child.
        """
        return await self._children.join(self._run, task_id, statuses)

    async def tell(self, task_id: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        """Leave decisions in a child's inbox, and resume the child if it is paused (R12).

        The last decision resumes the child; the child uses this Task's slot (R9).

        Raises:
            TaskNotFound: This Task has no such child.
            IllegalTransition: The child has ended.
        """
        await self._children.tell(self._run, task_id, decisions)
