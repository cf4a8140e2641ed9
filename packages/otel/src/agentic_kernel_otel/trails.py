"""Trails: what is remembered of each Task, and of how many at most."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.trace import SpanContext

from .run_spans import RunSpans

MOST_TASKS: Final = 100_000
"""How many Tasks are remembered; beyond that the one that was met first is forgotten."""


class Trail:
    """What is known of one Task that has not ended."""

    __slots__ = ("asked", "began", "by", "caller", "earlier", "parent", "root", "spans")

    def __init__(self) -> None:
        self.spans: RunSpans | None = None
        """What runs here."""
        self.began = 0
        """When a stretch began of which nothing more is known; 0 if none did. Nanoseconds."""
        self.by: Any = None
        """Who resumed or claimed the Task."""
        self.caller: Context | None = None
        """Where it was dispatched from."""
        self.earlier: SpanContext | None = None
        """The latest part."""
        self.root: SpanContext | None = None
        """What all parts are below; the first part itself, where that is the root of its trace."""
        self.parent: SpanContext | None = None
        """The part of another Task that gave it its work."""
        self.asked: datetime | None = None
        """When a pause was asked for."""


class Trails:
    """The trails of one observer, by the Task.

    Args:
        forget: Called with a trail that there is no more room for.
    """

    def __init__(self, forget: Callable[[Trail], None]) -> None:
        self._trails: dict[str, Trail] = {}
        self._forget = forget

    def __len__(self) -> int:
        return len(self._trails)

    def get(self, task_id: str) -> Trail | None:
        """The trail of a Task; None if there is none."""
        return self._trails.get(task_id)

    def of(self, task_id: str) -> Trail:
        """The trail of a Task; a new one if there is none."""
        trail = self._trails.get(task_id)
        if trail is None:
            if len(self._trails) >= MOST_TASKS:
                self._forget(self._trails.pop(next(iter(self._trails))))
            trail = self._trails[task_id] = Trail()
        return trail

    def drop(self, task_id: str) -> Trail | None:
        """Forget a Task; its trail, if there was one."""
        return self._trails.pop(task_id, None)
