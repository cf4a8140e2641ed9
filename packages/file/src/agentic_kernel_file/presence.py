"""Presence: the check that the path still leads to the open folder and its open files.

A process can write to and sync a removed, renamed or replaced folder as long as the folder is open,
but no other process ever finds a byte of it. So the store checks the path before it acknowledges a
write and before it answers a read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, Protocol

from . import head, manifest
from .errors import Damaged, FolderGone
from .files import File, Identity
from .folder import HOSTS, LOCK, Folder
from .liveness import Liveness
from .log import segment_name
from .states import STATES
from .table import table_name

_TICK: Final = 20_000_000
"""Nanoseconds; a folder that changed more recently may change again with the same time stamp."""
_TRIES: Final = 10
_REMEDY: Final = (
    "put the folder back as it was, or make a new Host, which uses the folder that the path leads "
    "to now, and check its Tasks"
)


class Reads(Protocol):
    """The part of a store, or of a memory, that has the files of a manifest open."""

    @property
    def manifest(self) -> manifest.Manifest:
        """The manifest that it read last."""
        ...

    def files(self) -> Mapping[str, File]:
        """The open files by name."""
        ...


class Presence:
    """The check of the path; it costs one `stat` while no name in the folder changes.

    Args:
        liveness: The folder of the hosts that are alive; None if there is no such folder.
        remedy: The last part of the messages: the caller's remedy.
    """

    def __init__(
        self, folder: Folder, reader: Reads, liveness: Liveness | None, remedy: str = _REMEDY
    ) -> None:
        self._folder = folder
        self._reader = reader
        self._liveness = liveness
        self._remedy = remedy
        self._look = partial(folder.files.look, folder.path)
        self._sound: Identity | None = None
        """The folder's identity at the last check that found every file in its place."""

    def check(self) -> None:
        """Check that the path leads to the open folder, and the names in it to the open files.

        Raises:
            FolderGone: The folder, or a file of the store in it, was removed or replaced.
        """
        folder = self._folder
        try:
            found = self._look()
        except (FileNotFoundError, NotADirectoryError):
            raise self._gone(folder.path, "was removed or renamed") from None
        if found == self._sound:
            return
        if not found.same(folder.directory.identity()):
            raise self._gone(folder.path, "was replaced by another folder")
        self.check_inside()
        if 0 <= time.time_ns() - found.changed <= _TICK or found.changed > time.time_ns():
            self._sound = None
        else:
            self._sound = found

    def check_inside(self) -> None:
        """Check every file in the open folder, even if the path leads elsewhere now.

        Raises:
            FolderGone: A file is missing, or is not the open one.
        """
        for name, identity in self._fixed():
            self._check(name, identity)
        for _ in range(_TRIES):
            try:
                current = self._folder.known_manifest()
            except Damaged as error:
                raise self._gone(f"{self._folder.path}/{manifest.NAME}", "is gone") from error
            try:
                self._check_named(current)
            except FolderGone:
                if self._folder.manifest().generation != current.generation:
                    continue  # a compaction removed files that the new manifest does not name
                raise
            return

    def _fixed(self) -> Iterator[tuple[str, Identity]]:
        """The files and folders that the store never replaces."""
        folder = self._folder
        if folder.writable:
            yield LOCK, folder.lock.identity()
        yield head.NAME, folder.head.file.identity()
        if self._liveness is not None:
            yield HOSTS, self._liveness.directory.identity()
        states = folder.states.directory
        if states is not None:
            yield STATES, states.identity()

    def _check_named(self, current: manifest.Manifest) -> None:
        if current.generation < self._reader.manifest.generation:
            path = f"{self._folder.path}/{manifest.NAME}"
            raise self._gone(path, "was replaced by an older one")
        files = self._reader.files()
        named = [segment_name(entry.number) for entry in current.segments]
        if current.table is not None:
            named.append(table_name(current.table))
        for name in named:
            file = files.get(name)
            self._check(name, None if file is None else file.identity())

    def _check(self, name: str, known: Identity | None) -> None:
        where = f"{self._folder.path}/{name}"
        try:
            found = self._folder.directory.look(name)
        except FileNotFoundError:
            raise self._gone(where, "was removed or renamed") from None
        if known is not None and not found.same(known):
            raise self._gone(where, "was replaced")

    def _gone(self, what: str, happened: str) -> FolderGone:
        return FolderGone(f"{what} {happened} while the store was open; {self._remedy}")
