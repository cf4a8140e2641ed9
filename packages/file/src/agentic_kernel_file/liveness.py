"""Liveness: the living hosts, known by locks that the operating system releases at their death."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import blake2b
from typing import NamedTuple

from agentic_kernel_engine.errors import HostGone, StoreError

from .errors import Damaged, FolderGone
from .files import Directory, File
from .folder import HOSTS, Folder


class Past(NamedTuple):
    """Hosts that never live again, even if the path leads to another folder later."""

    gone: set[str]
    """Hosts that left, or that were seen dead."""
    lost: dict[str, str]
    """Those of them that were alive when their folder was lost, each with what happened to it."""


class Liveness:
    """A file per host in the folder ``hosts``; its process locks the file while the host lives.

    A stopped process keeps its locks, so it keeps its Tasks. If the file is gone, or its lock is
    free, the host is gone for good (R14: liveness is a lock that dies with the process). The file
    names are digests, so no name from a caller becomes part of a path.
    """

    def __init__(self, folder: Folder, past: Past | None = None) -> None:
        """Open the folder; ``past`` holds the hosts that were lost before in this process."""
        try:
            self.directory: Directory = folder.directory.inside(HOSTS)
        except FileNotFoundError as error:
            raise Damaged(
                f"{folder.path}/{HOSTS} is gone; restore the folder from a copy"
            ) from error
        self._held: dict[str, File] = {}
        self._past = past or Past(set(), {})
        self._gone = self._past.gone
        self._begun: str | None = None
        """The file name of a join that failed and may be tried again."""

    def join(self, host: str) -> None:
        """Declare a host alive. The caller holds the folder's lock.

        Raises:
            HostGone: The host left before, or its process died.
            StoreError: Another process uses the name.
        """
        if host in self._held:
            return
        name = _name(host)
        self.check_not_lost(host)
        if host in self._gone:
            raise self._past_use(host)
        used = name != self._begun and name in self.directory.names()
        if not used:
            self._begun = name
        file = self.directory.open(name, os.O_RDWR if used else os.O_RDWR | os.O_CREAT)
        if not file.try_lock():
            raise StoreError(
                f"another process uses the host name {ascii(host)[:80]} in {self.directory.path}; "
                "join with a fresh random name"
            )
        if used:
            self._gone.add(host)
            raise self._past_use(host)
        self._held[host] = file
        self._begun = None

    def leave(self, host: str) -> None:
        """Declare a host gone for good."""
        self._gone.add(host)
        if host not in self._held:
            return
        try:
            # Removed while its lock is still held, because a sweep removes unlocked files itself.
            self.directory.remove(_name(host))
        finally:
            del self._held[host]

    def check_not_lost(self, host: str) -> None:
        """Refuse a host of this process that was alive in a folder that is gone.

        Raises:
            HostGone: The host was; the message and the cause say what happened to the folder.
        """
        why = self._past.lost.get(host)
        if why is not None:
            name = ascii(host)[:80]
            raise HostGone(host, f"the host {name} is gone, because {why}") from FolderGone(why)

    def check_not_left(self, host: str) -> None:
        """Refuse a host that is known to have left or died.

        Raises:
            HostGone: It is.
        """
        if host in self._gone:
            raise self._past_use(host)

    def lose_all(self, why: str) -> None:
        """Give up every host of this process, because the folder is gone."""
        self._past.lost.update(dict.fromkeys(self._held, why))
        self._gone.update(self._held)
        self._held.clear()

    @staticmethod
    def _past_use(host: str) -> HostGone:
        return HostGone(
            host,
            f"the host {ascii(host)[:80]} left, or its process died, and cannot join again; "
            "join with a fresh random name",
        )

    def leave_all(self) -> None:
        """Declare every host of this process gone."""
        for host in list(self._held):
            self.leave(host)

    def abandon(self) -> None:
        """Close the files in a forked child; the hosts belong to its parent and stay alive."""
        for file in self._held.values():
            file.close()

    def alive(self, host: str) -> bool:
        """True if the host's process holds its lock. Once False, it stays False for ever."""
        if host in self._held:
            return True
        if host in self._gone:
            return False
        try:
            file = self.directory.open(_name(host))
        except FileNotFoundError:
            self._gone.add(host)
            return False
        if not file.try_lock():
            return True
        self._gone.add(host)
        return False

    def sweep(self) -> None:
        """Remove the files of dead hosts. The caller holds the folder's lock.

        A host joins under the same lock, so no file seen here is about to be locked. A host that
        leaves meanwhile removes its file itself.
        """
        own = {_name(host) for host in list(self._held)}
        for name in self.directory.names():
            if name not in own:
                with suppress(FileNotFoundError):
                    file = self.directory.open(name)
                    if file.try_lock():
                        self.directory.remove(name)


def _name(host: str) -> str:
    return blake2b(host.encode(errors="surrogatepass"), digest_size=16).hexdigest()
