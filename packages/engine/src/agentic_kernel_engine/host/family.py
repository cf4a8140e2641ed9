"""Family: the verbs whose effect reaches a Task's parent and its children.

Such a verb needs a second write, to another Task, and the process may die between the two writes.
So the second write here is only the fast way: `look_again` finds from the records alone that it is
missing, and makes up for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from agentic_kernel import (
    Complete,
    Fail,
    InvalidValue,
    Kill,
    Task,
    TaskExists,
    TaskNotFound,
    TaskStatus,
)

from .. import values
from ..pause_request import pause_waits
from ..receipt import Receipt
from ..record import Record
from ..waiting import asked, children_asking, waits_in_vain
from .admission import Binding, inherited
from .ending import exhausted
from .live_runs import Arrival, LiveRuns
from .run import Run
from .verbs import Verbs

if TYPE_CHECKING:
    from ..plans.accounts import Account
    from ..plans.limits import Limits

_PAGE: Final = 100


class Family:
    """Resumes and ends Tasks and enters runs, with the consequences for parents and children.

    Its methods are not shielded: the Host runs them in tasks of its own.

    Args:
        max_attempts: The most runs of a Task in a row that may end without progress; None for no
            limit.
    """

    def __init__(self, live: LiveRuns, verbs: Verbs, max_attempts: int | None) -> None:
        self._parts = live.parts
        self._store = live.parts.store
        self._news = live.news
        self._live = live
        self._verbs = verbs
        self._max_attempts = max_attempts

    async def resume(
        self,
        task_id: str,
        extra: str | None,
        at_version: int | None,
        decision: Mapping[str, Any] | None = None,
    ) -> Receipt:
        """Resume a Task as `Verbs.resume` does, and run it if this Host now owns it."""
        with self._live.arrival(task_id) as arrival:
            done, receipt = await self._verbs.resume(task_id, extra, at_version, decision, arrival)
            if done is not None and done.owner is not None:
                await self.enter(done, arrival)
        if done is not None:
            await self._went_on(done)
        return receipt

    async def end(
        self, task_id: str, mutation: Complete | Fail | Kill, *, force: bool = False
    ) -> Receipt:
        """End a Task as `Verbs.end` does, and resume its parent; after a kill, kill its children.

        Args:
            force: True to bury also a record that a newer version of the software can read.
        """
        ended, receipt = await self._verbs.end(task_id, mutation, force=force)
        if ended is not None:
            await self._went_on(ended)
        if isinstance(mutation, Kill):
            await self.sweep(task_id)
        return receipt

    async def enter(self, record: Record, arrival: Arrival) -> None:
        """Run a Task that this Host has just acquired, unless it must not run.

        If a pause waits, the Task is paused instead (R10). A child of a killed Task is killed (R13:
        a kill reaches every child). A Task whose runs keep dying without progress is failed.
        """
        most = self._max_attempts
        if pause_waits(record):
            await self._live.leave(record.task.id, record.owner, pause=True)
        elif record.parent is not None and await self._orphaned(record.parent):
            await self.end(record.task.id, Kill())
        elif most is not None and record.attempts > most:
            await self.end(record.task.id, exhausted(most))
        else:
            self._live.start(record, arrival)

    async def spawn(
        self,
        run: Run,
        task: Task,
        limits: Limits | Mapping[str, Any] | None = None,
        grant: Mapping[str, Any] | None = None,
    ) -> Receipt:
        """Dispatch a child in its parent's slot; a child that is stored already counts as spawned
        (R13). It acts for its parent's principal.
        """
        run.check_alive()
        self._verbs.check_start(task)
        bound = inherited(run.record, run.principal, limits, grant)
        return await self._parts.shielded.run(self._spawn(run, task, bound))

    async def _spawn(self, run: Run, task: Task, bound: Binding) -> Receipt:
        run.delegates = True
        try:
            return await self._verbs.dispatch(task, run.task_id, self._live.arrival(task.id), bound)
        except TaskExists:
            record = await self._parts.load(task.id)
            if record.parent != run.task_id:
                raise
            return Receipt(record.task, False, record.version)

    async def account(self, task_id: str) -> Account:
        """Return the use of a Task's grant, as the Task's record says (R18).

        Raises:
            TaskNotFound: No such Task is stored.
        """
        from ..plans.accounts import account_of  # Loads the plans' data, which few Hosts need.

        return account_of(await self._parts.load(task_id))

    async def fence(self, run: Run, task_id: str) -> None:
        """Make sure that a child of this run's Task that is not stored never begins."""
        run.check_alive()
        await self._parts.shielded.run(self._verbs.fence(task_id, run.record.task))

    async def regrant(self, run: Run, task_id: str, grant: Mapping[str, Any], seq: int) -> None:
        """Tell a Task of the run's family its new grant."""
        run.check_alive()
        await self._parts.shielded.run(self._verbs.regrant(task_id, grant, seq))

    async def cancel(self, run: Run, task_id: str) -> Task:
        """Kill a child; return its terminal snapshot."""
        await self._check_child(run, task_id)
        return (await self._parts.shielded.run(self.end(task_id, Kill()))).snapshot

    async def join(self, run: Run, task_id: str, statuses: Collection[TaskStatus]) -> Task:
        """Wait until a child is in one of these statuses, or has ended."""
        await self._check_child(run, task_id)
        return await self._news.wait(task_id, statuses)

    async def tell(self, run: Run, task_id: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        """Leave decisions in a child's inbox; the last of them resumes the child."""
        if not isinstance(decisions, (list, tuple)) or not decisions:
            raise InvalidValue("decisions", "must be a list of at least one decision")
        # Copy foreign mappings now: if one of them raises, the exception fails the run.
        plain = []
        for index, decision in enumerate(decisions):
            path = f"decisions[{index}]"
            plain.append(values.decode(values.encode(values.mapping(decision, path), path)))
        await self._check_child(run, task_id)
        await self._parts.shielded.run(self._tell(task_id, plain))

    async def _tell(self, task_id: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        *others, last = decisions
        for decision in others:
            await self._verbs.post(task_id, decision)
        await self.resume(task_id, None, None, last)

    async def _check_child(self, run: Run, task_id: str) -> None:
        """Check that a Task is a child of this run's Task.

        Raises:
            TaskNotFound: The Task has another parent, or is not stored.
        """
        run.check_alive()
        if (await self._parts.load(task_id)).parent != run.task_id:
            raise TaskNotFound(task_id)
        run.delegates = True

    def follow(self, run: Run) -> None:
        """After a run is gone, kill a killed Task's children, or look again at a paused Task."""
        if run.ended == "killed" and run.delegates:
            self._parts.shielded.start(self.sweep(run.task_id))
        elif run.ended == "paused" and asked(run.record.task) is not None:
            self._parts.shielded.start(self.look_again([run.record]))

    async def _went_on(self, child: Record) -> None:
        """Resume a parent that is paused because this child asked people for something.

        The parent then waits for the child itself. If the decision came through the parent, the
        parent is running already.
        """
        if child.parent is None:
            return
        with self._parts.complaints.sparing(child.parent, 0):
            parent = (await self._store.load_many([child.parent])).get(child.parent)
            if parent is not None and child.task.id in children_asking(parent.task):
                await self.resume(child.parent, None, parent.version)

    async def sweep(self, parent: str) -> None:
        """Kill every child of a killed Task that has not ended."""
        after: str | None = None
        while True:
            page = await self._store.find(parent=parent, after=after, limit=_PAGE)
            for record in page:
                if not record.task.status.terminal:
                    with self._parts.complaints.sparing(record.task.id, record.version):
                        await self.end(record.task.id, Kill())
            if len(page) < _PAGE:
                return
            after = page[-1].task.id

    async def look_again(self, paused: Sequence[Record]) -> None:
        """Resume the paused Tasks whose request is settled; kill those whose parent was killed."""
        wanted = {record.parent for record in paused if record.parent is not None}
        wanted.update(*(children_asking(record.task) for record in paused))
        found = await self._store.load_many(wanted) if wanted else {}
        tasks = {task_id: record.task for task_id, record in found.items()}
        for record in paused:
            parent = tasks.get(record.parent or "")
            with self._parts.complaints.sparing(record.task.id, record.version):
                if parent is not None and parent.status is TaskStatus.CANCELLED:
                    await self.end(record.task.id, Kill())
                elif waits_in_vain(record, tasks):
                    await self.resume(record.task.id, None, record.version)

    async def _orphaned(self, parent: str) -> bool:
        record = (await self._store.load_many([parent])).get(parent)
        return record is not None and record.task.status is TaskStatus.CANCELLED
