"""Stores and Hosts with mistakes that show only when callers race. None of them conforms."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Conflict, Host, MemoryStore, Receipt, Record
from agentic_kernel_engine.pause_request import pause_waits

Events = Sequence[bytes]


class SwallowedConflict(MemoryStore):
    """Reports a write as done that was refused, if the record moved between check and write."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        stored = await self.load(before.task.id)
        if (stored.version, stored.owner) != (before.version, before.owner):
            raise Conflict(before.task.id)
        await asyncio.sleep(0)
        try:
            await super().commit(before, after, events)
        except Conflict:
            return


class TakenForMine(MemoryStore):
    """Takes a refused write for its own earlier attempt, if the Task is where it wanted it."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        try:
            await super().commit(before, after, events)
        except Conflict:
            stored = await self.load(before.task.id)
            if stored.version == after.version and stored.task.status is after.task.status:
                return
            raise


class LaggingReplica(MemoryStore):
    """Answers every third read from a copy that may be one write behind, until it catches up."""

    def __init__(self) -> None:
        super().__init__()
        self._behind: dict[str, Record] = {}
        self._reads = 0

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        stored = await super().load(before.task.id)
        await super().commit(before, after, events)
        self._behind[after.task.id] = stored

    async def load(self, task_id: str) -> Record:
        self._reads += 1
        latest = await super().load(task_id)
        return latest if self._reads % 3 else self._behind.pop(task_id, latest)


class LostExtra(MemoryStore):
    """Writes new supplements, each under its number, before it knows that the commit holds."""

    def __init__(self) -> None:
        super().__init__()
        self._extras: defaultdict[str, dict[int, str]] = defaultdict(dict)

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        known = len(before.task.supplements)
        for number, extra in enumerate(after.task.supplements[known:], known):
            self._extras[after.task.id][number] = extra
        await super().commit(before, after, events)

    async def load(self, task_id: str) -> Record:
        record = await super().load(task_id)
        rows = self._extras[task_id]
        extras = [rows[number] for number in range(len(record.task.supplements))]
        return record.changed(task=replace(record.task, supplements=extras))


class LateResult(MemoryStore):
    """Writes a run's refused result again, on top of whatever the Task has become."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        try:
            await super().commit(before, after, events)
        except Conflict:
            stored = await self.load(before.task.id)
            its_own = after.task.status is TaskStatus.SUCCESS and after.step > before.step
            if not its_own or stored.owner is None:
                raise
            task = replace(after.task, supplements=stored.task.supplements)
            version = stored.version + 1
            await super().commit(stored, after.changed(task=task, version=version), events)


class RequestLostAtTakeOver(MemoryStore):
    """Begins with an empty inbox when a Task is taken over."""

    async def claim(self, task_id: str, host: str, events: Events = ()) -> Record | None:
        claimed = await super().claim(task_id, host, events)
        if claimed is None:
            return None
        emptied = claimed.changed(inbox=())
        self._replace(self._shelf(task_id), emptied, ())
        return emptied


class ClaimFromTheLiving(MemoryStore):
    """Takes whoever runs a Task for dead."""

    def _claimable(self, record: Record) -> bool:
        return record.task.status is TaskStatus.RUNNING


class EventsTwice(MemoryStore):
    """Appends the events again when it was not quick enough the first time."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        for _ in range(2):
            try:
                await super().commit(before, after, events)
            except Conflict:
                stored = await self.load(before.task.id)
                if stored is not after:
                    raise
                self._replace(self._shelf(after.task.id), after, events)
            await asyncio.sleep(0)
            if (await self.load(before.task.id)).version == after.version:
                return


class ResurrectedTerminal(MemoryStore):
    """Lets the last of several ends have its way."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        try:
            await super().commit(before, after, events)
        except Conflict:
            stored = await self.load(before.task.id)
            if not (stored.task.status.terminal and after.task.status.terminal):
                raise
            version = stored.version + 1
            self._replace(self._shelf(after.task.id), after.changed(version=version), events)


class BothToldYes(Host):
    """Says yes to whoever resumed, if the Task runs afterwards."""

    async def resume(
        self, task_id: str, extra: str | None = None, *, at_version: int | None = None
    ) -> Receipt:
        before = await self.record(task_id)
        receipt = await super().resume(task_id, extra, at_version=at_version)
        if before.task.status is TaskStatus.PAUSED and _runs(receipt.snapshot):
            return replace(receipt, changed=True, effect="transition")
        return receipt


class DeafToWithdrawal(Host):
    """Drops a resume that comes before the pause took effect, and lets the pause come."""

    async def resume(
        self, task_id: str, extra: str | None = None, *, at_version: int | None = None
    ) -> Receipt:
        before = await self.record(task_id)
        if pause_waits(before):
            return Receipt(before.task, False, before.version)
        return await super().resume(task_id, extra, at_version=at_version)


class GuessedReceipt(Host):
    """Tells its caller what it finds afterwards, not what it did."""

    async def _verb(self, task_id: str, work: Any) -> Any:
        before = await self.record(task_id)
        receipt = await super()._verb(task_id, work)
        if not isinstance(receipt, Receipt) or receipt.effect in ("requested", "withdrawn"):
            return receipt
        after = await self.record(task_id)
        changed = after.task.status is not before.task.status
        return Receipt(after.task, changed, after.version, "transition" if changed else "none")


def _runs(task: Task) -> bool:
    return task.status is TaskStatus.RUNNING


class SpeaksAtCommits(Host):
    """Keeps the text in progress to itself until the next commit."""

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._live.flushing.stop()
