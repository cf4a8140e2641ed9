"""Stores on files with one mistake each: of processes that die, of syncs, and of closing late."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agentic_kernel_conformance import Operations
from agentic_kernel_engine import Cursor, Record
from agentic_kernel_engine.record import host_of
from agentic_kernel_file import Files, FileStore

Events = Sequence[bytes]


class AliveByProcessId(FileStore):
    """Takes a host for alive while a process has the id that it wrote down."""

    async def join(self, host: str) -> None:
        await super().join(host)
        self._note(host).write_text(str(os.getpid()), encoding="ascii")

    async def alive(self, owner: str) -> bool:
        note = self._note(host_of(owner))
        if not note.exists():
            return await super().alive(owner)
        try:
            os.kill(int(note.read_text(encoding="ascii")), 0)
        except ProcessLookupError:
            return False
        return True

    def _note(self, host: str) -> Path:
        return self.folder.parent / f"{host}.pid"


class AliveByInheritedLock(FileStore):
    """Takes a host for alive while anybody holds its lock; a forked child holds it too."""

    async def join(self, host: str) -> None:
        await super().join(host)
        lock = os.open(self._lock(host), os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)

    async def alive(self, owner: str) -> bool:
        path = self._lock(host_of(owner))
        if not path.exists():
            return await super().alive(owner)
        lock = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def _lock(self, host: str) -> Path:
        return self.folder.parent / f"{host}.lock"


class EventsAtClose(FileStore):
    """Keeps the events of commits in memory, and writes them when it is closed."""

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder)
        self._late: list[tuple[str, Cursor, bytes]] = []
        self._written = Path(folder).parent / "events"

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        await super().commit(before, after)
        self._late += [
            (after.task.id, (after.version, place), text) for place, text in enumerate(events)
        ]

    async def events(
        self, task_id: str, after: Cursor | None = None, limit: int = 1000
    ) -> Sequence[tuple[Cursor, bytes]]:
        found = list(await super().events(task_id, None, limit))
        found += [(at, text) for id, at, text in self._all() if id == task_id]
        return [each for each in sorted(found) if after is None or each[0] > after][:limit]

    def _all(self) -> list[tuple[str, Cursor, bytes]]:
        lines = (
            self._written.read_text(encoding="utf-8").splitlines() if self._written.exists() else []
        )
        kept = (line.split("\t") for line in lines)
        return [(id, (int(version), int(place)), text.encode()) for id, version, place, text in kept
                ] + self._late  # fmt: skip

    def close(self) -> None:
        lines = [f"{id}\t{at[0]}\t{at[1]}\t{text.decode()}\n" for id, at, text in self._late]
        with suppress(OSError), self._written.open("a", encoding="utf-8") as file:
            file.writelines(lines)
        self._late = []
        super().close()


class Forgetting(Files):
    """A disk that tells the kit what is done to it; nothing ever reaches the platter."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        self.operations.wrote(str(Path(f"/proc/self/fd/{fd}").readlink()))
        return super().write(fd, data, offset)

    def sync(self, fd: int) -> None:
        """Does nothing: the operating system will write it some time."""

    def sync_data(self, fd: int) -> None:
        """Does nothing: the operating system will write it some time."""


class NeverSyncs(FileStore):
    """Takes what the operating system has taken for written."""

    def __init__(self, folder: str | Path) -> None:
        self.operations = Operations()
        super().__init__(folder, files=Forgetting(self.operations))
