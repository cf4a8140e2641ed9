"""Host: Runtime and Query for any Substrate over any Store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypedDict, TypeVar

from agentic_kernel import Complete, Fail, Failure, InvalidValue, Kill, Task, TaskStatus

from .. import edges, values
from ..cursor import Cursor
from ..errors import HostClosed, StoreError, WrongEventLoop
from ..events import TASK_PAUSED, Event, TaskEvent
from ..faults import said
from ..memory_store import MemoryStore
from ..observer import Observer, observing
from ..plans.reasons import StopReason
from ..plans.vocabulary import STEP
from ..principal import Principal
from ..receipt import Receipt
from ..store import Store
from ..substrate import Metered, Substrate
from . import inbox
from .admission import Admission, Binding
from .approvals_transport import Approvals
from .decisions import Decisions
from .desk import Desk
from .family import Family
from .history import history
from .in_flight import answered
from .job import Job
from .live_runs import LiveRuns
from .news import News
from .parts import Parts
from .polling import Polling
from .queries import Queries, checked_id
from .rerun import rerun
from .resolver import Resolver
from .takeover import TakeOver
from .verbs import Verbs
from .watching import Watching

if TYPE_CHECKING:
    from ..loop.replay import Outcome
    from ..plans.accounts import Account
    from ..plans.limits import Limits
    from ..seams.agent_tool import AgentTool

T = TypeVar("T")
E = TypeVar("E", bound=Event)
_now = partial(datetime.now, UTC)
SHORTEST: Final = 0.001
"""The shortest interval between two looks of a Host at its store, in seconds."""
PAUSES: Final = (0.05, 0.2)
"""Seconds between the leaves of a Host whose store fails."""
_log = logging.getLogger(__name__)


class HostOptions(TypedDict, total=False):
    """The keyword arguments of `Host` that a ready-made runtime passes on; see there."""

    max_in_flight: int | None
    max_attempts: int | None
    observer: Observer | None
    approvals: Approvals | None
    claims: bool
    realms: Collection[str] | None
    acts_for: Resolver | None
    interval: float
    unwind_timeout: float
    grace: float
    clock: Callable[[], datetime]


class Host(Decisions, Queries):
    """A Runtime and a Query over one store, with or without a substrate to run Tasks on.

    The store is the only channel between Hosts: every verb loads the record, decides, and commits
    if the record has not moved; else it looks again. So the same code is right for one process and
    for many on one store. A verb writes in a task of the Host, which the caller's timeout does not
    reach: no Task is left half changed (R4). Without a substrate a Host is a control plane: it
    reads, pauses, resumes and kills Tasks, and other Hosts run them.

    A Host belongs to the event loop in which its first verb writes. In another one every verb
    raises `WrongEventLoop`, `drain` and `close` included; only the methods of `Queries` and
    `outcome` work in any. ``async with`` closes it: runs let go at their next safe point, and their
    Tasks stay claimable.

    Args:
        substrate: Does the work of Tasks; None for a control plane.
        store: Keeps the Tasks; None for a `MemoryStore` of its own.
        runtime_kinds: The kinds that this Host dispatches and claims; None for every kind.
        max_in_flight: The most Tasks that may run here at once; None for no limit. A child that a
            run spawns uses its parent's slot.
        max_attempts: The most runs of a Task in a row that may end without progress, because their
            process died, they were cancelled, or the store failed. After that many, the Host that
            takes the Task up next fails it with ``engine/attempts_exhausted``. None for no limit.
        observer: Receives every event, live and durable.
        approvals: Is told of every decision that Tasks of these kinds wait for, and of its end.
        claims: True if this Host takes up Tasks of these kinds that no living Host runs, without
            being asked and whichever Host dispatched them: their process died, or their run let
            go, or a control plane resumed them.
        interval: Seconds between two looks at the commits of other Hosts; at least `SHORTEST`.
        unwind_timeout: Seconds after which a run that was told to unwind is reported abandoned.
        grace: Seconds that `close` gives runs to reach a safe point; call `drain` for longer.
        clock: Returns the time, as an aware datetime.
        realms: The realms whose Tasks this Host takes and asks people about; None for all. A
            Task's realm is the tenant of its principal.
        acts_for: A function ``(name, tenant) -> Principal | None``, plain or async. The Host asks
            it before it takes a stored Task, and runs the Task for the principal that it returns,
            with the scopes and roles of that moment. On None it leaves the Task as it is, for a
            Host that may act for the principal, and says so once. Without it, a Host acts for its
            substrate's own principal and for those of its own dispatches (R19).

    Raises:
        InvalidValue: An argument has the wrong type or range; its name is the path.
    """

    def __init__(
        self,
        substrate: Substrate | None = None,
        store: Store | None = None,
        *,
        runtime_kinds: Collection[str] | None = None,
        max_in_flight: int | None = None,
        max_attempts: int | None = 10,
        observer: Observer | None = None,
        approvals: Approvals | None = None,
        claims: bool = True,
        interval: float = 0.1,
        unwind_timeout: float = 5.0,
        grace: float = 2.0,
        clock: Callable[[], datetime] = _now,
        realms: Collection[str] | None = None,
        acts_for: Resolver | None = None,
    ) -> None:
        kinds = edges.kinds(runtime_kinds, "runtime_kinds")
        edges.part_or_none(substrate, "substrate", Substrate)
        self._parts = parts = Parts(
            MemoryStore() if store is None else edges.part(store, "store", Store),
            clock if clock is _now else edges.clock(clock, "clock"),
        )
        metered: Metered | None = edges.optional(substrate, "substrate", Metered)
        self._meters = metered is not None and metered.meters is True
        admission = Admission(substrate, parts.store, realms, acts_for)
        self._desk: Desk | None = None
        if approvals is not None:
            transport = edges.part(approvals, "approvals", Approvals)
            self._desk = Desk(transport, parts.store, kinds, admission.realms)
        watcher = None if observer is None else observing(observer, "observer")
        self._news = news = News(parts, watcher, self._desk)
        self._live = live = LiveRuns(
            parts, news, substrate, kinds,
            lambda run: Job(run, self._family), lambda run: self._family.follow(run),
            admission=admission,
            max_in_flight=edges.whole_or_none(max_in_flight, "max_in_flight", 1),
            unwind_timeout=edges.seconds(unwind_timeout, "unwind_timeout"),
        )  # fmt: skip
        self._watching = Watching(live)
        self._verbs = Verbs(live)
        attempts = edges.whole_or_none(max_attempts, "max_attempts", 1)
        self._family = Family(live, self._verbs, attempts)
        self._takeover = TakeOver(live, self._family)
        self._polling = Polling(
            live, self._family, self._takeover,
            None if self._desk is None else self._desk.look,
            edges.seconds(interval, "interval", SHORTEST),
            claims=edges.flag(claims, "claims") and substrate is not None,
        )  # fmt: skip
        self._joined: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._grace = edges.seconds(grace, "grace")

    @property
    def name(self) -> str:
        """This Host's nonce, the first part of the name of each owner on this Host."""
        return self._parts.name

    @property
    def store(self) -> Store:
        """The store that this Host works on."""
        return self._parts.store

    @property
    def runtime_kinds(self) -> frozenset[str] | None:
        """The kinds that this Host dispatches and claims; None for every kind."""
        return self._live.kinds

    @property
    def runs_tasks(self) -> bool:
        """True if this Host has a substrate; False for a control plane."""
        return self._live.can_run

    async def __aenter__(self) -> Self:
        await self._join()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def dispatch(
        self,
        task: Task,
        *,
        principal: Principal | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        should_cancel: Callable[[], bool] | None = None,
    ) -> Receipt:
        """Enter ``running``, or raise and leave no trace.

        It never queues: it takes a slot before anything is durable (R9), or raises; `run` waits for
        a slot. If the caller is cancelled before the substrate has accepted the Task, no trace is
        left either.

        Args:
            principal: The user or service that the Task acts for; None for the substrate's own.
                Its name and tenant are stored with the Task: only a Host that acts for this
                principal runs the Task after a pause or a crash (R19).
            limits: Limits of this Task. They replace those of the `Loop`, one by one; a mapping may
                also remove a limit (None).
            should_cancel: The run that begins here asks it at every safe point, and pauses the Task
                if it returns True. The note ``engine/stop_reason`` is then ``cancelled``. Later
                runs of the Task do not ask it.

        Raises:
            InvalidValue: A part of the Task may not be stored, or a limit is not valid; the message
                names it.
            TaskExists: The id is already stored.
            IllegalTransition: The Task is not ``not_started``.
            CannotStart: The Host has no substrate, does not serve the kind or the principal's
                tenant, has no free slot or is draining, or the substrate refuses the Task.
        """
        self._check_start(task)
        if should_cancel is not None:
            edges.predicate(should_cancel, "should_cancel")
        bound = await self._bound(task, principal, limits)
        await self._join()
        arrival = self._live.arrival(task.id)
        arrival.should_cancel = should_cancel
        arrival.take()
        return await self._verbs.dispatch(task, None, arrival, bound)

    async def spawn(
        self,
        task: Task,
        parent: str,
        *,
        principal: Principal | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        grant: Mapping[str, Any] | None = None,
    ) -> Receipt:
        """`dispatch` a Task as a child; a kill of the parent kills it too (R13).

        Args:
            parent: The id of the Task that gives this one its work. Another Host may run it, and
                it may be missing from this Host's store.
            principal: The principal of the parent's run. None for the principal that the parent's
                record names, if the parent is in this Host's store, or else the substrate's own.
            grant: The part of the parent's budget that the child gets (R18).

        Raises:
            InvalidValue, TaskExists, IllegalTransition, CannotStart: As `dispatch`.
        """
        self._check_start(task)
        checked_id(parent)
        if principal is None:
            above = (await self.store.load_many([parent])).get(parent)
            if above is not None and above.terms is not None:
                principal = await self._live.admission.principal_of(above)
        bound = await self._live.admission.bind(principal, limits, task.id, grant)
        await self._join()
        arrival = self._live.arrival_in_slot(task.id, parent)
        return await self._verbs.dispatch(task, parent, arrival, bound)

    @property
    def meters(self) -> bool:
        """True if the substrate keeps a Task within its grant, and records what it used (R18)."""
        return self._meters

    async def account(self, task_id: str) -> Account:
        """Return the use of a Task's grant, as the Task's record says (R18).

        It is never too low: it counts the reservation of a call that may have been made, where
        `outcome` has ``usage`` and ``reserved`` apart.

        Raises:
            TaskNotFound: No such Task is stored.
        """
        return await self._verb(task_id, lambda key: self._family.account(key))

    async def fence(self, task_id: str, parent: Task) -> None:
        """Store a Task that is not stored as cancelled, so that no process can begin it (R18).

        Nothing is done if the Task is stored already.

        Args:
            parent: The Task that was to give it its work.
        """
        edges.instance(parent, "parent", Task)
        await self._verb(task_id, lambda key: self._verbs.fence(key, parent))

    async def regrant(self, task_id: str, grant: Mapping[str, Any], seq: int) -> None:
        """Change the part of its parent's budget that a Task may use; for the parent's run (R18).

        Args:
            grant: Amounts by name.
            seq: The number of the change; a Task ignores an older change than the last one.

        Raises:
            InvalidValue: An amount is not valid.
            TaskNotFound: No such Task is stored.
        """
        await self._verb(task_id, lambda key: self._verbs.regrant(key, grant, seq))

    async def pause(self, task_id: str) -> Receipt:
        """Ask for a pause; it takes effect at the owner's next safe point.

        The request is durable when this returns. Without a living owner the Task is paused at
        once. It is a no-op if the Task is paused or terminal, or if a pause waits already.
        """
        return await self._verb(task_id, lambda key: self._verbs.pause(key))

    async def resume(
        self, task_id: str, extra: str | None = None, *, at_version: int | None = None
    ) -> Receipt:
        """Let a paused Task go on, here if this Host serves its kind and has a free slot.

        If a pause still waits for its safe point, it is withdrawn; the extra is then dropped, and
        the receipt's effect says so (R10).

        Args:
            extra: Text for the supplements, appended in the same commit; dropped if the resume is
                a no-op.
            at_version: Resume only if the record still has this version, so that the call answers
                one particular pause and never the next one (R3).
        """
        return await self._verb(task_id, lambda key: self._family.resume(key, extra, at_version))

    async def kill(self, task_id: str, *, force: bool = False) -> Receipt:
        """End the Task as ``cancelled``, then cancel its run, then kill its children.

        After the commit the old run can write nothing. Text in progress is kept as the note
        ``<runtime_kind>/partial_output``. It is a no-op on a terminal Task. A record that cannot be
        read is buried: a killed one replaces it, and its events stay (R22).

        Args:
            force: True to bury also a record that a newer version of the software can read.

        Raises:
            Unreadable: A newer version can read the record, and ``force`` was not given.
        """
        return await self._verb(task_id, lambda key: self._family.end(key, Kill(), force=force))

    async def complete(self, task_id: str, result: Any) -> Receipt:
        """End the Task as ``success`` from outside, then cancel its run; its notes are kept.

        Raises:
            InvalidValue: The result is not JSON.
            IllegalTransition: The Task is paused.
        """
        values.encode(result, "result")
        mutation = Complete(result)
        return await self._verb(task_id, lambda key: self._family.end(key, mutation))

    async def fail(self, task_id: str, failure: Failure) -> Receipt:
        """End the Task as ``failure`` from outside, then cancel its run; its notes are kept.

        Raises:
            InvalidValue: It is not a Failure, or a part of it is not JSON.
            IllegalTransition: The Task is paused.
        """
        mutation = Fail(failure)
        for name in ("code", "message", "metadata"):
            values.encode(getattr(failure, name), f"failure.{name}")
        return await self._verb(task_id, lambda key: self._family.end(key, mutation))

    async def outcome(self, task_id: str) -> Outcome:
        """The Task's snapshot, the reason why it ended or paused, its usage, events and state.

        The ``usage`` is that of the calls that are over. If the Task was ended in the middle of a
        call, ``reserved`` is the most that this call may have used up.
        """
        from ..loop.replay import outcome  # Loads the Loop, which a Host does not need otherwise.

        record = await self.record(task_id)
        state = None if record.state is None else values.decode(record.state)
        events = await history(self.store, task_id)
        return outcome(record.task, events, state if isinstance(state, Mapping) else None)

    async def run(
        self,
        task: Task,
        *,
        principal: Principal | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        should_cancel: Callable[[], bool] | None = None,
    ) -> Task:
        """Dispatch the Task as soon as a slot is free, and wait for its terminal snapshot.

        If the caller is cancelled after the substrate has accepted the Task, the Task runs on; kill
        it if that is not wanted. If ``should_cancel`` pauses the Task, or that of the `Loop` does,
        the result is that paused snapshot.

        Raises:
            InvalidValue, TaskExists, IllegalTransition, CannotStart: As `dispatch`, except that a
                full Host does not raise.
        """
        self._check_start(task)
        if should_cancel is not None:
            edges.predicate(should_cancel, "should_cancel")
        bound = await self._bound(task, principal, limits)
        await self._join()
        await self._live.slots.wait(task.id)
        arrival = self._live.arrival(task.id, in_slot=True)
        task_id = task.id
        end = self._news.end_of(task_id)
        try:
            arrival.should_cancel = should_cancel
            await self._verbs.dispatch(task, None, arrival, bound)
            if should_cancel is not None:
                return await self._news.wait_for_cancelled(task_id)
            # A caller that waits holds little (memory in benchmarks/loop.py).
            del task, arrival, bound, principal, limits
            ended = await end
        finally:
            self._news.leave(end)
        if ended is None or not ended.status.terminal:
            return await self._news.wait_for_cancelled(task_id)
        return ended

    async def step(
        self,
        task: Task | str,
        *,
        principal: Principal | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
    ) -> Receipt:
        """Let a Task do one step, after which it pauses again.

        Args:
            task: A new Task, which is dispatched, or the id of a paused one.
            principal, limits: As for `dispatch`, for a new Task.

        Raises:
            InvalidValue: ``principal`` or ``limits`` was given for a Task that is stored already.
            TaskExists, IllegalTransition, CannotStart, InboxFull: As `dispatch` for a new Task,
                else as `decide`.
        """
        if not isinstance(task, Task):
            if principal is not None or limits is not None:
                raise InvalidValue(
                    "principal" if limits is None else "limits",
                    "is set when a Task is dispatched; leave it out for a stored Task",
                )
            return await super().step(task)
        self._check_start(task)
        bound = await self._bound(task, principal, limits)
        await self._join()
        arrival = self._live.arrival(task.id)
        arrival.take()
        return await self._verbs.dispatch(task, None, arrival, bound, {"type": STEP})

    def as_tool(
        self,
        *,
        name: str,
        description: str,
        runtime_kind: str | None = None,
        agent: str | None = None,
        unmetered: bool = False,
    ) -> AgentTool:
        """This Runtime as a tool that the runs of a `Loop` may call; see `AgentTool`.

        Args:
            runtime_kind: The kind of the Tasks that its calls dispatch. None for the one kind that
                this Host serves, or for the caller's kind if it serves several or all.
            unmetered: True if its Tasks are outside the caller's budget; see `OnRuntime`.
        """
        from ..seams.agent_tool import AgentTool  # Loads the seams, as above.

        kind = runtime_kind or self._only_kind()
        return AgentTool(
            self, name=name, description=description, runtime_kind=kind, agent=agent,
            unmetered=unmetered,
        )  # fmt: skip

    async def rerun(
        self,
        task: Task | str,
        scope: str = "engine",
        *,
        principal: Principal | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
    ) -> Task:
        """Dispatch a new Task with the input of an earlier one (a Task or its id); see `rerun`.

        The new Task acts for the principal that is given here, and never for the earlier Task's.
        """
        again = rerun(task if isinstance(task, Task) else await self.get(task), scope)
        return (await self.dispatch(again, principal=principal, limits=limits)).snapshot

    async def wait(self, task_id: str, *statuses: TaskStatus) -> Task:
        """Wait until the Task is in one of these statuses, or terminal; return that snapshot."""
        wanted, key = edges.statuses(statuses, "statuses"), checked_id(task_id)
        await self._join()
        run = self._live.current.get(key)
        # A run that was ended from outside has the record of before, and its end is told already.
        known = None if run is None or run.ended is not None else run.record
        return await self._news.wait(key, wanted, known)

    async def run_stream(
        self,
        task: Task,
        *,
        principal: Principal | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        should_cancel: Callable[[], bool] | None = None,
        children: bool = False,
    ) -> AsyncIterator[TaskEvent]:
        """`dispatch` the Task as soon as a slot is free, and `watch` it from its first event.

        A caller that stops reading leaves the Task running.

        Raises:
            InvalidValue, TaskExists, IllegalTransition, CannotStart: As `run`, before the first
                event.
        """
        self._check_start(task)
        edges.flag(children, "children")
        if should_cancel is not None:
            edges.predicate(should_cancel, "should_cancel")
        bound = await self._bound(task, principal, limits)
        await self._join()
        await self._live.slots.wait(task.id)
        arrival = self._live.arrival(task.id, in_slot=True)
        arrival.should_cancel = should_cancel
        await self._verbs.dispatch(task, None, arrival, bound)
        async with aclosing(self._watching.watch(task.id, None, children=children)) as events:
            async for event in events:
                yield event
                paused = event.type == TASK_PAUSED and event.task_id == task.id
                if paused and event.data.get("reason") == StopReason.CANCELLED:
                    return

    def watch(
        self, task_id: str, after: Cursor | None = None, *, children: bool = False
    ) -> AsyncIterator[TaskEvent]:
        """A Task's history after a cursor, joined with what its run emits, until it is terminal.

        Each event comes once and in order. An event that a run of this Host emits comes at once,
        without an id; its stored copy does not come again. On another Host it comes when it is
        stored: text in progress after a fraction of a second. Deltas say their place (``at``), so
        `Texts` joins them. A reader that is over `news.MOST_BEHIND` events behind gets some of
        them again once they are stored.

        Args:
            after: The id of the last event that was read; None for the beginning.
            children: True to get the events of the children of the Task in this store, too, and of
                their children; the reading then ends when all of them are terminal. ``after`` does
                not apply to children.

        Raises:
            InvalidValue: An argument has the wrong type; raised at once.
            TaskNotFound: No such Task is stored; raised before the first event.
            HostClosed: The Host was closed meanwhile.
        """
        key, place = checked_id(task_id), edges.cursor(after, "after")
        both = edges.flag(children, "children")
        return self._once_joined(self._watching.watch(key, place, children=both))

    def stream(self, task_id: str, after: Cursor | None = None) -> AsyncIterator[Event]:
        """Durable events after a cursor, each once and in order, until the Task is terminal.

        `watch` also gives the events that are not durable yet.

        Raises:
            InvalidValue: The id is not a string, or the cursor is not an `EventId`; raised at once.
            TaskNotFound: No such Task is stored; raised before the first event.
        """
        key, place = checked_id(task_id), edges.cursor(after, "after")
        return self._once_joined(self._news.stream(key, place))

    async def _once_joined(self, events: AsyncGenerator[E]) -> AsyncIterator[E]:
        await self._join()
        async with aclosing(events):
            async for event in events:
                yield event

    async def post(self, task_id: str, decision: Mapping[str, Any]) -> int:
        """Leave a decision in the Task's inbox for its owner to act on; return its id (R12).

        Args:
            decision: JSON with a ``type``, e.g. ``{"type": "acme/approval", "granted": True}``.

        Raises:
            InvalidValue: A field of the decision has the wrong type.
            IllegalTransition: The Task is terminal.
            InboxFull: Too many decisions wait for the Task.
        """
        return await self._verb(task_id, lambda key: self._verbs.post(key, decision))

    async def decide(
        self, task_id: str, decision: Mapping[str, Any], *, at_version: int | None = None
    ) -> Receipt:
        """Leave a decision in the inbox, and resume the Task if it is paused, in one write.

        Args:
            at_version: The version of the record that this decision is about. If the Task has moved
                on since, nothing is written and the receipt says ``none`` (R3).

        Returns:
            A receipt with the effect ``transition`` if the Task goes on, ``posted`` if the Task
            runs already or waits for another answer, and ``withdrawn`` if a pause was waiting.

        Raises:
            InvalidValue, IllegalTransition, InboxFull: As `post`.
        """
        checked = inbox.check(decision)
        return await self._verb(
            task_id, lambda key: self._family.resume(key, None, at_version, checked)
        )

    async def claim(self, task_id: str) -> Receipt:
        """Take up one running Task that no living Host owns, and run it here.

        Raises:
            CannotStart: This Host does not serve its kind, or has no free slot.
        """
        return await self._verb(task_id, lambda key: self._takeover.claim(key))

    async def recover(self) -> list[str]:
        """Take up every claimable Task of the kinds served, as long as there are free slots.

        Returns:
            The ids of the Tasks that this call took up. A Host with ``claims=True`` may have taken
            up others already.
        """
        self._check_open()
        await self._join()
        return await self._own(self._takeover.recover())

    async def drain(self, *, pause: bool = False, timeout: float = 30.0) -> None:
        """Start nothing more, and let every run go at its next safe point.

        The Tasks stay ``running`` and claimable, or become ``paused`` if ``pause`` is True. A run
        that reaches no safe point within ``timeout`` seconds is cancelled, and its Task stays as
        its last commit left it. The call takes at most ``timeout`` plus twice the unwind timeout.

        Raises:
            WrongEventLoop: The Host belongs to another event loop.
        """
        edges.flag(pause, "pause")
        self._check_event_loop()
        await self._own(self._live.drain(pause=pause, timeout=edges.seconds(timeout, "timeout")))

    async def close(self) -> None:
        """`drain` within the grace, then leave the store.

        A further call waits for the first, and tries to leave again if that failed. On a closed
        Host it does nothing, in any event loop.

        Raises:
            StoreError: The store failed at each of three leaves, so it counts this Host as alive.
            WrongEventLoop: The Host belongs to another event loop. If that one is closed, the store
                counts this Host as alive until the process ends.
        """
        self._check_event_loop()
        if self._closing is None or _failed(self._closing):
            self._closing = self._parts.shielded.start(self._close())
        if not self._closing.done():
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._live.drain(pause=False, timeout=self._grace)
        await self._polling.stop(self._live.unwind_timeout)
        if self._desk is not None:
            await self._desk.stop(self._live.unwind_timeout)
        self._news.close()
        self._live.turn_away()
        await self._parts.shielded.idle(self._live.unwind_timeout)
        if self._joined is not None:
            await self._leave()

    async def _leave(self) -> None:
        """Leave the store; try again a few times, because ``async with`` closes only once."""
        for pause in PAUSES:
            try:
                await answered(self.store.leave(self.name))
                return
            except StoreError as fault:
                _log.warning("the Host could not leave its store yet: %s", said(fault))
            await asyncio.sleep(pause)
        await answered(self.store.leave(self.name))

    def _only_kind(self) -> str | None:
        """The one runtime kind that this Host serves; None if it serves several, or all."""
        kinds = self._live.kinds
        return next(iter(kinds)) if kinds and len(kinds) == 1 else None

    def _check_open(self) -> None:
        if self._news.closed:
            raise HostClosed

    async def _bound(
        self, task: Task, principal: Principal | None, limits: Limits | Mapping[str, Any] | None
    ) -> Binding:
        """Return the principal and the limits of a Task that is dispatched here."""
        admission = self._live.admission
        if principal is None and limits is None and admission.default is not None:
            return admission.default
        return await admission.bind(principal, limits, task.id)

    def _check_event_loop(self) -> None:
        """Check that this event loop may drain or close the Host.

        Raises:
            WrongEventLoop: The Host is open, and works or closes in another event loop.
        """
        closing = self._closing
        if closing is not None and closing.done() and not _failed(closing):
            return
        here = asyncio.get_running_loop()
        for begun in (self._joined, closing):
            if begun is not None and not _failed(begun) and begun.get_loop() is not here:
                raise WrongEventLoop

    def _check_start(self, task: Task) -> None:
        self._check_open()
        self._verbs.check_start(task)

    async def _join(self) -> None:
        """Join the store once, before the first commit that names this Host as an owner (R14).

        Raises:
            HostClosed: The Host was closed before it had joined.
            WrongEventLoop: The Host joined in another event loop.
        """
        if self._joined is None or _failed(self._joined):
            if self._closing is not None:
                raise HostClosed
            self._joined = self._parts.shielded.start(self._enter())
        elif self._joined.get_loop() is not asyncio.get_running_loop():
            raise WrongEventLoop
        if not self._joined.done():
            await asyncio.shield(self._joined)

    async def _enter(self) -> None:
        await answered(self.store.join(self.name))
        if self._closing is not None:
            await self.store.leave(self.name)  # `_close` may have waited no longer for this join.
            raise HostClosed
        if self._desk is not None:
            self._desk.start()
        self._polling.start()

    async def _verb(self, task_id: str, work: Callable[[str], Coroutine[Any, Any, T]]) -> T:
        self._check_open()
        checked_id(task_id)
        await self._join()
        return await self._own(work(task_id))

    def _own(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        return self._parts.shielded.run(work)


def _failed(task: asyncio.Task[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
