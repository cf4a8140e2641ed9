"""Presence: does the path still lead to the folder and to the files that are open?

A folder that was removed, renamed or replaced can be written to and synced for as long as it is
open, and no other process will ever find a byte of it. So a write is acknowledged, and a read
answered, only after a look at the path.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Final

from . import head, manifest
from .errors import Damaged, FolderGone
from .files import Identity
from .folder import HOSTS, LOCK, Folder
from .liveness import Liveness
from .log import segment_name
from .reader import Reader
from .states import STATES
from .table import table_name

_TICK: Final = 20_000_000
"""Nanoseconds. A folder that changed less long ago may change again without another stamp."""
_TRIES: Final = 10


class Presence:
    """Costs one `stat` of the path as long as no name in the folder is made or removed."""

    def __init__(self, folder: Folder, reader: Reader, liveness: Liveness) -> None:
        self._folder = folder
        self._reader = reader
        self._liveness = liveness
        self._look = partial(folder.files.look, folder.path)
        self._sound: Identity | None = None
        """The folder as it was when everything in it was last found in its place."""

    def check(self) -> None:
        """Look.

        Raises:
            FolderGone: The folder, or a file of the store in it, is not the one that is open.
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
        """Look at every file in the folder, wherever the folder is by now.

        Raises:
            FolderGone: One of them is missing, or another one than the one that is open.
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
                    continue  # a compaction removed what the manifest does not name any more
                raise
            return

    def _fixed(self) -> Iterator[tuple[str, Identity]]:
        """What is never replaced."""
        folder = self._folder
        if folder.writable:
            yield LOCK, folder.lock.identity()
        yield head.NAME, folder.head.file.identity()
        yield HOSTS, self._liveness.directory.identity()
        states = folder.states.directory
        if states is not None:
            yield STATES, states.identity()

    def _check_named(self, current: manifest.Manifest) -> None:
        catalog, path = self._reader.catalog, f"{self._folder.path}/{manifest.NAME}"
        if current.generation < self._reader.manifest.generation:
            raise self._gone(path, "was replaced by an older one")
        files = catalog.log.files()
        for entry in current.segments:
            file = files.get(entry.number)
            self._check(segment_name(entry.number), None if file is None else file.identity())
        if current.table is not None:
            table = catalog.table
            name = table_name(current.table)
            known = table is not None and table.file.name == name
            self._check(name, table.file.identity() if known and table is not None else None)

    def _check(self, name: str, known: Identity | None) -> None:
        where = f"{self._folder.path}/{name}"
        try:
            found = self._folder.directory.look(name)
        except FileNotFoundError:
            raise self._gone(where, "was removed or renamed") from None
        if known is not None and not found.same(known):
            raise self._gone(where, "was replaced")

    @staticmethod
    def _gone(what: str, happened: str) -> FolderGone:
        return FolderGone(
            f"{what} {happened} while the store was open; put the folder back as it was, or go on "
            "with what the path leads to now: make a new Host, and check what it finds there"
        )
