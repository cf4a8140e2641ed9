"""Trails: the tracing data of each Task that has not ended, for a bounded number of Tasks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.trace import SpanContext

from .run_spans import RunSpans

MOST_TASKS: Final = 100_000
"""The most Tasks in memory; a further one removes the oldest."""


class Trail:
    """The tracing data of one Task that has not ended."""

    __slots__ = ("asked", "began", "by", "caller", "earlier", "parent", "root", "spans")

    def __init__(self) -> None:
        self.spans: RunSpans | None = None
        """The spans of the Task's run in this process; None if there is no run."""
        self.began = 0
        """The time, in nanoseconds, of a dispatch, resume or claim whose run has no spans yet; 0
        if there is none."""
        self.by: Any = None
        """The actor that resumed or claimed the Task."""
        self.caller: Context | None = None
        """The context in which the Task was dispatched."""
        self.earlier: SpanContext | None = None
        """The span of the Task's latest run."""
        self.root: SpanContext | None = None
        """The parent span of all runs; the first run's own span if that has no parent."""
        self.parent: SpanContext | None = None
        """The span of the other Task's run that delegated this Task."""
        self.asked: datetime | None = None
        """The time at which a pause was requested."""


class Trails:
    """The trails of one observer, by the Task.

    Args:
        forget: Called with a trail that is removed to make room.
    """

    def __init__(self, forget: Callable[[Trail], None]) -> None:
        self._trails: dict[str, Trail] = {}
        self._forget = forget

    def __len__(self) -> int:
        return len(self._trails)

    def get(self, task_id: str) -> Trail | None:
        """Return the trail of a Task; None if there is none."""
        return self._trails.get(task_id)

    def of(self, task_id: str) -> Trail:
        """Return the trail of a Task; a new one if there is none."""
        trail = self._trails.get(task_id)
        if trail is None:
            if len(self._trails) >= MOST_TASKS:
                self._forget(self._trails.pop(next(iter(self._trails))))
            trail = self._trails[task_id] = Trail()
        return trail

    def drop(self, task_id: str) -> Trail | None:
        """Remove a Task's trail, and return it; None if there is none."""
        return self._trails.pop(task_id, None)
