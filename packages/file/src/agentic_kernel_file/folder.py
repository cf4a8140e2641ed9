"""Folder: one store on the disk; opened, distinguished from other folders, changed atomically."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from agentic_kernel_engine.errors import StoreError

from . import head, manifest
from .errors import Damaged, ForeignFolder, ReadOnly
from .files import Directory, File, Files, make_path
from .head import NOTHING, Head
from .lock import Lock
from .log import create_segment, is_empty, segment_name
from .manifest import Manifest, SegmentEntry
from .states import States

LOCK: Final = "agentic-kernel.lock"
HOSTS: Final = "hosts"
COMPACTION: Final = "compaction.lock"
DATA_FILE: Final = re.compile(r"(log|table)-(\d{6,})")
_NEW: Final = manifest.NAME + ".new"
_FIRST: Final = SegmentEntry(1, 1)
_BEGUN: Final = {LOCK, _NEW, HOSTS, head.NAME, segment_name(_FIRST.number)}
"""The names that a store may have in its folder before it has a manifest."""
_UNWRITABLE: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


class Folder:
    """The open folder: its lock, its head, and its manifest.

    There are two locks, always taken in this order. A writer holds the folder's own lock while it
    reads, checks and writes the log's end. It holds the head's lock while it publishes a position.
    A process that replaces the manifest holds both locks.
    """

    def __init__(
        self,
        path: Path,
        files: Files,
        timeout: float,
        *,
        create: bool,
        format: str = manifest.FORMAT,
    ) -> None:
        """Open the folder.

        Args:
            format: The format of the folder, which its manifest names.

        Raises:
            FileNotFoundError: It does not exist or is empty, and ``create`` is False.
            StoreError: It is not a store, or this version cannot read it.
        """
        self.path = str(path)
        self.files = files
        self._format = format
        if create:
            make_path(files, path)
        self.directory = Directory.at(files, self.path)
        self.states = States(self.directory)
        text = self._first_text(create=create)
        if text:
            self._decoded(text)
        self._known: tuple[File, Manifest] | None = None
        """The latest manifest that was read, and its open file."""
        self._lock: Lock | None = None
        try:
            # In a store with a manifest, opening creates no file: the lock file is older.
            flags = os.O_RDWR if text else os.O_RDWR | os.O_CREAT
            self._lock = Lock(self.directory.open(LOCK, flags), timeout, self._where(LOCK))
        except FileNotFoundError as error:
            raise Damaged(
                f"{self._where(LOCK)} is missing; restore the folder from a copy"
            ) from error
        except OSError as error:
            if create or error.errno not in _UNWRITABLE:
                raise
        if not text:
            with self.lock:
                self._create()
        try:
            self.head = Head(self.directory, writable=self.writable)
        except FileNotFoundError as error:
            raise Damaged(
                f"{self._where(head.NAME)} is missing; restore the folder from a copy"
            ) from error
        self.publishing = Lock(self.head.file, timeout, self._where(head.NAME))
        """The head's lock."""

    @property
    def writable(self) -> bool:
        return self._lock is not None

    @property
    def lock(self) -> Lock:
        """The folder's own lock.

        Raises:
            ReadOnly: The folder cannot be written.
        """
        if self._lock is None:
            raise ReadOnly(f"{self.path} cannot be written; check its permissions")
        return self._lock

    def manifest(self) -> Manifest:
        """The current manifest, read from the disk.

        Raises:
            Damaged: The manifest cannot be read, or is gone.
        """
        try:
            file = self.directory.open(manifest.NAME)
        except FileNotFoundError as error:
            raise Damaged(
                f"{self._where(manifest.NAME)} is gone; restore the folder from a copy"
            ) from error
        found = self._decoded(file.read(file.size(), 0))
        self._known = file, found
        return found

    def known_manifest(self) -> Manifest:
        """The current manifest, read from the disk only if another file has replaced the known one.

        Raises:
            Damaged: The manifest cannot be read, or is gone.
        """
        if self._known is not None:
            file, found = self._known  # kept open, so that no other file gets its inode
            with suppress(FileNotFoundError):
                if self.directory.look(manifest.NAME).same(file.identity()):
                    return found
        return self.manifest()

    def replace(self, successor: Manifest) -> None:
        """Replace the manifest durably. The caller holds both locks.

        The files that the new manifest names must be durable; this method makes their entries in
        the folder durable.
        """
        self.directory.sync()
        self._write_manifest(successor)
        # The head is written first: a process that sees the new generation reads the manifest
        # until it is there too. If the manifest came first, a writer could miss the change after a
        # crash in between.
        published = self.head.read()
        self.head.write(successor.generation, published.durable, published)
        self.directory.rename(_NEW, manifest.NAME)
        self.directory.sync()

    def abandon(self) -> None:
        """Close the locks, in a forked child that shares them with its parent."""
        self.publishing.abandon()
        self.states.abandon()
        if self._lock is not None:
            self._lock.abandon()

    def _create(self) -> None:
        try:
            self._manifest_text()
        except FileNotFoundError:
            self._refuse_foreign()
        else:
            return  # another process was first
        self.directory.sync()  # from now on, the durable lock file marks the folder as a store
        if self._format == manifest.FORMAT and HOSTS not in self.directory.names():
            self.directory.make(HOSTS)
        create_segment(self.directory, _FIRST.number, _FIRST.start)
        Head(self.directory, writable=True).write(1, _FIRST.start, NOTHING)
        self.directory.sync()
        self._write_manifest(Manifest(1, _FIRST.number + 1, (_FIRST,), format=self._format))
        self.directory.rename(_NEW, manifest.NAME)
        self.directory.sync()

    def _write_manifest(self, successor: Manifest) -> None:
        file = self.directory.open(_NEW, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        file.write(successor.encode(), 0)
        file.sync()

    def _decoded(self, text: bytes) -> Manifest:
        return manifest.decode(text, self._where(manifest.NAME), format=self._format)

    def _manifest_text(self) -> bytes:
        file = self.directory.open(manifest.NAME)
        return file.read(file.size(), 0)

    def _first_text(self, *, create: bool) -> bytes:
        """The manifest's text; empty if the folder is, or if the making of a store was cut off."""
        try:
            return self._manifest_text()
        except FileNotFoundError:
            try:
                self._refuse_foreign()
            except StoreError as refused:
                # Another process may have made the store between the two looks.
                try:
                    return self._manifest_text()
                except FileNotFoundError:
                    raise refused from None
            if not create:
                raise
            return b""

    def _refuse_foreign(self) -> None:
        names = self.directory.names()
        data = [name for name in names if DATA_FILE.fullmatch(name)]
        if LOCK in names and not all(
            name in _BEGUN and is_empty(self.directory.open(name)) for name in data
        ):
            raise Damaged(f"{self._where(manifest.NAME)} is gone; restore the folder from a copy")
        strangers = [name for name in names if name not in _BEGUN]
        if strangers or (names and LOCK not in names):
            shown = ", ".join(ascii(name)[:60] for name in sorted(strangers or names)[:3])
            raise ForeignFolder(
                f"{self.path} is not empty and is not a store of AgenticKernel (it holds {shown}); "
                "choose an empty folder"
            )

    def _where(self, name: str) -> str:
        return f"{self.path}/{name}"


def as_store_error(error: OSError, path: str, doing: str) -> StoreError:
    """The `StoreError` for an error of the operating system, with advice."""
    if isinstance(error, StoreError):
        return error
    if error.errno in _UNWRITABLE:
        return ReadOnly(f"cannot {doing} {path}: {error.strerror}; check its permissions")
    advice = {
        errno.ENOSPC: "free some space and try again",
        errno.EDQUOT: "free some space and try again",
        errno.ELOOP: "a symbolic link inside a store is refused; remove it",
        errno.EINVAL: "a store holds only regular files; remove the other one",
        errno.ENOTDIR: "choose a folder",
        errno.EMFILE: "raise the limit of open files (ulimit -n)",
    }.get(error.errno or 0, "check the disk and the folder")
    return StoreError(f"cannot {doing} {path}: {error.strerror or error}; {advice}")
