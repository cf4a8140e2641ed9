"""Disks that count, fail, and lose what was not synced."""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentic_kernel_file import Files
from agentic_kernel_file.files import Identity


class UnsyncedFiles(Files):
    """A disk that is fast because nothing is made durable; for looking at a folder."""

    def sync(self, fd: int) -> None:
        pass

    def sync_data(self, fd: int) -> None:
        pass


class HeldFiles(UnsyncedFiles):
    """A disk whose syncs take as long as a test likes."""

    def __init__(self) -> None:
        self.hold = False
        self.reached = threading.Event()
        self.go = threading.Event()

    def sync_data(self, fd: int) -> None:
        if self.hold:
            self.hold = False
            self.reached.set()
            assert self.go.wait(30)


class CountingFiles(UnsyncedFiles):
    """A disk that counts what is read."""

    def __init__(self) -> None:
        self.reads = 0
        self.bytes_read = 0

    def read(self, fd: int, size: int, offset: int) -> bytes:
        data = super().read(fd, size, offset)
        self.reads += 1
        self.bytes_read += len(data)
        return data


class FailingFiles(UnsyncedFiles):
    """A disk whose n-th operation fails once it is armed, and the next ones too if it stays so."""

    def __init__(self) -> None:
        self._left = -1
        self._error = 0
        self._stays = False
        self._lock = threading.Lock()
        self.failed: list[str] = []
        self.fail_next_sync = False
        self._looks = 0

    def arm(self, at: int, error: int, *, stays: bool) -> None:
        """Let the operation number ``at`` from now fail, 0 being the next one."""
        self._left, self._error, self._stays, self.failed = at, error, stays, []

    def heal(self) -> None:
        """Work again."""
        self._left = -1

    def _operation(self, name: str) -> None:
        with self._lock:
            if self._left == 0:
                self._left = 0 if self._stays else -1
                self.failed.append(name)
                raise OSError(self._error, os.strerror(self._error))
            self._left -= self._left > 0

    def open(self, folder: int, name: str, flags: int) -> int:
        self._operation(f"open {name}")
        return super().open(folder, name, flags)

    def names(self, folder: int) -> list[str]:
        self._operation("names")
        return super().names(folder)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        self._operation("read")
        return super().read(fd, size, offset)

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        try:
            self._operation("write")
        except OSError:
            super().write(fd, data[: len(data) // 2], offset)
            raise
        return super().write(fd, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        self._operation("truncate")
        super().truncate(fd, size)

    def allocate(self, fd: int, offset: int, size: int) -> None:
        self._operation("allocate")
        super().allocate(fd, offset, size)

    def sync(self, fd: int) -> None:
        self._operation("sync")

    def sync_data(self, fd: int) -> None:
        self._operation("sync_data")
        if self.fail_next_sync:
            self.fail_next_sync = False
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def look(self, path: str, folder: int | None = None) -> Identity:
        self._operation("look")
        self._looks += 1  # always another stamp, so that every look goes through the whole folder
        return super().look(path, folder)._replace(changed=self._looks)

    def rename(self, folder: int, old: str, new: str) -> None:
        self._operation("rename")
        super().rename(folder, old, new)

    def remove(self, folder: int, name: str) -> None:
        self._operation(f"remove {name}")
        super().remove(folder, name)

    def try_lock(self, fd: int) -> bool:
        self._operation("try_lock")
        return super().try_lock(fd)


Operation = tuple[Any, ...]


class RecordingFiles(UnsyncedFiles):
    """A disk that writes down what is done to one folder, for `crash_states`."""

    def __init__(self, root: Path) -> None:
        self.trace: list[Operation] = []
        self._root = str(root)
        self._paths: dict[int, str] = {}
        self._inodes: dict[str, int] = {}
        self.opened: dict[int, int] = {}
        self._lock = threading.RLock()

    def note(self, *what: Any) -> None:
        """Write down something of the caller's."""
        with self._lock:
            self.trace.append(("note", *what))

    def open_folder(self, path: str, folder: int | None = None) -> int:
        with self._lock:
            fd = super().open_folder(path, folder)
            if folder is not None or path == self._root:
                self._paths[fd] = "" if folder is None else f"{path}/"
            return fd

    def make_folder(self, path: str, folder: int | None = None) -> None:
        with self._lock:
            super().make_folder(path, folder)
            if folder is not None:
                self.trace.append(("mkdir", path))

    def open(self, folder: int, name: str, flags: int) -> int:
        with self._lock:
            path = self._paths[folder] + name
            fd = super().open(folder, name, flags)
            inode = os.fstat(fd).st_ino
            if self._inodes.get(path) != inode:
                self._inodes[path] = inode
                self.trace.append(("create", path, inode))
            elif flags & os.O_TRUNC:
                self.trace.append(("data", inode, "truncate", 0, b""))
            self.opened[fd] = inode
            return fd

    def close(self, fd: int) -> None:
        with self._lock:
            self._paths.pop(fd, None)
            self.opened.pop(fd, None)
            super().close(fd)

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        with self._lock:
            self.trace.append(("data", self.opened[fd], "write", offset, bytes(data)))
            return super().write(fd, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        with self._lock:
            self.trace.append(("data", self.opened[fd], "truncate", size, b""))
            super().truncate(fd, size)

    def allocate(self, fd: int, offset: int, size: int) -> None:
        with self._lock:
            self.trace.append(("data", self.opened[fd], "extend", offset + size, b""))
            super().allocate(fd, offset, size)

    def sync(self, fd: int) -> None:
        with self._lock:
            if fd in self.opened:
                self.trace.append(("sync", self.opened[fd]))
            elif fd in self._paths:
                self.trace.append(("sync folder", self._paths[fd]))

    def sync_data(self, fd: int) -> None:
        self.sync(fd)

    def rename(self, folder: int, old: str, new: str) -> None:
        with self._lock:
            prefix = self._paths[folder]
            super().rename(folder, old, new)
            inode = self._inodes[prefix + new] = self._inodes.pop(prefix + old)
            self.trace.append(("rename", prefix + old, prefix + new, inode))

    def remove(self, folder: int, name: str) -> None:
        with self._lock:
            path = self._paths[folder] + name
            super().remove(folder, name)
            self._inodes.pop(path, None)
            self.trace.append(("remove", path))


@dataclass
class _Content:
    durable: bytes = b""
    pending: list[Operation] = field(default_factory=list)


class _Disk:
    """The durable content and the rest, after some operations."""

    def __init__(self) -> None:
        self.contents: dict[int, _Content] = {}
        self.names: dict[str, int] = {}
        self.pending: list[Operation] = []
        self.folders: set[str] = set()

    def do(self, operation: Operation) -> None:
        kind, *rest = operation
        if kind == "data":
            self.contents[rest[0]].pending.append(operation)
        elif kind == "sync":
            content = self.contents[rest[0]]
            content.durable = _applied(content.durable, content.pending)
            content.pending = []
        elif kind == "sync folder":
            here = [one for one in self.pending if _folder(one[1]) == rest[0]]
            self.names = _renamed(self.names, here)
            self.pending = [one for one in self.pending if _folder(one[1]) != rest[0]]
        elif kind == "mkdir":
            self.folders.add(rest[0])  # as if durable at once: the worst case for its neighbours
        else:
            if kind == "create":
                self.contents[rest[1]] = _Content()
            self.pending.append(operation)

    def crashed(self, keep: Callable[[list[Operation]], list[Operation]]) -> dict[str, bytes]:
        """The files as a crash leaves them; ``keep`` says what of the unsynced reached the disk."""
        names = _renamed(self.names, keep(self.pending))
        return {f"{folder}/": b"" for folder in self.folders} | {
            path: _applied(self.contents[inode].durable, keep(self.contents[inode].pending))
            for path, inode in names.items()
        }


def _folder(path: str) -> str:
    head, slash, _ = path.rpartition("/")
    return head + slash


def _applied(content: bytes, operations: list[Operation]) -> bytes:
    data = bytearray(content)
    for _, _, kind, place, text in operations:
        if kind == "truncate":
            del data[place:]
        data.extend(bytes(max(0, place + len(text) - len(data))))
        if kind == "write":
            data[place : place + len(text)] = text
    return bytes(data)


def _renamed(names: dict[str, int], operations: list[Operation]) -> dict[str, int]:
    names = dict(names)
    for kind, path, *rest in operations:
        if kind == "create":
            names[path] = rest[0]
        elif kind == "remove":
            names.pop(path, None)
        else:
            names.pop(path, None)
            names[rest[0]] = rest[1]
    return names


def crash_states(
    trace: list[Operation], seed: int = 0
) -> Iterator[tuple[int, str, dict[str, bytes]]]:
    """The possible remains of a crash after each operation: its place, the way, and the files.

    The ways: the machine keeps nothing that was not synced, all of it (as after a mere SIGKILL),
    all but the second half of the last write to each file, an arbitrary part, in which lost
    writes read as zeros where the file was extended, or, of what was not synced, the renames and
    removals alone: a file system may keep names in any order.
    """
    disk = _Disk()
    dice = random.Random(seed)
    for place, operation in enumerate(trace):
        if operation[0] != "note":
            disk.do(operation)
        if operation[0] in ("note", "mkdir"):
            continue
        ways: dict[str, Callable[[list[Operation]], list[Operation]]] = {
            "nothing unsynced": lambda _: [],
            "everything": lambda operations: operations,
            "torn": _torn,
            "some": lambda operations: _some(dice, operations),
            "renames alone": lambda operations: _only(operations, "rename"),
            "removals alone": lambda operations: _only(operations, "remove"),
        }
        for way, keep in ways.items():
            yield place, way, disk.crashed(keep)


def _torn(operations: list[Operation]) -> list[Operation]:
    if not operations or operations[-1][0] != "data":
        return operations
    *before, (kind, inode, what, place, text) = operations
    return [*before, (kind, inode, what, place, text[: len(text) // 2])]


def _only(operations: list[Operation], kind: str) -> list[Operation]:
    return [operation for operation in operations if operation[0] == kind]


def _some(dice: random.Random, operations: list[Operation]) -> list[Operation]:
    if operations and operations[0][0] != "data":
        if dice.random() < 0.5:  # a journal: names change in order
            return operations[: dice.randrange(len(operations) + 1)]
        return [operation for operation in operations if dice.random() < 0.5]
    kept = []
    for kind, inode, what, place, text in operations:
        if what == "write" and dice.random() < 0.5:  # lost, but the file has its length
            kept.append((kind, inode, "extend", place + len(text), b""))
        else:
            kept.append((kind, inode, what, place, text))
    return kept
