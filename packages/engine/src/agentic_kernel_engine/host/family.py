"""Family: what becomes of a Task's parent and children when the Task itself changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentic_kernel import Kill, Task, TaskExists, TaskStatus

from ..receipt import Receipt
from ..record import Record
from ..waiting import children_asking, waits_in_vain
from .hub import Hub

if TYPE_CHECKING:
    from .run import Run
    from .runner import LiveRuns
    from .verbs import Verbs

_PAGE = 100


class Family:
    """The relatives of Tasks in one store. Its methods are not shielded, as those of `Verbs`.

    What one Task's change means for another is a second write, and a process may die before it.
    So each is only the fast way to what `look_again` finds out from the records alone.
    """

    def __init__(self, hub: Hub, runs: LiveRuns, control: Verbs) -> None:
        self._hub = hub
        self._runs = runs
        self._control = control

    def houses(self, parent: str | None) -> bool:
        """Whether a run that is here has its children in its slot (R9); it is noted that it has."""
        run = None if parent is None else self._runs.current.get(parent)
        if run is None:
            return False
        run.delegates = True
        return True

    async def spawn(self, task: Task, parent: Run) -> Receipt:
        """Dispatch a child in its parent's slot; one that is already there counts (R13)."""
        parent.delegates = True
        try:
            return await self._control.dispatch(task, parent=parent.task_id, in_slot=False)
        except TaskExists:
            record = await self._hub.store.load(task.id)
            if record.parent != parent.task_id:
                raise
            return Receipt(record.task, False, record.version)

    async def tell(self, task_id: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        """Leave a child what its parent was told for it; the last of it lets the child go on."""
        *others, last = decisions
        for decision in others:
            await self._control.post(task_id, decision)
        await self._control.resume(task_id, None, None, last)

    async def went_on(self, child: Record) -> None:
        """Resume a parent that is paused for what this child asked people for.

        It then waits for the child itself; one that was decided about through its parent finds
        the parent running.
        """
        if child.parent is None:
            return
        with self._hub.sparing(child.parent, 0):
            parent = (await self._hub.store.load_many([child.parent])).get(child.parent)
            if parent is not None and child.task.id in children_asking(parent.task):
                await self._control.resume(child.parent, None, parent.version)

    async def sweep(self, parent: str) -> None:
        """Kill every child of a killed Task that is not terminal."""
        after: str | None = None
        while True:
            page = await self._hub.store.find(parent=parent, after=after, limit=_PAGE)
            for record in page:
                if not record.task.status.terminal:
                    with self._hub.sparing(record.task.id, record.version):
                        await self._control.end(record.task.id, Kill())
            if len(page) < _PAGE:
                return
            after = page[-1].task.id

    async def look_again(self, paused: Sequence[Record]) -> None:
        """Let those paused Tasks go on that wait in vain, and end those whose parent was killed."""
        wanted = {id for record in paused for id in (record.parent, *children_asking(record.task))}
        wanted.discard(None)
        found: Mapping[str, Record] = {}
        if wanted:
            found = await self._hub.store.load_many([id for id in wanted if id is not None])
        tasks = {task_id: record.task for task_id, record in found.items()}
        for record in paused:
            parent = tasks.get(record.parent or "")
            with self._hub.sparing(record.task.id, record.version):
                if parent is not None and parent.status is TaskStatus.CANCELLED:
                    await self._control.end(record.task.id, Kill())
                elif waits_in_vain(record, tasks):
                    await self._control.resume(record.task.id, None, record.version)
