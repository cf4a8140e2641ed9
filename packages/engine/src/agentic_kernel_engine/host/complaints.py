"""Complaints: one Task that cannot be handled is logged once, and stops no other (R22)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from agentic_kernel import CannotStart, IllegalTransition, TaskNotFound

from ..errors import HostClosed, StoreError, Unreadable
from ..faults import is_a, report, reraise_own_cancellation, said

_log = logging.getLogger(__name__)
REMEMBERED: Final = 10_000
"""The most entries that `remember` keeps: complaints, closed requests, tasks that wait."""
K = TypeVar("K")
V = TypeVar("V")


class Complaints:
    """Logs the Tasks that one Host could not handle, each version of a Task once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], None] = {}

    def add(
        self, task_id: str, version: int, fault: BaseException, did: str = "is left alone"
    ) -> None:
        """Log a fault, unless one of the same Task and version was logged before.

        Args:
            did: The consequence for the Task.
        """
        key = task_id, version
        if key in self._known:
            return
        remember(self._known, key, None)
        if is_a(fault, StoreError):
            _log.warning("task %r %s: %s", task_id, did, said(fault))
        else:
            report(fault, task_id, version, "its handling", "version")

    @contextmanager
    def sparing(self, task_id: str, version: int) -> Iterator[None]:
        """Log a fault in the handling of one Task and go on with the others (R22).

        An error that says that the Task has moved on, or cannot be taken now, is not logged.
        """
        try:
            yield
        except (TaskNotFound, IllegalTransition, CannotStart, HostClosed):
            return
        except Unreadable as bad:
            self.add(bad.task_id, bad.version, bad)
        except BaseException as fault:
            reraise_own_cancellation(fault)
            self.add(task_id, version, fault)


def remember(known: dict[K, V], key: K, value: V) -> None:
    """Add an entry as the newest one, and drop the oldest if there are too many."""
    known.pop(key, None)
    known[key] = value
    if len(known) > REMEMBERED:
        del known[next(iter(known))]
