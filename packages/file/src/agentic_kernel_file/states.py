"""States: large states, each in a synced file of its own, written while other writes commit."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from hashlib import blake2b
from typing import Final, NamedTuple

from .files import Directory, File

STATES: Final = "states"
_CHUNK: Final = 1 << 19
_NO_FILE: Final = (errno.EINVAL, errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENOTDIR)
"""The errors of opening a name that leads to a folder, FIFO, socket, device or link, not a file."""


class StateFile(NamedTuple):
    """A reference to a state's file, as a frame or a table holds it."""

    name: str
    length: int
    digest: str


class Kept(NamedTuple):
    """A state's file, locked until a frame refers to it, so that no process removes it."""

    file: File
    reference: StateFile

    def there(self) -> bool:
        """True if the file still has a name."""
        return self.file.identity().links > 0


class States:
    """The folder ``states``.

    A file and its entry in the folder are durable before the log's frame that refers to the file.
    A crash in between leaves an unused file, to which no frame refers; a later sweep finds it with
    `forgotten` and removes it. Names are random and never used twice. So a file stays unused if no
    frame refers to it and no process is about to write such a frame.
    """

    def __init__(self, folder: Directory) -> None:
        self._folder = folder
        self._opened: Directory | None = None
        self._durable = False
        """True after this process has made the entry of the folder ``states`` durable."""
        self._making = threading.Lock()
        self._under_way: set[File] = set()

    @property
    def directory(self) -> Directory | None:
        """The open folder; None if this process has not used it yet."""
        return self._opened

    def put(self, state: bytes) -> Kept:
        """Write a state to a new file, durable when this method returns.

        Raises:
            OSError: The file could not be written; it is removed again.
        """
        directory = self._made()
        file = self._fresh(directory)
        self._under_way.add(file)  # until `settle` is called for it
        try:
            digest = blake2b(digest_size=16)
            for start in range(0, len(state), _CHUNK):
                # Synced piece by piece, so that a sync of the log waits for one piece at most.
                piece = state[start : start + _CHUNK]
                digest.update(piece)
                file.write(piece, start)
                file.sync_data()
            file.sync()
            directory.sync()
        except BaseException:
            with suppress(OSError):
                directory.remove(file.name)
            self._settled(file)
            raise
        return Kept(file, StateFile(file.name, len(state), digest.hexdigest()))

    def read(self, reference: StateFile) -> bytes:
        """Read a state from its file.

        Raises:
            FileNotFoundError: The file is gone; a later version of the record may not need it.
            ValueError: The file is damaged.
        """
        directory = self._known()
        if directory is None:
            raise FileNotFoundError(f"{STATES}/{reference.name}")
        try:
            file = directory.open(reference.name)
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
            raise ValueError(f"{STATES}/{reference.name} is not a regular file") from error
        data = file.read(reference.length + 1, 0)
        if len(data) != reference.length or _digest(data) != reference.digest:
            raise ValueError(f"{STATES}/{reference.name} does not match its length or its digest")
        return data

    def settle(self, kept: Kept, *, landed: bool | None) -> None:
        """Release a state's file after the write that refers to it.

        Args:
            landed: True if the write landed. False if it did not: the file is removed. None if the
                outcome is unknown.
        """
        if landed is False:
            with suppress(OSError):
                self.remove([kept.reference.name])
        self._settled(kept.file)

    def _settled(self, file: File) -> None:
        self._under_way.discard(file)
        file.close()

    def remove(self, names: Collection[str]) -> None:
        """Remove files to which no frame refers."""
        directory = self._known()
        if directory is not None:
            for name in names:
                with suppress(FileNotFoundError):
                    directory.remove(name)

    def forgotten(self, referred: Callable[[str], bool]) -> list[str]:
        """Names of unused files that no process is writing. The caller holds the folder's lock.

        Args:
            referred: Returns True if a frame up to the log's end, or the table, refers to a name.
        """
        directory = self._known()
        found = []
        for name in () if directory is None else directory.names():
            if not referred(name):
                try:
                    assert directory is not None
                    file = directory.open(name)
                except OSError as error:
                    if error.errno not in (errno.ENOENT, *_NO_FILE):
                        raise
                    continue  # removed meanwhile, or not a file of the store
                if file.try_lock():
                    found.append(name)
        return found

    def abandon(self) -> None:
        """Close the unsettled files in a forked child, because they belong to its parent."""
        for file in list(self._under_way):
            file.close()

    def _known(self) -> Directory | None:
        if self._opened is None:
            with suppress(FileNotFoundError):
                self._opened = self._folder.inside(STATES)
        return self._opened

    def _made(self) -> Directory:
        with self._making:
            directory = self._known()
            if directory is None:
                with suppress(FileExistsError):
                    self._folder.make(STATES)
                directory = self._opened = self._folder.inside(STATES)
            if not self._durable:  # another process may have made the folder, not yet synced
                self._folder.sync()
                self._durable = True
            return directory

    def _fresh(self, directory: Directory) -> File:
        """A new locked file; made again if a sweep removed it before it was locked."""
        while True:
            name = os.urandom(16).hex()
            file = directory.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            if file.try_lock() and file.identity().links:
                return file


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
