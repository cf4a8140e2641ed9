"""Reader: one observer of Tasks; the contracts read through it.

The Reader checks every snapshot on its own (C3: atomic) and against the snapshot that this observer
saw before it (C7: happens-before), whichever rule the test is about.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from agentic_kernel import InvalidTask, Query, Task, TaskStatus
from agentic_kernel.invariants import check, follows

from .rules import broken, expect

RUNNING, PAUSED = TaskStatus.RUNNING, TaskStatus.PAUSED
SUCCESS, FAILURE = TaskStatus.SUCCESS, TaskStatus.FAILURE
CANCELLED, NOT_STARTED = TaskStatus.CANCELLED, TaskStatus.NOT_STARTED
TERMINAL: Final = (SUCCESS, FAILURE, CANCELLED)

_NOTE = re.compile(r"[^/\s]+/[^/\s]+")


class Trace:
    """The snapshots of one Task that one observer saw, in order, without repetitions.

    Args:
        given: The Task as the test handed it to ``dispatch``, if known.
    """

    def __init__(self, given: Task | None = None) -> None:
        self._given = given
        self.snapshots: list[Task] = []

    @property
    def latest(self) -> Task | None:
        """The last snapshot, or None."""
        return self.snapshots[-1] if self.snapshots else None

    def add(self, task: Task) -> None:
        """Check a snapshot and add it.

        Raises:
            RuleError: The snapshot is not legal, or must not follow the one seen before.
        """
        before = self.latest
        if task is before:
            return
        try:
            check(task)
        except InvalidTask as error:
            seen = f"a snapshot that no history explains: {error}; {show(task)}"
            raise broken("C3", seen) from error
        stored = task.status is not NOT_STARTED
        expect(stored, "edges", f"a stored Task that is not_started: {show(task)}")
        if self._given is not None:
            _expect_input(self._given, task)
        for key in task.noted:
            expect(bool(_NOTE.fullmatch(key)), "notes", f"the note {ascii(key)} has no scope")
        earlier = before or self._given
        if earlier is not None and not follows(earlier, task):
            raise broken("C7", f"{show(task)} after {show(earlier)}")
        if task != before:
            self.snapshots.append(task)


class Reader:
    """One observer of a Query.

    Args:
        query: The Query to read.
        patience: Seconds after which `until` gives up.
    """

    def __init__(self, query: Query, patience: float) -> None:
        self.query = query
        self.patience = patience
        self._traces: dict[str, Trace] = {}

    def expects(self, task: Task) -> None:
        """Compare later snapshots with the Task as it was handed to ``dispatch``."""
        self._traces.setdefault(task.id, Trace(task))

    def forgets(self, task: Task) -> None:
        """Expect nothing of a Task that was refused."""
        self._traces.pop(task.id, None)

    def trace(self, task_id: str) -> Trace:
        """Return the trace of one Task: the snapshots that this observer saw."""
        return self._traces.setdefault(task_id, Trace())

    async def get(self, task_id: str) -> Task:
        """Return the snapshot from `Query.get`, checked."""
        task = await self.query.get(task_id)
        self._saw(task, task_id)
        return task

    async def get_many(self, task_ids: Iterable[str]) -> Mapping[str, Task]:
        """Return the snapshots from `Query.get_many`, checked."""
        tasks = await self.query.get_many(task_ids)
        for task_id, task in tasks.items():
            self._saw(task, task_id)
        return tasks

    async def find(
        self, status: TaskStatus | None = None, after: str | None = None, limit: int = 100
    ) -> Sequence[Task]:
        """Return the page from `Query.find`, checked."""
        page = await self.query.find(status=status, after=after, limit=limit)
        for task in page:
            self._saw(task, task.id)
        return page

    async def until(self, task_id: str, *statuses: TaskStatus, rule: str = "edges") -> Task:
        """Poll until the Task is in one of the statuses.

        Args:
            rule: The rule that is broken if the Task reaches none of them.

        Raises:
            RuleError: The Task ended in another status, or took longer than the patience.
        """
        wanted = ", ".join(statuses)

        def arrived(task: Task) -> bool:
            if task.status in statuses:
                return True
            if task.status.terminal:
                raise broken(rule, f"the Task ended before it was {wanted}: {show(task)}")
            return False

        return await self.until_seen(task_id, arrived, wanted, rule)

    async def watch(self, task_id: str) -> Task:
        """Read without waiting until the Task ends; yield to the event loop after each read."""
        while True:
            task = await self.get(task_id)
            if task.status.terminal:
                return task
            await asyncio.sleep(0)

    async def until_seen(
        self, task_id: str, arrived: Callable[[Task], bool], wanted: str, rule: str = "edges"
    ) -> Task:
        """Poll until a snapshot satisfies the predicate.

        A Query has no notification, so the Reader polls; the wait between two reads grows to 10 ms.

        Raises:
            RuleError: No snapshot satisfied the predicate within the patience.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.patience
        wait = 0.0
        while True:
            task = await self.get(task_id)
            if arrived(task):
                return task
            if loop.time() > deadline:
                raise broken(rule, f"not {wanted} within {self.patience:g} s: {show(task)}")
            await asyncio.sleep(wait)
            wait = min(wait + 0.001, 0.01)

    def _saw(self, task: Task, task_id: str) -> None:
        if not isinstance(task, Task):
            raise broken("C3", f"a snapshot that is a {type(task).__name__}, not a Task")
        expect(task.id == task_id, "C3", f"{show(task)} under the id {ascii(task_id)}")
        self.trace(task_id).add(task)


def _expect_input(given: Task, task: Task) -> None:
    """Expect that the Task's input stays as it came in, as the rule ``notes`` asks."""
    for name in ("summary", "instructions", "runtime_kind", "agent_name", "created_at"):
        was, found = getattr(given, name), getattr(task, name)
        expect(found == was, "notes", f"{name} came in as {was!a:.200} and is {found!a:.200}")
    for key, was in given.metadata.items():
        found = task.metadata.get(key)
        expect(found == was, "notes", f"{key!a} came in as {was!a:.200} and is {found!a:.200}")


def show(task: Task) -> str:
    """Return a Task in one line, for messages."""
    parts = [f"{task.id[:60]!a} {task.status}"]
    if task.supplements:
        parts.append(f"supplements={ascii(list(task.supplements))[:200]}")
    if task.result is not None:
        parts.append(f"result={ascii(task.result)[:80]}")
    if task.failure is not None:
        parts.append(f"failure={task.failure.code!a}")
    stamps = (task.started_at, task.ended_at)
    parts.append("started={} ended={}".format(*(at and at.isoformat() for at in stamps)))
    return f"<{' '.join(parts)}>"
