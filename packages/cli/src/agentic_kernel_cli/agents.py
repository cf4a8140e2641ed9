"""The Host of this command: whatever a Task's runtime kind asks for, as soon as it does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agentic_kernel import Task
from agentic_kernel_engine import Host, Job, Observer, Store

from .copilot import CopilotWork
from .kinds import COPILOT, KINDS, LOCAL, LOCAL_TOOLS
from .local import LocalWork, find_model
from .place import Place
from .vendors import VendorWork


@asynccontextmanager
async def open_runtime(
    place: Place, model: str | None, observer: Observer, kinds: Collection[str] = (LOCAL,)
) -> AsyncIterator[Host]:
    """A Host that runs Tasks of these kinds, and only those it is told to, while the block goes on.

    Raises:
        CannotStart: The local model is wanted, and its package or its file is missing; the
            message says what to install.
        StoreError: The place cannot be opened.
    """
    if not {LOCAL, LOCAL_TOOLS}.isdisjoint(kinds):
        find_model(model)
    async with place.opened() as store, AgentHost(store, model, observer) as host:
        yield host


class Work:
    """A substrate that hands each Task to the one that its runtime kind asks for."""

    def __init__(self, model: str | Path | None) -> None:
        self._model = model
        self._works: dict[str, LocalWork | VendorWork | CopilotWork] = {}

    async def accept(self, task: Task) -> None:
        await self._work(task.runtime_kind).accept(task)

    async def execute(self, job: Job) -> Any:
        return await self._work(job.task.runtime_kind).execute(job)

    async def close(self) -> None:
        """Let go of the models."""
        for work in self._works.values():
            await work.close()

    def _work(self, kind: str) -> LocalWork | VendorWork | CopilotWork:
        name = LOCAL if kind == LOCAL_TOOLS else kind
        work = self._works.get(name)
        if work is None:
            work = self._works[name] = self._new(name)
        return work

    def _new(self, name: str) -> LocalWork | VendorWork | CopilotWork:
        if name == LOCAL:
            return LocalWork(self._model)
        model = None if self._model is None else str(self._model)
        return CopilotWork(model) if name == COPILOT else VendorWork(name, model)


class AgentHost(Host):
    """Runs the Tasks that this command is told to run, and no others."""

    def __init__(self, store: Store, model: str | Path | None, observer: Observer) -> None:
        self._work = Work(model)
        super().__init__(self._work, store, runtime_kinds=KINDS, observer=observer, claims=False)

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            await self._work.close()
