"""Stores on files with one mistake each: of processes that die, of syncs, and of closing late."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentic_kernel_conformance import Disk, Operations
from agentic_kernel_engine import Cursor, Record, StoreError
from agentic_kernel_engine.record import host_of
from agentic_kernel_file import Files, FileStore
from agentic_kernel_file.manifest import decode

Events = Sequence[bytes]
MANIFEST = "agentic-kernel.json"
OWN = 2
"""The schema of this version's folders."""
NEWER = 999


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
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # joined before
            os.close(lock)

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


class Asking(Files):
    """A disk that asks the kit before each change."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        self.disk.before("write")
        return super().write(fd, data, offset)

    def sync_data(self, fd: int) -> None:
        self.disk.before("sync")
        super().sync_data(fd)


class _OnADisk(FileStore):
    def __init__(self, folder: str | Path) -> None:
        self.disk = Disk()
        super().__init__(folder, files=Asking(self.disk))


class LetsDiskErrorsOut(_OnADisk):
    """Raises the operating system's error as it came."""

    async def insert(self, record: Record, events: Events = ()) -> None:
        try:
            await super().insert(record, events)
        except StoreError as error:
            raise OSError(errno.EIO, "Input/output error") from error


class SwallowsDiskErrors(_OnADisk):
    """Takes a commit for done although the disk refused it."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        with suppress(StoreError):
            await super().commit(before, after, events)


class GuessesAfterAFailure(_OnADisk):
    """Says that nothing is stored when the disk failed after the commit."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        await super().commit(before, after, events)
        try:
            self.disk.before("write the log of what was done")
        except OSError as error:
            raise StoreError(f"the disk failed: {error}") from error


class WritesOnTheLoop(_OnADisk):
    """Writes a line about each commit in the thread of the event loop."""

    async def commit(self, before: Record, after: Record, events: Events = ()) -> None:
        await super().commit(before, after, events)
        with suppress(OSError):
            self.disk.before("write a line")
            with (self.folder.parent / "lines").open("a", encoding="utf-8") as file:
                file.write("committed\n")


def _lowered(document: dict[str, Any]) -> bytes:
    """The manifest with the schema that fits its checksum."""
    for schema in range(OWN, 0, -1):
        text = json.dumps({**document, "schema": schema}).encode()
        with suppress(StoreError):
            decode(text, "here")
            return text
    raise ValueError("no schema fits")


class IgnoresTheSchema(FileStore):
    """Takes every folder for one of its own version."""

    def __init__(self, folder: str | Path) -> None:
        manifest = Path(folder) / MANIFEST
        if manifest.exists():
            document = json.loads(manifest.read_bytes())
            if document.pop("new", None) is not None:
                manifest.write_bytes(_lowered(document))
        super().__init__(folder)


class RepairsTheNewer(FileStore):
    """Refuses a folder of a newer version, and puts aside what it does not know."""

    def __init__(self, folder: str | Path) -> None:
        manifest = Path(folder) / MANIFEST
        if manifest.exists() and json.loads(manifest.read_bytes())["schema"] == NEWER:
            for log in Path(folder).glob("log-*"):
                log.rename(log.with_suffix(".newer"))
        super().__init__(folder)


class BeginsAnew(FileStore):
    """Begins an empty store where an older version has written."""

    def __init__(self, folder: str | Path) -> None:
        manifest = Path(folder) / MANIFEST
        if manifest.exists() and json.loads(manifest.read_bytes())["schema"] < OWN:
            shutil.rmtree(folder)
        super().__init__(folder)
