"""Files: every operation on the disk, in one place.

The store accesses the disk only through one `Files` object. So a test can count the reads, fail
the n-th operation, or reproduce the files that a crash would have left.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

_ALWAYS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Flags of every open: not inherited by other programs, no link followed, no wait for a FIFO."""


class Identity(NamedTuple):
    """The identity of one file or folder, independent of its name."""

    device: int
    inode: int
    changed: int
    """Time of the last change (``st_ctime_ns``), in nanoseconds."""
    links: int
    """The number of its names; 0: it was removed, and exists only until it is closed."""

    def same(self, other: Identity) -> bool:
        """True if both are the same file or folder."""
        return self.inode == other.inode and self.device == other.device


class Files:
    """The operating system's files, by descriptor; names are relative to a folder's descriptor."""

    def open(self, folder: int, name: str, flags: int) -> int:
        """Open a regular file; a symbolic link, a device or a FIFO is refused."""
        fd = os.open(name, flags | _ALWAYS, 0o600, dir_fd=folder)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "not a regular file", name)
        return fd

    def open_folder(self, path: str, folder: int | None = None) -> int:
        """Open a folder; inside another one, a symbolic link is refused."""
        follow = 0 if folder is None else os.O_NOFOLLOW
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | follow, dir_fd=folder)

    def make_folder(self, path: str, folder: int | None = None) -> None:
        """Make a folder that only its owner may enter."""
        os.mkdir(path, 0o700, dir_fd=folder)

    def names(self, folder: int) -> list[str]:
        """The names in a folder."""
        return os.listdir(folder)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Read up to ``size`` bytes; fewer only at the end of the file."""
        return os.pread(fd, size, offset)

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        """Write some of the bytes and return their number."""
        return os.pwrite(fd, data, offset)

    def size(self, fd: int) -> int:
        """The file's length in bytes, including preallocated space."""
        return os.fstat(fd).st_size

    def identity(self, fd: int) -> Identity:
        """The identity of an open file or folder."""
        found = os.fstat(fd)
        return Identity(found.st_dev, found.st_ino, found.st_ctime_ns, found.st_nlink)

    def look(self, path: str, folder: int | None = None) -> Identity:
        """The identity of the file or folder that a path leads to now.

        Inside a folder, a symbolic link is not followed.
        """
        found = os.stat(path, dir_fd=folder, follow_symlinks=folder is None)
        # Every write calls this twice, so it avoids the constructor's call (benchmarks/file.py).
        return tuple.__new__(
            Identity, (found.st_dev, found.st_ino, found.st_ctime_ns, found.st_nlink)
        )

    def truncate(self, fd: int, size: int) -> None:
        """Shorten the file, or extend it with zeros."""
        os.ftruncate(fd, size)

    def allocate(self, fd: int, offset: int, size: int) -> None:
        """Extend the file with zeros that are really written, not only reserved.

        So a later write at that place changes neither the file's length nor its block map, and its
        sync writes data only. Measured, this is a fifth faster than reserved space.
        """
        while size:
            written = os.pwrite(fd, bytes(size), offset)
            offset, size = offset + written, size - written

    def sync(self, fd: int) -> None:
        """Make a file, or a folder's entries, durable."""
        if sys.platform == "darwin":
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        else:
            os.fsync(fd)

    def sync_data(self, fd: int) -> None:
        """Make a file's bytes durable."""
        if sys.platform == "linux":
            os.fdatasync(fd)
        else:
            self.sync(fd)

    def rename(self, folder: int, old: str, new: str) -> None:
        """Replace ``new`` by ``old`` atomically."""
        os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)

    def remove(self, folder: int, name: str) -> None:
        """Remove a name; a process that has the file open can still use it."""
        os.unlink(name, dir_fd=folder)

    def try_lock(self, fd: int) -> bool:
        """Try to take the file's lock, which the system releases when its last holder dies.

        The lock is a ``flock``, never a ``lockf``: a ``lockf`` lock is lost if the same process
        opens and closes the file once more.
        """
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def unlock(self, fd: int) -> None:
        """Release the lock."""
        fcntl.flock(fd, fcntl.LOCK_UN)

    def close(self, fd: int) -> None:
        """Close the descriptor."""
        os.close(fd)


class File:
    """One open file; it is closed when the last reference to the object goes.

    A reader that holds a file can still read it after compaction has removed its name.
    """

    __slots__ = (
        "_fd", "_files", "_write", "allocate", "identity", "name", "path", "read", "size", "sync",
        "sync_data", "truncate", "try_lock", "unlock",
    )  # fmt: skip

    def __init__(self, files: Files, fd: int, name: str, path: str) -> None:
        self._files = files
        self._fd = fd
        self.name = name
        self.path = path
        """The path at which it was opened, for messages."""
        # The operations of `Files` on this descriptor, without one more call. They are valid as
        # long as the caller holds the File itself.
        self.read = partial(files.read, fd)
        self.size = partial(files.size, fd)
        self.identity = partial(files.identity, fd)
        self.truncate = partial(files.truncate, fd)
        self.allocate = partial(files.allocate, fd)
        self.sync = partial(files.sync, fd)
        self.sync_data = partial(files.sync_data, fd)
        self.try_lock = partial(files.try_lock, fd)
        self.unlock = partial(files.unlock, fd)
        self._write = partial(files.write, fd)

    def write(self, data: bytes, offset: int) -> None:
        """Write all the bytes, or raise `OSError`."""
        written = self._write(data, offset)
        rest = memoryview(data)[written:] if written < len(data) else b""
        while rest:
            offset += written
            written = self._write(rest, offset)
            if written == 0:
                raise OSError(errno.ENOSPC, "no byte could be written", self.name)
            rest = rest[written:]

    def close(self) -> None:
        """Close the file now."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._files.close(fd)

    def __del__(self) -> None:
        self.close()


class Directory:
    """One open folder; names are looked up in this folder, even if its path leads elsewhere now."""

    __slots__ = ("_fd", "_files", "path")

    def __init__(self, files: Files, fd: int, path: str) -> None:
        self._files = files
        self._fd = fd
        self.path = path
        """The path at which it was opened, for messages."""

    @classmethod
    def at(cls, files: Files, path: str) -> Directory:
        """Open the folder at a path; the path may contain symbolic links."""
        return cls(files, files.open_folder(path), path)

    def open(self, name: str, flags: int = os.O_RDONLY) -> File:
        fd = self._files.open(self._fd, name, flags)
        return File(self._files, fd, name, f"{self.path}/{name}")

    def inside(self, name: str) -> Directory:
        """Open a folder in this folder."""
        fd = self._files.open_folder(name, self._fd)
        return Directory(self._files, fd, f"{self.path}/{name}")

    def make(self, name: str) -> None:
        self._files.make_folder(name, self._fd)

    def names(self) -> list[str]:
        return self._files.names(self._fd)

    def identity(self) -> Identity:
        """The identity of this folder."""
        return self._files.identity(self._fd)

    def look(self, name: str) -> Identity:
        """The identity of the file or folder that a name in this folder leads to now."""
        return self._files.look(name, self._fd)

    def look_at(self, path: str) -> Identity:
        """The identity of the file or folder that a path leads to now."""
        return self._files.look(path)

    def rename(self, old: str, new: str) -> None:
        self._files.rename(self._fd, old, new)

    def remove(self, name: str) -> None:
        self._files.remove(self._fd, name)

    def sync(self) -> None:
        self._files.sync(self._fd)

    def __del__(self) -> None:
        self._files.close(self._fd)


def make_path(files: Files, path: Path) -> None:
    """Make a folder and its missing parents, and make each entry durable."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        try:
            files.make_folder(str(folder))
        except FileExistsError:
            continue
        parent = files.open_folder(str(folder.parent))
        try:
            files.sync(parent)
        finally:
            files.close(parent)
