"""The runs of one Host: their slots, their beginnings, their ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from agentic_kernel import (
    Kill,
    Mutation,
    Pause,
    Task,
    TaskNotFound,
    TaskStatus,
    apply,
)

from .. import events as vocabulary
from .. import values
from ..errors import Conflict, StoreError, TaskFailed, UnknownOutcome, Unreadable
from ..events import Checked, Event
from ..faults import Stray, contained, is_a, passes, report, said, strays
from ..record import Record
from ..waiting import asked
from .change import STALLED, Change, change, landed, successor
from .ending import exhausted, fault_of, mutation_of, unstorable
from .hub import Hub
from .job import Job
from .run import Run, pause_waits, without_pause
from .slots import Slots

if TYPE_CHECKING:
    from ..substrate import Substrate
    from .verbs import Verbs

_log = logging.getLogger(__name__)


class LiveRuns:
    """What one Host has running, keyed by (Task, owner) (R7).

    A run's slot is given back when its coroutine is gone: one that will not unwind keeps it.
    """

    control: Verbs
    """Set by the Host, once both are made."""

    def __init__(
        self,
        hub: Hub,
        substrate: Substrate | None,
        *,
        max_in_flight: int | None,
        max_attempts: int | None,
        unwind_timeout: float,
    ) -> None:
        self.hub = hub
        self.slots = Slots(max_in_flight)
        self.max_attempts = max_attempts
        self.unwind_timeout = unwind_timeout
        self.live: set[Run] = set()
        self.current: dict[str, Run] = {}
        self._substrate = substrate
        self._arriving: dict[str, int] = {}

    @property
    def can_run(self) -> bool:
        return self._substrate is not None

    async def accept(self, task: Task) -> None:
        """Ask the substrate, if it has an opinion.

        Raises:
            CannotStart: It refuses the Task.
        """
        accept = getattr(self._substrate, "accept", None)
        if accept is not None:
            await contained(accept(task))

    def on_killed(self, record: Record) -> None:
        """Have the substrate, if it can, end what a killed Task has running elsewhere (R13)."""
        on_killed = getattr(self._substrate, "on_killed", None)
        if on_killed is not None and self.control.serves(record.task.runtime_kind):
            self.hub.owned.start(self._on_killed(on_killed, record))

    async def _on_killed(self, on_killed: Callable[..., Awaitable[None]], record: Record) -> None:
        task_id = record.task.id
        try:
            state = None if record.state is None else values.decode(record.state)
            await on_killed(record.task, state, await self.hub.history(task_id))
        except BaseException as fault:
            passes(fault)
            where = "on_killed, so the killed Task may have something running elsewhere; it"
            report(fault, task_id, record.step, where)

    def arriving(self, task_id: str) -> _Arriving:
        """A run of this Task is being set up; the watch is to leave it alone."""
        return _Arriving(self._arriving, task_id)

    @asynccontextmanager
    async def held(self, task_id: str) -> AsyncIterator[Run | None]:
        """The Task's live run, if it is here, kept from committing for the while."""
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
        """Whether this record's owner is a run that is live, or being set up."""
        task_id = record.task.id
        run = self.current.get(task_id)
        return task_id in self._arriving or (run is not None and run.owner == record.owner)

    async def enter(self, record: Record, *, in_slot: bool) -> None:
        """Run a Task that this host has just acquired, unless it must not run.

        A pause that waited is committed first (R10), a child of a killed Task is killed (R13), and
        a Task whose runs keep dying before they get any further is failed.
        """
        try:
            if pause_waits(record):
                await self._leave(record, pause=True)
            elif record.parent is not None and await self._orphaned(record.parent):
                await self.control.end(record.task.id, Kill())
            elif self.max_attempts is not None and record.attempts > self.max_attempts:
                await self.control.end(record.task.id, exhausted(self.max_attempts))
            else:
                self.start(record, in_slot=in_slot)
                return
        except BaseException:
            if in_slot:
                self.slots.give_back()
            raise
        if in_slot:
            self.slots.give_back()

    def start(self, record: Record, *, in_slot: bool) -> None:
        """Run a Task; or let it go again, if it was acquired while the host began to drain (R9)."""
        if self.slots.closed:
            if in_slot:
                self.slots.give_back()
            self.hub.owned.start(self._let_go_of(record))
            return
        run = Run(self, record, in_slot=in_slot)
        self.live.add(run)
        self.current[run.task_id] = run
        around = copy_context()
        run.root = asyncio.get_running_loop().create_task(self._work(run), context=around)
        run.root.add_done_callback(run, context=around)

    async def _work(self, run: Run) -> Any:
        """The root of a run: what the substrate raises stays in here (R21).

        A ``SystemExit`` that left an asyncio task would stop the event loop and every other run.
        It is handed on as a value, because an exception raised while the event loop destroys this
        coroutine would be reported as one that was ignored. A ``KeyboardInterrupt`` does pass, once
        the Task is released.
        """
        assert self._substrate is not None
        try:
            return await self._substrate.execute(Job(run))
        except BaseException as fault:
            # Apart, because whatever is named here is memory of every Task that waits.
            if not await self._stayed(run, fault):
                raise
            return Stray.of(fault)

    async def _stayed(self, run: Run, fault: BaseException) -> bool:
        """Whether the root keeps an exception; if the process is interrupted, let go first."""
        if is_a(fault, KeyboardInterrupt):
            run.ended = "released"
            async with asyncio.timeout(self.unwind_timeout):
                await self._let_go(run)
            return False
        return strays(fault)

    async def _orphaned(self, parent: str) -> bool:
        try:
            record = await self.hub.store.load(parent)
        except (TaskNotFound, Unreadable):
            return False
        return record.task.status is TaskStatus.CANCELLED

    def returned(self, run: Run, root: asyncio.Task[Any]) -> None:
        """The substrate is done, one way or another: decide what its Task becomes."""
        if run.in_slot:
            run.in_slot = False
            self.slots.give_back()
        fault = fault_of(root)
        if run.ended is not None:
            self._forget(run)
            if run.ended == "killed":
                self.on_killed(run.record)
                if run.delegates:
                    self.hub.owned.start(self.control.family.sweep(run.task_id))
            if run.ended == "paused" and asked(run.record.task) is not None:
                self.hub.owned.start(self.control.family.look_again([run.record]))
            if root.cancelled() or issubclass(type(fault), (TaskFailed, KeyboardInterrupt)):
                return
            if fault is None:
                self.hub.owned.start(self._drop_result(run))
            else:
                report(fault, run.task_id, run.record.step, f"the unwinding of a {run.ended} run")
        elif root.cancelled() and root.cancelling():
            # Cancelled from outside, without a word from this host: the event loop is stopping.
            # The attempt stays counted, because whatever cancels may do so at every attempt.
            self.hub.owned.start(self._let_go(run))
        else:
            finish = self.hub.owned.at_once if self.hub.immediate else self.hub.owned.start
            finish(self._finish(run, root))

    def _forget(self, run: Run) -> None:
        self.live.discard(run)
        if self.current.get(run.task_id) is run:
            del self.current[run.task_id]

    async def _finish(self, run: Run, root: asyncio.Task[Any]) -> None:
        """Commit the run's end, again and again while it still owns the Task (R4, R21).

        An end that cannot be stored is replaced by a failure that can be. While the store fails,
        the run waits longer after each attempt, and a kill may come in between.
        """
        delay, storable = 0.02, True
        self._tell_of(run, root)
        try:
            while True:
                await run.hold()
                try:
                    if run.ended is not None:
                        if run.ended == "killed":
                            self.on_killed(run.record)
                        await self._drop_result(run)
                        return
                    if storable:
                        outcome, live = mutation_of(root, run.notes), run.emitted()
                    else:
                        outcome, live = unstorable(), []
                    if await self._try_to_finish(run, outcome, live):
                        return
                    continue
                except Unreadable as bad:
                    # Nobody can end it but `kill`, which buries it.
                    self.hub.complain(run.task_id, bad.version, bad)
                    return
                except StoreError as fault:
                    reason = said(fault)
                    _log.warning("task %r cannot be ended yet: %s", run.task_id, reason)
                except BaseException as fault:
                    passes(fault)
                    report(fault, run.task_id, run.record.step, "storing the end of the run")
                    if storable:
                        storable = False
                        continue
                finally:
                    run.let_go()
                if self.hub.closed:
                    return
                await asyncio.sleep(delay)
                delay = min(delay * 2, 5.0)
        finally:
            self._forget(run)

    def _tell_of(self, run: Run, root: asyncio.Task[Any]) -> None:
        """Log what ended a run, unless the substrate meant it as an answer."""
        fault = fault_of(root)
        if fault is not None and not is_a(fault, TaskFailed):
            report(fault, run.task_id, run.record.step)

    async def _try_to_finish(self, run: Run, outcome: Mutation, live: Sequence[bytes]) -> bool:
        before, now = run.record, self.hub.clock()
        end = vocabulary.ending(outcome, run.owner)
        written = [*live, *vocabulary.stored([Checked(end.type, end.data)], now)]
        task, version = apply(before.task, outcome, now), before.version + 1
        after = Record(
            task, version, before.state, step=before.step + 1, parent=before.parent,
            terms=before.terms, realm=before.realm, form=before.form,
        )  # fmt: skip
        try:
            await self.hub.store.commit(before, after, written)
        except Conflict as refused:
            try:
                run.absorb(refused.latest or await self.hub.store.load(run.task_id))
            except TaskNotFound:
                run.end("lost")
            if run.record is before and run.ended is None:
                await asyncio.sleep(STALLED)
            return False
        except UnknownOutcome:
            if not await landed(self.hub.store, after, written):
                return False
        run.end("finished")
        self.hub.published(after, written, len(live))
        return True

    async def _drop_result(self, run: Run) -> None:
        """A result that came after the Task was lost never ends it; it is only reported (R10)."""

        async def append(before: Record) -> tuple[Record, Sequence[Event]] | None:
            if before.task.status.terminal:
                return None
            return successor(before), [Event(vocabulary.RESULT_DROPPED, {"by": run.owner})]

        try:
            done = await change(self.hub, run.task_id, append)
        except (StoreError, TaskNotFound) as fault:
            reason = said(fault)
            _log.warning("task %r: a dropped result is not on record: %s", run.task_id, reason)
            return
        if isinstance(done, Change):
            self.hub.landed(done)

    async def _let_go(self, run: Run, *, pause: bool = False, anew: bool = False) -> None:
        """Leave a Task whose run is gone: claimable, or paused from its last state.

        Args:
            anew: Whether the attempt no longer counts, because this host let go on purpose.
        """
        try:
            await self._let_go_of(run.record, pause=pause, anew=anew)
        finally:
            self._forget(run)

    async def _let_go_of(self, record: Record, *, pause: bool = False, anew: bool = True) -> None:
        try:
            await self._leave(record, pause=pause, anew=anew)
        except StoreError as fault:
            reason = said(fault)
            _log.warning("task %r stays owned by this host for now: %s", record.task.id, reason)

    async def _leave(self, record: Record, *, pause: bool, anew: bool = True) -> None:
        owner = record.owner

        async def leave(before: Record) -> tuple[Record, Sequence[Event]] | None:
            if before.owner != owner:
                return None
            if pause or pause_waits(before):
                return successor(
                    before,
                    task=apply(before.task, Pause(), self.hub.clock()),
                    owner=None,
                    inbox=without_pause(before.inbox),
                ), [Event(vocabulary.TASK_PAUSED, {"by": owner, "reason": "requested"})]
            released = Event(vocabulary.TASK_RELEASED, {"by": owner})
            attempts = 0 if anew else before.attempts
            return successor(before, owner=None, attempts=attempts), [released]

        done = await change(self.hub, record.task.id, leave)
        if isinstance(done, Change):
            self.hub.landed(done)

    def unwinding(self, run: Run) -> None:
        """Watch a run that was told to unwind; report it if it does not (R7)."""

        def report() -> None:
            if run.root is not None and not run.root.done():
                _log.warning("task %r: a run did not unwind and is abandoned", run.task_id)
                self.hub.tell(
                    run.task_id,
                    Event(vocabulary.RUN_ABANDONED, {"by": run.owner}, self.hub.clock()),
                )

        asyncio.get_running_loop().call_later(self.unwind_timeout, report)

    async def drain(self, *, pause: bool, timeout: float) -> None:
        """Let every run go at its next safe point; after ``timeout``, from its last commit."""
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


class _Arriving:
    """Counts a Task as arriving, for as long as it is entered."""

    __slots__ = ("_counts", "_task_id")

    def __init__(self, counts: dict[str, int], task_id: str) -> None:
        self._counts = counts
        self._task_id = task_id

    def __enter__(self) -> None:
        self._counts[self._task_id] = self._counts.get(self._task_id, 0) + 1

    def __exit__(self, *_: object) -> None:
        left = self._counts.pop(self._task_id) - 1
        if left:
            self._counts[self._task_id] = left


async def _until_done(runs: Sequence[Run], timeout: float) -> None:
    roots = [run.root for run in runs if run.root is not None and not run.root.done()]
    if roots:
        await asyncio.wait(roots, timeout=timeout)
