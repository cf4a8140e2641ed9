"""Reader: one observer of Tasks, through which the contracts do all their reading.

Every snapshot that passes is checked on its own (rule C3) and against the one that this observer
saw before it (rule C7), whatever the test that reads is about.
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
    """The snapshots of one Task that one observer saw, in order, repetitions left out.

    Args:
        given: The Task as it was handed to ``dispatch``, when it is known.
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
            RuleError: It is not legal, or may not follow what was seen before.
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
        query: What to read.
        patience: Seconds after which `until` gives up.
    """

    def __init__(self, query: Query, patience: float) -> None:
        self.query = query
        self.patience = patience
        self._traces: dict[str, Trace] = {}

    def expects(self, task: Task) -> None:
        """Hold what is read against the Task as it was handed to ``dispatch``."""
        self._traces.setdefault(task.id, Trace(task))

    def trace(self, task_id: str) -> Trace:
        """What this observer saw of a Task."""
        return self._traces.setdefault(task_id, Trace())

    async def get(self, task_id: str) -> Task:
        """The snapshot that `Query.get` gives, checked."""
        task = await self.query.get(task_id)
        self._saw(task, task_id)
        return task

    async def get_many(self, task_ids: Iterable[str]) -> Mapping[str, Task]:
        """The snapshots that `Query.get_many` gives, checked."""
        tasks = await self.query.get_many(task_ids)
        for task_id, task in tasks.items():
            self._saw(task, task_id)
        return tasks

    async def find(
        self, status: TaskStatus | None = None, after: str | None = None, limit: int = 100
    ) -> Sequence[Task]:
        """The page that `Query.find` gives, checked."""
        page = await self.query.find(status=status, after=after, limit=limit)
        for task in page:
            self._saw(task, task.id)
        return page

    async def until(self, task_id: str, *statuses: TaskStatus, rule: str = "edges") -> Task:
        """Read again and again until the Task is in one of the statuses.

        Args:
            rule: What is broken if it does not come to that.

        Raises:
            RuleError: It ended otherwise, or did not get there within the patience.
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
        """Read as fast as the Query lets, others having their turn in between, to the end."""
        while True:
            task = await self.get(task_id)
            if task.status.terminal:
                return task
            await asyncio.sleep(0)

    async def until_seen(
        self, task_id: str, arrived: Callable[[Task], bool], wanted: str, rule: str = "edges"
    ) -> Task:
        """Read again and again until a snapshot satisfies the predicate.

        Pull is the only way of looking that every Query has, so this polls; the pause between two
        looks grows to 10 ms.

        Raises:
            RuleError: It did not within the patience.
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
    """What came in with the Task is still what it was."""
    for name in ("summary", "instructions", "runtime_kind", "agent_name", "created_at"):
        was, found = getattr(given, name), getattr(task, name)
        expect(found == was, "notes", f"{name} came in as {was!a:.200} and is {found!a:.200}")
    for key, was in given.metadata.items():
        found = task.metadata.get(key)
        expect(found == was, "notes", f"{key!a} came in as {was!a:.200} and is {found!a:.200}")


def show(task: Task) -> str:
    """A Task in one line, for messages."""
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
