"""Router: passes each call on to the Runtime that serves the Task's runtime kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from agentic_kernel import (
    CannotStart,
    Failure,
    InvalidValue,
    Query,
    Runtime,
    Task,
    TaskNotFound,
    TaskStatus,
)

from . import edges, values


class Served(Runtime, Query, Protocol):
    """A Runtime that is also a Query, as a Host is."""


class Router:
    """A Runtime and a Query over several others; ``runtime_kind`` selects one of them.

    Args:
        runtimes: The Runtime for each kind. Several kinds may share a Runtime, and several
            Runtimes may share a store.
    """

    def __init__(self, runtimes: Mapping[str, Served]) -> None:
        if not isinstance(runtimes, Mapping):
            raise InvalidValue(
                "runtimes", f"must be a mapping by runtime kind, not {type(runtimes).__name__}"
            )
        if not runtimes:
            raise InvalidValue("runtimes", "is empty; name at least one runtime kind")
        for kind, runtime in runtimes.items():
            values.check_id(kind, "runtimes' key")
            edges.part(runtime, f"runtimes[{edges.came(kind)}]", Served)
        self._runtimes = dict(runtimes)
        self._distinct = list({id(runtime): runtime for runtime in runtimes.values()}.values())

    async def dispatch(self, task: Task, **terms: Any) -> object:
        """Dispatch on the Runtime of the Task's kind.

        Args:
            **terms: ``principal`` and ``limits``, if the Runtime takes them, as a Host does.

        Raises:
            CannotStart: No Runtime serves the kind; nothing is written.
        """
        if not isinstance(task, Task):
            raise InvalidValue("task", f"must be a Task, not {type(task).__name__}")
        runtime = self._runtimes.get(task.runtime_kind)
        if runtime is None:
            known = ", ".join(sorted(self._runtimes))
            raise CannotStart(
                f"no Runtime is registered for the kind {task.runtime_kind!r}; known: {known}",
                task.id,
            )
        return await runtime.dispatch(task, **terms)

    async def pause(self, task_id: str) -> object:
        return await (await self._runtime_of(task_id)).pause(task_id)

    async def resume(self, task_id: str, extra: str | None = None) -> object:
        return await (await self._runtime_of(task_id)).resume(task_id, extra)

    async def kill(self, task_id: str) -> object:
        return await (await self._runtime_of(task_id)).kill(task_id)

    async def complete(self, task_id: str, result: Any) -> object:
        return await (await self._runtime_of(task_id)).complete(task_id, result)

    async def fail(self, task_id: str, failure: Failure) -> object:
        return await (await self._runtime_of(task_id)).fail(task_id, failure)

    async def get(self, task_id: str) -> Task:
        return (await self._locate(task_id))[0]

    async def get_many(self, task_ids: Iterable[str]) -> Mapping[str, Task]:
        wanted = list(edges.ids(task_ids, "task_ids"))
        found: dict[str, Task] = {}
        for runtime in self._distinct:
            found.update(await runtime.get_many([id for id in wanted if id not in found]))
        return found

    async def find(
        self, status: TaskStatus | None = None, after: str | None = None, limit: int = 100
    ) -> Sequence[Task]:
        merged: dict[str, Task] = {}
        for runtime in self._distinct:
            for task in await runtime.find(status, after, limit):
                merged.setdefault(task.id, task)
        return [merged[task_id] for task_id in sorted(merged)[:limit]]

    async def _locate(self, task_id: str) -> tuple[Task, Served]:
        for runtime in self._distinct:
            try:
                return await runtime.get(task_id), runtime
            except TaskNotFound:
                continue
        raise TaskNotFound(task_id)

    async def _runtime_of(self, task_id: str) -> Served:
        """The Runtime of the Task's kind; if there is none, the Runtime that knows the Task."""
        task, holder = await self._locate(task_id)
        return self._runtimes.get(task.runtime_kind, holder)
