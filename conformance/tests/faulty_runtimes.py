"""Runtimes with one mistake each, such as a real author might make. None of them conforms."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from agentic_kernel import (
    CannotStart,
    Complete,
    Dispatch,
    Fail,
    Failure,
    IllegalTransition,
    Kill,
    Mutation,
    Pause,
    Resume,
    Task,
    TaskNotFound,
    TaskStatus,
    apply,
)

from .dict_runtime import DictRuntime, Execution, Perform


def _now() -> datetime:
    return datetime.now(UTC)


class NoLock(DictRuntime):
    """Reads, lets others have their turn, and writes what it had decided before."""

    async def change(self, task_id: str, mutation: Mutation) -> None:
        changed = apply(await self.get(task_id), mutation, _now())
        await asyncio.sleep(0)
        self._tasks[task_id] = changed


class StaleCache(DictRuntime):
    """Answers with what it knew one change ago."""

    def __init__(self, perform: Perform) -> None:
        super().__init__(perform)
        self._known: dict[str, Task] = {}

    async def change(self, task_id: str, mutation: Mutation) -> None:
        if task_id in self._tasks:
            self._known[task_id] = self._tasks[task_id]
        await super().change(task_id, mutation)
        asyncio.get_running_loop().call_later(0.02, self._known.pop, task_id, None)

    async def get(self, task_id: str) -> Task:
        return self._known.get(task_id) or await super().get(task_id)


class LateStamp(DictRuntime):
    """Writes the end first, and when it was a moment later."""

    async def change(self, task_id: str, mutation: Mutation) -> None:
        await super().change(task_id, mutation)
        whole = self._tasks[task_id]
        if whole.status.terminal and isinstance(mutation, (Complete, Fail, Kill)):
            early = copy.copy(whole)
            object.__setattr__(early, "ended_at", None)
            self._tasks[task_id] = early
            for _ in range(3):
                await asyncio.sleep(0)
            self._tasks[task_id] = whole


class Resurrected(DictRuntime):
    """Lets a kill have the last word, whatever came before."""

    async def kill(self, task_id: str) -> None:
        task = await self.get(task_id)
        if task.status.terminal:
            self._tasks[task_id] = replace(
                task, status=TaskStatus.CANCELLED, result=None, failure=None
            )
        else:
            await super().kill(task_id)


class DoubleDispatch(DictRuntime):
    """Runs a Task again when it is dispatched again."""

    async def dispatch(self, task: Task) -> None:
        self._tasks.pop(task.id, None)
        await super().dispatch(task)


class StartsAnything(DictRuntime):
    """Dispatches what has already been somewhere else."""

    async def dispatch(self, task: Task) -> None:
        try:
            await super().dispatch(task)
        except IllegalTransition:
            self._tasks[task.id] = task


class StoresWhatItRefuses(DictRuntime):
    """Stores a Task first, and looks afterwards whether it can run it."""

    async def dispatch(self, task: Task) -> None:
        if task.runtime_kind != self._kind:
            self._tasks[task.id] = apply(task, Dispatch(), _now())
            raise CannotStart("this runtime does not serve it", task.id)
        await super().dispatch(task)


class TornResume(DictRuntime):
    """Lets the Task run, and hands the extra in afterwards."""

    async def resume(self, task_id: str, extra: str | None = None) -> None:
        paused = await self.get(task_id)
        await super().resume(task_id)
        if extra is not None and paused.status is TaskStatus.PAUSED:
            await asyncio.sleep(0)
            task = self._tasks[task_id]
            self._tasks[task_id] = replace(task, supplements=[*task.supplements, extra])


class KeptExtra(DictRuntime):
    """Keeps an extra that came too early for the next resume."""

    def __init__(self, perform: Perform) -> None:
        super().__init__(perform)
        self._early: dict[str, list[str]] = {}

    async def resume(self, task_id: str, extra: str | None = None) -> None:
        task = await self.get(task_id)
        if task.status is TaskStatus.RUNNING and extra is not None:
            self._early.setdefault(task_id, []).append(extra)
            return
        for early in self._early.pop(task_id, []):
            await self.change(task_id, Resume(early))
            await self.change(task_id, Pause())
        await super().resume(task_id, extra)


class EmptyExtraDropped(DictRuntime):
    """Tests an extra for truth and not for presence."""

    async def resume(self, task_id: str, extra: str | None = None) -> None:
        await super().resume(task_id, extra or None)


class FalsyResultReplaced(DictRuntime):
    """Tests a result for truth and not for presence."""

    async def complete(self, task_id: str, result: Any) -> None:
        await super().complete(task_id, result or {"result": "none"})


class CompletesWhatIsPaused(DictRuntime):
    """Resumes a paused Task on its own so that it can complete it."""

    async def complete(self, task_id: str, result: Any) -> None:
        if (await self.get(task_id)).status is TaskStatus.PAUSED:
            await self.change(task_id, Resume())
        await super().complete(task_id, result)


class RaisesOnTheEnded(DictRuntime):
    """Takes a kill of what has ended for a mistake of the caller."""

    async def kill(self, task_id: str) -> None:
        task = await self.get(task_id)
        if task.status.terminal:
            raise IllegalTransition(task_id, task.status, "kill")
        await super().kill(task_id)


class SilentOnTheUnknown(DictRuntime):
    """Ignores verbs on Tasks that it does not know."""

    async def kill(self, task_id: str) -> None:
        try:
            await super().kill(task_id)
        except TaskNotFound:
            return


class NeverPauses(DictRuntime):
    """Accepts a pause and forgets it."""

    async def pause(self, task_id: str) -> None:
        await self.get(task_id)


class ForgetsOutput(DictRuntime):
    """Drops what a Task had produced when it is killed."""

    async def kill(self, task_id: str) -> None:
        await self.change(task_id, Kill())
        self._stop(task_id)


class OneAtATime(DictRuntime):
    """Runs the next Task when the last one has ended, and says that all are running."""

    def __init__(self, perform: Perform) -> None:
        super().__init__(perform)
        self._turn = asyncio.Lock()

    async def _run(self, execution: Execution) -> None:
        async with self._turn:
            await super()._run(execution)


class KillsTheNeighbours(DictRuntime):
    """Shares one worker between Tasks, and ends it with the first that is killed."""

    async def kill(self, task_id: str) -> None:
        await super().kill(task_id)
        for other in [t for t in self._tasks if not self._tasks[t].status.terminal]:
            await super().fail(other, Failure("dict/worker_lost", "its worker was ended"))


class RewritesInput(DictRuntime):
    """Adds to the metadata that came in with the Task."""

    async def dispatch(self, task: Task) -> None:
        stamped = {**task.metadata, "acme/given": "seen"}
        await super().dispatch(replace(task, metadata=stamped))


class AliasedResult(DictRuntime):
    """Keeps the caller's own object as the result."""

    async def complete(self, task_id: str, result: Any) -> None:
        await super().complete(task_id, result)
        task = copy.copy(self._tasks[task_id])
        object.__setattr__(task, "result", result)
        self._tasks[task_id] = task


class SlowReaders(DictRuntime):
    """Has its readers wait for the lock of its mutators."""

    def __init__(self, perform: Perform) -> None:
        super().__init__(perform)
        self._gate = asyncio.Lock()

    async def change(self, task_id: str, mutation: Mutation) -> None:
        async with self._gate:
            await super().change(task_id, mutation)

    async def get(self, task_id: str) -> Task:
        async with self._gate:
            return await super().get(task_id)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keep mutators, and with them everybody, waiting."""
        async with self._gate:
            yield


class InclusiveAfter(DictRuntime):
    """Begins a page with the id that ended the one before."""

    async def find(
        self, status: TaskStatus | None = None, after: str | None = None, limit: int = 100
    ) -> Sequence[Task]:
        page = await super().find(status, None, 1_000_000)
        return [task for task in page if after is None or task.id >= after][:limit]


class RaisesForOneUnknown(DictRuntime):
    """Finds none of many Tasks if one of them is unknown."""

    async def get_many(self, task_ids: Any) -> Any:
        return {task_id: await self.get(task_id) for task_id in task_ids}


class ReadsRepair(DictRuntime):
    """Takes the chance of a read to note when it was."""

    async def get(self, task_id: str) -> Task:
        task = await super().get(task_id)
        if task.status is TaskStatus.SUCCESS:
            metadata = {**task.metadata, "dict/read_at": _now().isoformat()}
            noted = task.noted | {"dict/read_at"}
            self._tasks[task_id] = replace(task, metadata=metadata, noted=noted)
        return task
