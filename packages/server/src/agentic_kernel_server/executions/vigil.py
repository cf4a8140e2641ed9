"""Vigil: takes a paused execution here again when it goes on: its agent's stream is here."""

from __future__ import annotations

import asyncio
from typing import Final

from agentic_kernel import TaskNotFound, TaskStatus
from agentic_kernel_engine import HostClosed, Record, StoreError

from ..agents.consumers import Key
from ..parts import Parts
from .requests import Handover, to_decision
from .state import decoded
from .taking import take, wish

_PATIENCE: Final = 60.0
"""Seconds between two looks if nothing is heard."""
_ASK_AGAIN: Final = 2.0
"""Seconds after which the owner is asked again to hand the execution over."""


class Vigil:
    """The wait of one process for one paused execution.

    Args:
        parts: The parts that the server shares.
        task_id: The execution.
        key: The consumer that has it.
        current: True if everything has been pushed to the consumer here.
    """

    def __init__(self, parts: Parts, task_id: str, key: Key, *, current: bool) -> None:
        self._parts = parts
        self._task_id = task_id
        self.key = key
        self.current = current

    @classmethod
    def begin(cls, parts: Parts, task_id: str, key: Key, *, current: bool) -> None:
        """Wait in the background; a second vigil for the same execution is not begun."""
        known = parts.vigils.get(task_id)
        if known is not None and known.key == key:
            known.current = current
        elif not parts.draining:
            vigil = parts.vigils[task_id] = cls(parts, task_id, key, current=current)
            parts.start(vigil.keep())

    async def keep(self) -> None:
        """Wait until the execution runs here, has ended, or has gone to another consumer."""
        try:
            while not self._parts.draining:
                try:
                    if await self._look():
                        return
                except TaskNotFound:
                    return
                except StoreError:
                    await asyncio.sleep(1.0)
        except HostClosed:
            pass
        finally:
            if self._parts.vigils.get(self._task_id) is self:
                del self._parts.vigils[self._task_id]

    async def _look(self) -> bool:
        """Look once, and wait for the next news; True if the vigil is over."""
        parts, task_id = self._parts, self._task_id
        record = await parts.store.load(task_id)
        task = record.task
        state = decoded(record.state)
        session = None if state is None else state.session
        consumer = parts.agents.find(self.key)
        if task.status.terminal:
            if task.status is TaskStatus.CANCELLED and consumer is not None:
                consumer.push("execution.cancelled", {"execution_id": task_id})
            return True
        if task_id in parts.runs or session is None or session.consumer != self.key.consumer:
            return True
        if task.status is TaskStatus.PAUSED:
            left = _seconds_left(record, parts.now())
            if left <= 0:
                await take(parts, record)
                return task_id in parts.runs
            await self._hear(TaskStatus.RUNNING, left)
            return False
        if record.owner is not None and await parts.store.alive(record.owner):
            if task_id in parts.runs:
                return True
            handover = to_decision(Handover(self.key.consumer), "")
            if await wish(parts, task_id, handover):
                await self._hear(TaskStatus.PAUSED, _ASK_AGAIN)
            return False
        await take(parts, record)
        return task_id in parts.runs

    async def _hear(self, status: TaskStatus, seconds: float) -> None:
        try:
            async with asyncio.timeout(min(seconds, _PATIENCE)):
                await self._parts.executions.wait(self._task_id, status)
        except TimeoutError:
            pass


def _seconds_left(record: Record, now: float) -> float:
    """Seconds until a paused Task is due."""
    return _PATIENCE if record.due_at is None else record.due_at.timestamp() - now
