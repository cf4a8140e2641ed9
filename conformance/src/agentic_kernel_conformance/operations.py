"""Operations: what a store did to files, as its adapter tells it, and what is not synced yet."""

from __future__ import annotations

import threading
from pathlib import PurePath


class Operations:
    """A record of file operations; the adapter tells it of each one after it is done.

    It may be told in any thread. A name is a path as text, and the same file has the same name in
    each call. A rename is a new name in its folder; a removal needs no sync, because a file that
    comes back after a crash is for the store to ignore.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: set[str] = set()
        self._names: set[str] = set()
        self.count = 0
        """The number of operations so far."""

    def wrote(self, file: str) -> None:
        """A file got bytes, or another length."""
        with self._lock:
            self.count += 1
            self._files.add(file)

    def named(self, file: str) -> None:
        """A file was made, or renamed to this name."""
        with self._lock:
            self.count += 1
            self._names.add(file)

    def synced(self, file: str) -> None:
        """A file was synced (fsync or fdatasync)."""
        with self._lock:
            self.count += 1
            self._files.discard(file)

    def synced_folder(self, folder: str) -> None:
        """A folder was synced: the names of its files are durable."""
        with self._lock:
            self.count += 1
            self._names = {name for name in self._names if str(PurePath(name).parent) != folder}

    def renamed(self, old: str, new: str) -> None:
        """A file was renamed; bytes of it that are not synced are not synced under the new name."""
        with self._lock:
            self.count += 1
            self._names.discard(old)
            self._names.add(new)
            if old in self._files:
                self._files.discard(old)
                self._files.add(new)

    def removed(self, file: str) -> None:
        """A file was removed."""
        with self._lock:
            self.count += 1
            self._files.discard(file)
            self._names.discard(file)

    def unsynced(self) -> list[str]:
        """The files and names that a crash may still take, in order."""
        with self._lock:
            return [*sorted(self._files), *(f"the name {name}" for name in sorted(self._names))]
