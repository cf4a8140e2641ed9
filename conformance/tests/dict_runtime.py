"""A Runtime and a Query straight on the kernel, without the engine: what the contract asks for.

Everything lives in one process: a dict of snapshots, and one lock per Task that serialises its
mutators. Reading takes no lock, because a snapshot is replaced as a whole and never changed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from agentic_kernel import (
    CannotStart,
    Complete,
    Dispatch,
    Fail,
    Failure,
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


class Execution:
    """The Runtime as a running piece of work sees it."""

    def __init__(self, runtime: DictRuntime, task: Task) -> None:
        self.task = task
        self.output: list[str] = []
        self.go_on = asyncio.Event()
        self.pause_asked = False
        self._runtime = runtime

    async def safe_point(self) -> None:
        """The point at which a pause takes effect; returns when the Task runs."""
        await asyncio.sleep(0)
        if self.pause_asked:
            self.pause_asked = False
            self.go_on.clear()
            await self._runtime.change(self.task.id, Pause())
            await self.go_on.wait()


Perform = Callable[[Execution], Awaitable[Any]]
"""The substrate: does the work and returns its result, or raises."""


class DictRuntime:
    """A Runtime and a Query over a dict.

    Args:
        perform: Does the work of a Task.
        runtime_kind: The kind it serves; other Tasks are refused.
    """

    def __init__(self, perform: Perform, runtime_kind: str = "dict") -> None:
        self._perform = perform
        self._kind = runtime_kind
        self._tasks: dict[str, Task] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._runs: dict[str, tuple[Execution, asyncio.Task[None]]] = {}

    async def dispatch(self, task: Task) -> None:
        if task.runtime_kind != self._kind:
            raise CannotStart(f"this runtime serves {self._kind!r} only", task.id)
        async with self._locks[task.id]:
            if task.id in self._tasks:
                raise TaskExists(task.id)
            self._tasks[task.id] = apply(task, Dispatch(), datetime.now(UTC))
        execution = Execution(self, task)
        self._runs[task.id] = execution, asyncio.create_task(self._run(execution))

    async def pause(self, task_id: str) -> None:
        if (await self.get(task_id)).status is TaskStatus.RUNNING and task_id in self._runs:
            self._runs[task_id][0].pause_asked = True

    async def resume(self, task_id: str, extra: str | None = None) -> None:
        await self.change(task_id, Resume(extra))
        if task_id in self._runs:
            self._runs[task_id][0].go_on.set()

    async def kill(self, task_id: str) -> None:
        output = self._runs[task_id][0].output if task_id in self._runs else []
        notes = {"dict/partial_output": "".join(output)} if output else None
        await self.change(task_id, Kill(notes=notes))
        self._stop(task_id)

    async def complete(self, task_id: str, result: Any) -> None:
        await self.change(task_id, Complete(result))
        self._stop(task_id)

    async def fail(self, task_id: str, failure: Failure) -> None:
        await self.change(task_id, Fail(failure))
        self._stop(task_id)

    async def get(self, task_id: str) -> Task:
        try:
            return self._tasks[task_id]
        except KeyError:
            raise TaskNotFound(task_id) from None

    async def get_many(self, task_ids: Iterable[str]) -> Mapping[str, Task]:
        return {task_id: self._tasks[task_id] for task_id in task_ids if task_id in self._tasks}

    async def find(
        self, status: TaskStatus | None = None, after: str | None = None, limit: int = 100
    ) -> Sequence[Task]:
        ids = sorted(task_id for task_id in self._tasks if after is None or task_id > after)
        tasks = (self._tasks[task_id] for task_id in ids)
        return [task for task in tasks if status is None or task.status is status][:limit]

    async def change(self, task_id: str, mutation: Mutation) -> None:
        """Apply one mutation; the lock makes mutators on one Task follow each other."""
        if task_id not in self._tasks:
            raise TaskNotFound(task_id)
        async with self._locks[task_id]:
            task = self._tasks[task_id]
            self._tasks[task_id] = apply(task, mutation, datetime.now(UTC))

    async def close(self) -> None:
        """Stop everything that runs."""
        runs = [run for _, run in self._runs.values()]
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)

    async def _run(self, execution: Execution) -> None:
        try:
            end: Mutation = Complete(await self._perform(execution))
        except Exception as error:
            text = str(error) or type(error).__name__
            end = Fail(Failure("dict/unhandled_error", text))
        await self.change(execution.task.id, end)

    def _stop(self, task_id: str) -> None:
        if task_id in self._runs:
            self._runs[task_id][1].cancel()
