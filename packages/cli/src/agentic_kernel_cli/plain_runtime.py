"""PlainRuntime: a Runtime that is no Host, such as a `Router`, behind the command's verbs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentic_kernel import CannotStart, Runtime, Task, TaskStatus
from agentic_kernel_engine import Host, Limits, Receipt, Store

VERBS: Final = ("dispatch", "pause", "resume", "kill", "complete", "fail")
"""The verbs of the port `Runtime`."""


def is_runtime(found: object) -> bool:
    """True if the object has all verbs of a Runtime."""
    return all(callable(getattr(found, verb, None)) for verb in VERBS)


class PlainRuntime(Host):
    """A control plane on the store, which passes ``dispatch`` and ``resume`` on to a Runtime.

    A Runtime has no verb that takes up a Task of a dead process or acts on a decision. So these go
    to the store, and a Host must take the Task.

    Args:
        runtime: The Runtime; its Tasks are in the store.
        store: The store.
    """

    def __init__(self, runtime: Runtime, store: Store) -> None:
        super().__init__(store=store)
        self._runtime = runtime
        self._begun: list[str] = []

    @property
    def runs_tasks(self) -> bool:
        """True: its Runtime does."""
        return True

    async def dispatch(
        self, task: Task, *, limits: Limits | Mapping[str, Any] | None = None, **terms: Any
    ) -> Receipt:
        """Dispatch on the Runtime.

        Raises:
            CannotStart: There are limits, which a Runtime does not take; or the Runtime refuses.
        """
        if limits:
            named = limits if isinstance(limits, Mapping) else limits.__struct_fields__
            raise CannotStart(
                f"the app is a Runtime, which takes no limits; remove {', '.join(named)} from the "
                "settings, or name a Host",
                task.id,
            )
        await self._runtime.dispatch(task)
        self._begun.append(task.id)
        return await self._receipt(task.id, changed=True)

    async def resume(
        self, task_id: str, extra: str | None = None, *, at_version: int | None = None
    ) -> Receipt:
        """Resume on the Runtime, if the record still has this version."""
        record = await self.record(task_id)
        if record.task.status is not TaskStatus.PAUSED or at_version not in (None, record.version):
            return await self._receipt(task_id, changed=False)
        await self._runtime.resume(task_id, extra)
        self._begun.append(task_id)
        return await self._receipt(task_id, changed=True)

    async def claim(self, task_id: str) -> Receipt:
        """Refuse: a Runtime has no such verb."""
        raise CannotStart(
            "the app is a Runtime, which cannot take up a Task that another process left; name a "
            "Host",
            task_id,
        )

    async def drain(self, *, pause: bool = False, timeout: float = 30.0) -> None:
        """Pause the Tasks that began here, and wait until they rest."""
        for task_id in self._begun:
            await self._runtime.pause(task_id)
        for task_id in self._begun:
            await self.wait(task_id, TaskStatus.PAUSED)

    async def close(self) -> None:
        """Close the Runtime, if it can be closed, and this Host."""
        from .works import closed  # Loads the Loop, which most commands do not need.

        try:
            await closed(self._runtime)
        finally:
            await super().close()

    async def _receipt(self, task_id: str, *, changed: bool) -> Receipt:
        record = await self.record(task_id)
        return Receipt(record.task, changed, record.version)
