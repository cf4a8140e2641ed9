"""LiveRuns: the runs of one Host, from their start to the last write for their Tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import Any, Self

from agentic_kernel import CannotStart, Mutation, Pause, Task, TaskNotFound, apply

from .. import edges, values
from .. import events as host_events
from ..errors import (
    Conflict,
    HostClosed,
    StateUnreadable,
    StoreError,
    TaskFailed,
    UnknownOutcome,
    Unreadable,
)
from ..events import Event
from ..faults import Stray, contained, is_a, log, report, reraise_own_cancellation, said, strays
from ..pause_request import pause_waits, without_pause
from ..principal import NOBODY
from ..readback import landed
from ..record import Record
from ..substrate import Accepting, Cleaning, Substrate
from . import inbox
from .admission import Admission
from .change import STALLED, Decide, Decided, change, successor
from .ending import fault_of, mutation_of, unstorable
from .history import history
from .in_flight import Slots, answered
from .job import Job
from .news import News
from .parts import Parts
from .run import Run
from .text_flushing import Flushing

_log = logging.getLogger(__name__)


class LiveRuns:
    """The runs of one Host.

    A Task has at most one current run here. Its earlier runs are live until they have unwound. A
    run gives its slot back when its coroutine is done; a run that does not unwind keeps it (R7: an
    abandoned run is reported).

    Args:
        substrate: Does the work of Tasks; None for a control plane.
        kinds: The runtime kinds that this Host serves; None for every kind.
        job: Makes the substrate's handle on a run.
        follow: Called after a run has gone that was ended from outside.
        admission: Decides which stored Tasks this Host may take.
        max_in_flight: The number of slots; None for no limit.
        unwind_timeout: Seconds after which a run that was told to unwind is reported abandoned.
    """

    def __init__(
        self,
        parts: Parts,
        news: News,
        substrate: Substrate | None,
        kinds: frozenset[str] | None,
        job: Callable[[Run], Job],
        follow: Callable[[Run], None],
        *,
        admission: Admission,
        max_in_flight: int | None,
        unwind_timeout: float,
    ) -> None:
        self.admission = admission
        self.parts = parts
        self.news = news
        self.kinds = kinds
        self.slots = Slots(max_in_flight)
        self.unwind_timeout = unwind_timeout
        self.live: set[Run] = set()
        self.current: dict[str, Run] = {}
        self.in_a_row = 0
        self.flushing = Flushing(parts)
        self._substrate = substrate
        self.accepting: Accepting | None = edges.optional(substrate, "substrate", Accepting)
        self._cleaning: Cleaning | None = edges.optional(substrate, "substrate", Cleaning)
        self._job = job
        self._follow = follow
        self._arriving: dict[str, int] = {}
        self._asking: set[asyncio.Task[Any]] = set()
        """The callers that wait for the substrate to accept a Task."""

    @property
    def can_run(self) -> bool:
        """True if the Host has a substrate."""
        return self._substrate is not None

    def serves(self, kind: str) -> bool:
        """True if this Host runs Tasks of this kind."""
        return self.can_run and (self.kinds is None or kind in self.kinds)

    def not_served(self, task: Task) -> CannotStart:
        """The refusal of a Task that this Host does not run."""
        if not self.can_run:
            return CannotStart(
                "this Host is a control plane; give it a substrate to run Tasks", task.id
            )
        served = ", ".join(sorted(self.kinds or ()))
        return CannotStart(
            f"kind {task.runtime_kind!r} is not served here; this Host serves: {served}", task.id
        )

    def arrival(self, task_id: str, *, in_slot: bool = False) -> Arrival:
        """Announce a run that is being set up; ``in_slot`` is True if the caller took a slot."""
        return Arrival(self._arriving, self.slots, task_id, in_slot=in_slot)

    def arrival_in_slot(self, task_id: str, parent: str | None) -> Arrival:
        """Take a slot for a Task, unless it uses the slot of its parent's run here (R9).

        Raises:
            CannotStart: All slots are taken, or the Host is draining.
        """
        arrival = self.arrival(task_id)
        if not self._uses_slot_of(parent):
            arrival.take()
        return arrival

    async def takes(self, record: Record, arrival: Arrival) -> bool:
        """True if this Host can run a Task now and may take it.

        The arrival has then taken the slot that it needs, and knows the principal.
        """
        if not self.serves(record.task.runtime_kind):
            return False
        try:
            principal = await self.admission.admit(record)
            if not self._uses_slot_of(record.parent):
                arrival.take()
        except CannotStart:
            return False
        arrival.principal = principal
        return True

    def _uses_slot_of(self, parent: str | None) -> bool:
        """True if a run of the parent is here; mark that run as one with children."""
        run = None if parent is None else self.current.get(parent)
        if run is None:
            return False
        run.delegates = True
        return True

    async def ask(self, substrate: Accepting, task: Task) -> None:
        """Ask the substrate about a Task, until the Host closes.

        Raises:
            CannotStart: The substrate refuses the Task.
            HostClosed: The Host was closed before the substrate had answered.
        """
        caller = asyncio.current_task()
        assert caller is not None
        self._asking.add(caller)
        try:
            asked = substrate.accept(task)
            await contained(_awaitable(asked, "accept() of the substrate"))
        except asyncio.CancelledError:
            if caller not in self._asking and caller.uncancel() == 0:
                raise HostClosed from None
            raise
        finally:
            self._asking.discard(caller)

    def turn_away(self) -> None:
        """End every `ask` and every question to the resolver with `HostClosed`, and flush no more,
        because the Host closes."""
        self.admission.turn_away()
        self.flushing.stop()
        while self._asking:
            self._asking.pop().cancel()

    def on_killed(self, record: Record) -> None:
        """Have the substrate, if it is `Cleaning`, end what a killed Task runs elsewhere (R13)."""
        if self._cleaning is not None and self.serves(record.task.runtime_kind):
            self.parts.shielded.start(self._clean(self._cleaning, record))

    async def _clean(self, substrate: Cleaning, record: Record) -> None:
        task_id = record.task.id
        try:
            state = None if record.state is None else values.decode(record.state)
            await substrate.on_killed(record.task, state, await history(self.parts.store, task_id))
        except BaseException as fault:
            reraise_own_cancellation(fault)
            where = "on_killed (so the killed Task may have something running elsewhere)"
            report(fault, task_id, record.step, where, "commit")

    @asynccontextmanager
    async def held(self, task_id: str) -> AsyncIterator[Run | None]:
        """The Task's live run, if it is here; it cannot commit during the ``with``."""
        while True:
            run = self.current.get(task_id)
            if run is None or run.ended is not None:
                yield None
                return
            await run.hold()
            try:
                if self.current.get(task_id) is run and run.ended is None:
                    yield run
                    return
            finally:
                run.let_go()

    def knows(self, record: Record) -> bool:
        """True if this record's owner is a run that is live, or being set up."""
        task_id = record.task.id
        run = self.current.get(task_id)
        return task_id in self._arriving or (run is not None and run.owner == record.owner)

    def start(self, record: Record, arrival: Arrival) -> None:
        """Run a Task. If the Host began to drain meanwhile, let the Task go again (R9)."""
        if self.slots.closed:
            self.parts.shielded.start(self._let_go_of(record.task.id, record.owner, anew=True))
            return
        run = Run(self, record, arrival.principal, in_slot=arrival.hand_on())
        run.should_cancel = arrival.should_cancel
        self.live.add(run)
        self.current[run.task_id] = run
        around = copy_context()
        run.root = asyncio.get_running_loop().create_task(self._work(run), context=around)
        run.root.add_done_callback(run, context=around)

    async def _work(self, run: Run) -> Any:
        """The root coroutine of a run: it catches the stray exceptions of the substrate (R21).

        A ``SystemExit`` that left an asyncio task would stop the event loop and every other run.
        The exception is returned and not raised: while the event loop destroys this coroutine,
        Python would only log it as ignored. A ``KeyboardInterrupt`` passes after the Task is
        released.
        """
        try:
            return await self._execute(run)
        except BaseException as fault:
            # In methods of their own, because each name and each argument here costs every waiting
            # Task 8 bytes (memory in benchmarks/host.py).
            if not await self._stayed(run, fault):
                raise
            return Stray.of(fault)

    def _execute(self, run: Run) -> Any:
        assert self._substrate is not None
        return _awaitable(self._substrate.execute(self._job(run)), "execute() of the substrate")

    async def _stayed(self, run: Run, fault: BaseException) -> bool:
        """True if the root keeps the exception. On a ``KeyboardInterrupt``, release the Task."""
        if is_a(fault, KeyboardInterrupt):
            run.ended = "released"
            async with asyncio.timeout(self.unwind_timeout):
                await self._let_go(run)
            return False
        return strays(fault)

    def returned(self, run: Run, root: asyncio.Task[Any]) -> None:
        """The substrate's coroutine is done: free its slot, and end or leave its Task."""
        if run.in_slot:
            run.in_slot = False
            self.slots.give_back()
        fault = fault_of(root)
        if run.ended is not None:
            self._forget(run)
            if run.ended == "killed":
                self.on_killed(run.record)
            self._follow(run)
            if root.cancelled() or issubclass(type(fault), (TaskFailed, KeyboardInterrupt)):
                return
            if fault is None:
                self.parts.shielded.start(self._drop_result(run))
            else:
                where = f"the unwinding of a {run.ended} run"
                report(fault, run.task_id, run.record.step, where, "commit")
        elif fault is not None and run.record.state is not None and is_a(fault, StateUnreadable):
            self.parts.shielded.start(self._leave_unread(run, said(fault)))
        elif root.cancelled() and root.cancelling():
            # Cancelled, and not by this Host: the event loop is stopping. The attempt stays
            # counted, because the same cancellation may come at every attempt.
            self.parts.shielded.start(self._let_go(run))
        else:
            shielded = self.parts.shielded
            finish = shielded.at_once if self.parts.immediate else shielded.start
            finish(self._finish(run, root, fault))

    def _forget(self, run: Run) -> None:
        self.live.discard(run)
        if self.current.get(run.task_id) is run:
            del self.current[run.task_id]

    async def _finish(
        self, run: Run, root: asyncio.Task[Any], raised: BaseException | None
    ) -> None:
        """Commit the run's end; try again while the run still owns the Task (R4, R21).

        After three faults that are not a `StoreError`, the end is replaced by a failure that can be
        stored. While the store fails, each wait is longer than the last, and a kill may come in
        between.
        """
        delay, left = 0.02, 3
        self._tell_of(run, raised)
        try:
            while True:
                await run.hold()
                try:
                    if run.ended is not None:
                        if run.ended == "killed":
                            self.on_killed(run.record)
                        await self._drop_result(run)
                        return
                    if left > 0:
                        outcome, live = mutation_of(root, raised, run.notes), run.emitted()
                    else:
                        outcome, live = unstorable(), []
                    if await self._try_to_finish(run, outcome, live):
                        return
                    continue
                except Unreadable as bad:
                    # Only `kill` can end this Task: it buries the record.
                    self.parts.complaints.add(run.task_id, bad.version, bad)
                    return
                except StoreError as fault:
                    _log.warning("task %r cannot be ended yet: %s", run.task_id, said(fault))
                except GeneratorExit:
                    raise  # The event loop destroys this coroutine, so it must not wait any more.
                except BaseException as fault:
                    reraise_own_cancellation(fault)
                    where = "storing the end of the run"
                    report(fault, run.task_id, run.record.step, where, "commit")
                    left -= 1
                finally:
                    run.let_go()
                if self.news.closed:
                    return
                await asyncio.sleep(delay)
                delay = min(delay * 2, 5.0)
        finally:
            self._forget(run)

    def _tell_of(self, run: Run, fault: BaseException | None) -> None:
        """Log the fault that ended a run, unless it is a `TaskFailed`, which is an answer."""
        if fault is not None and not is_a(fault, TaskFailed):
            report(fault, run.task_id, run.record.step, counted="commit")

    async def _try_to_finish(self, run: Run, outcome: Mutation, live: Sequence[bytes]) -> bool:
        before, now = run.record, self.parts.clock()
        last = [host_events.ending(outcome, run.owner)]
        if before.inbox:
            last = [*inbox.left_over(before, run.acted_on), *last]
        written = [*live, *host_events.stored(last, now)]
        task, version = apply(before.task, outcome, now), before.version + 1
        after = Record(
            task, version, before.state, step=before.step + 1, parent=before.parent,
            terms=before.terms, realm=before.realm, form=before.form,
        )  # fmt: skip
        try:
            await answered(self.parts.store.commit(before, after, written))
        except Conflict as refused:
            await run.look(refused.latest)
            if run.record is before and run.ended is None:
                await asyncio.sleep(STALLED)
            return False
        except UnknownOutcome:
            if not await landed(self.parts.store, after, written):
                return False
        run.end("finished")
        self.news.published(after, written, len(live))
        return True

    async def _drop_result(self, run: Run) -> None:
        """Report a result that came after the Task was lost. It never ends the Task (R10)."""

        async def append(before: Record) -> Decided:
            if before.task.status.terminal:
                return None
            return successor(before), [Event(host_events.RESULT_DROPPED, {"by": run.owner})]

        try:
            await self.change(run.task_id, append)
        except (StoreError, TaskNotFound) as fault:
            lost = "task %r: the event of a dropped result is not stored: %s"
            _log.warning(lost, run.task_id, said(fault))

    async def _leave_unread(self, run: Run, reason: str) -> None:
        """Release a Task whose state the substrate cannot read, for another Host (R23)."""
        record = run.record
        self.admission.cannot_read(record)
        _log.warning(
            "task %r is left for another Host, because this one cannot read its state: %s; kill "
            "the Task if no other Host can",
            run.task_id, reason,
        )  # fmt: skip
        await self._let_go(run, uncounted=True)

    async def _let_go(self, run: Run, **how: bool) -> None:
        """Leave a Task whose run is gone: claimable, or paused with its last state."""
        try:
            await self._let_go_of(run.task_id, run.owner, **how)
        finally:
            self._forget(run)

    async def _let_go_of(self, task_id: str, owner: str | None, **how: bool) -> None:
        try:
            await self.leave(task_id, owner, **how)
        except StoreError as fault:
            _log.warning("task %r could not be let go: %s", task_id, said(fault))
        except BaseException as fault:  # A drain lets the other runs go all the same.
            reraise_own_cancellation(fault)
            log(_log, fault, "task %r: letting the Task go failed", task_id)

    async def leave(
        self,
        task_id: str,
        owner: str | None,
        *,
        pause: bool = False,
        anew: bool = False,
        uncounted: bool = False,
    ) -> None:
        """Commit that this Host lets a Task go, if the Task still has this owner.

        Args:
            owner: None for a Task that this Host has let go already, which is left alone.
            anew: True to count attempts from 0 again, because this Host let go on purpose.
            uncounted: True to take back the attempt that this Host's acquisition counted.
        """

        async def decide(before: Record) -> Decided:
            if owner is None or before.owner != owner:
                return None
            if pause or pause_waits(before):
                return successor(
                    before,
                    task=apply(before.task, Pause(), self.parts.clock()),
                    owner=None,
                    inbox=without_pause(before.inbox),
                ), [Event(host_events.TASK_PAUSED, {"by": owner, "reason": "requested"})]
            released = Event(host_events.TASK_RELEASED, {"by": owner})
            attempts = 0 if anew else max(before.attempts - uncounted, 0)
            return successor(before, owner=None, attempts=attempts), [released]

        await self.change(task_id, decide)

    async def change(self, task_id: str, decide: Decide) -> Record | None:
        """Change a Task that no run here can write to; return its next record if it is changed."""
        done = await change(self.parts, task_id, decide)
        if isinstance(done, Record):
            return None
        self.news.published(done.after, done.events)
        return done.after

    def unwinding(self, run: Run) -> None:
        """Watch a run that was told to unwind; report it if it does not unwind in time (R7)."""

        def abandoned() -> None:
            if run.root is not None and not run.root.done():
                _log.warning(
                    "task %r: a run did not unwind within %g seconds and is abandoned; its "
                    "substrate must let a cancellation pass",
                    run.task_id, self.unwind_timeout,
                )  # fmt: skip
                self.news.tell(
                    run.task_id,
                    Event(host_events.RUN_ABANDONED, {"by": run.owner}, self.parts.clock()),
                )

        asyncio.get_running_loop().call_later(self.unwind_timeout, abandoned)

    async def drain(self, *, pause: bool, timeout: float) -> None:
        """Let every run go at its next safe point.

        After ``timeout`` seconds cancel the others; their Tasks keep their last commit.
        """
        self.slots.close()
        runs = list(self.live)
        for run in runs:
            run.leave("paused" if pause else "released")
        await _until_done(runs, timeout)
        stuck = [run for run in runs if run.root is not None and not run.root.done()]
        for run in stuck:
            run.end("paused" if pause else "released")
        await _until_done(stuck, self.unwind_timeout)
        for run in stuck:
            if run.root is not None and run.root.done():
                await self._let_go(run, pause=pause, anew=True)


class Arrival:
    """A context in which a run is being set up; meanwhile the polling leaves its Task alone.

    The end of the ``with`` gives the slot back, unless the run has started and holds it.

    Attributes:
        principal: The principal that the run will act for.
        should_cancel: Asked by the run at its safe points; see `Host.run`.
    """

    __slots__ = ("_counts", "_slots", "_task_id", "in_slot", "principal", "should_cancel")

    def __init__(
        self, counts: dict[str, int], slots: Slots, task_id: str, *, in_slot: bool
    ) -> None:
        self._counts = counts
        self._slots = slots
        self._task_id = task_id
        self.in_slot = in_slot
        self.principal = NOBODY
        self.should_cancel: Callable[[], bool] | None = None

    def take(self) -> None:
        """Take a slot.

        Raises:
            CannotStart: All are taken, or the Host is draining.
        """
        self._slots.take(self._task_id)
        self.in_slot = True

    def hand_on(self) -> bool:
        """Pass the slot on to the run; return False if there is no slot."""
        in_slot, self.in_slot = self.in_slot, False
        return in_slot

    def give_up(self) -> None:
        """Give the slot back, if there is one."""
        if self.in_slot:
            self.in_slot = False
            self._slots.give_back()

    def __enter__(self) -> Self:
        self._counts[self._task_id] = self._counts.get(self._task_id, 0) + 1
        return self

    def __exit__(self, *_: object) -> None:
        left = self._counts.pop(self._task_id) - 1
        if left:
            self._counts[self._task_id] = left
        self.give_up()


def _awaitable(value: Any, method: str) -> Any:
    """Return the value that a foreign method gave, if it can be awaited.

    Raises:
        TypeError: It cannot; most often ``async`` is missing before ``def``.
    """
    if hasattr(type(value), "__await__"):
        return value
    came = edges.came(value)
    raise TypeError(f"{method} gave {came}, which cannot be awaited; write 'async def'")


async def _until_done(runs: Sequence[Run], timeout: float) -> None:
    roots = [run.root for run in runs if run.root is not None and not run.root.done()]
    if roots:
        await asyncio.wait(roots, timeout=timeout)
