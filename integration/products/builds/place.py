"""Place: the state folder, with the store and the shelf in it, opened for one command."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Record

from ...sqlite_store import SQLiteStore
from .shelf import MistakeError, Shelf
from .workshop import KIND

LEASE = 5.0
"""Seconds after which another process may go on with what a killed one was making."""
_PAGE = 500


class Place:
    """The store and the shelf of a state folder; a context manager.

    Args:
        folder: Made if it is not there.

    Raises:
        MistakeError: The folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MistakeError(
                f"the state folder {folder} cannot be used: {error.strerror}; name another with "
                "--state"
            ) from error
        self.shelf = Shelf(folder / "shelf")
        self.store = SQLiteStore(folder / "builds.db", lease=LEASE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    async def begun(self, targets: Iterable[str] = ()) -> list[Record]:
        """The Tasks that have not ended, of these targets or of all."""
        wanted = set(targets)
        return [
            record
            for status in (TaskStatus.RUNNING, TaskStatus.PAUSED)
            async for record in self._all(status)
            if not wanted or record.task.summary in wanted
        ]

    async def left(self, record: Record) -> bool:
        """True if a Task has not ended, and no living process has it."""
        if record.task.status.terminal:
            return False
        return record.owner is None or not await self.store.alive(record.owner)

    async def forget(self, before: datetime) -> tuple[int, int]:
        """Remove the Tasks that ended before a moment, and the outputs that no other Task has.

        Returns:
            The number of Tasks and of files.
        """
        tasks = 0
        while number := await self.store.prune(before, _PAGE):
            tasks += number
        wanted = {
            each["sha256"]
            async for record in self._all(TaskStatus.SUCCESS)
            for each in record.task.result["outputs"].values()
        }
        return tasks, self.shelf.drop_all_but(wanted)

    async def _all(self, status: TaskStatus) -> AsyncIterator[Record]:
        after = None
        while page := await self.store.find(kinds=[KIND], status=status, limit=_PAGE, after=after):
            for record in page:
                yield record
            after = page[-1].task.id


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a Task has come."""

    done: int
    of: int

    @classmethod
    def of_record(cls, record: Record) -> Progress:
        """Read the progress from the state of the last commit."""
        lines = len(json.loads(record.task.instructions)["run"])
        state = None if record.state is None else json.loads(record.state)
        return cls(state["done"] if state else 0, lines)

    def __str__(self) -> str:
        return f"{self.done} of {self.of} lines done"
