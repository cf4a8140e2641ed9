"""Liveness: which hosts are alive, told by locks that the operating system releases at death."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import blake2b

from agentic_kernel_engine.errors import StoreError

from .errors import Damaged
from .files import Directory, File
from .folder import HOSTS, Folder


class Liveness:
    """A file per host in the folder ``hosts``, locked by the process as long as the host lives.

    A process that is merely stopped keeps its locks, so it keeps its Tasks. A file that is gone,
    or whose lock can be had, means that the host is gone for good (R14). Files are named by a
    digest: no name given by a caller becomes part of a path.
    """

    def __init__(self, folder: Folder) -> None:
        try:
            self._directory: Directory = folder.directory.inside(HOSTS)
        except FileNotFoundError as error:
            raise Damaged(f"{folder.path}/{HOSTS} is gone; restore the folder") from error
        self._held: dict[str, File] = {}
        self._gone: set[str] = set()
        self._begun: str | None = None
        """The file of a join that failed, and may be tried again."""

    def join(self, host: str) -> None:
        """Declare a host alive. For the holder of the folder's lock.

        Raises:
            StoreError: Another process has the name, or it left before.
        """
        if host in self._held:
            return
        name = _name(host)
        if host in self._gone or (name != self._begun and name in self._directory.names()):
            raise StoreError(
                f"the host name {ascii(host)[:80]} was used before; join with a fresh random one"
            )
        self._begun = name
        file = self._directory.open(name, os.O_RDWR | os.O_CREAT)
        if not file.try_lock():
            raise StoreError(f"the host name {ascii(host)[:80]} is in use; join with another")
        self._held[host] = file
        self._begun = None

    def leave(self, host: str) -> None:
        """Declare a host gone for good."""
        self._gone.add(host)
        if host not in self._held:
            return
        try:
            # While its lock is still held: a sweep takes a file without one for its own to remove.
            self._directory.remove(_name(host))
        finally:
            del self._held[host]

    def leave_all(self) -> None:
        """Declare every host of this process gone."""
        for host in list(self._held):
            self.leave(host)

    def abandon(self) -> None:
        """Close the files without a word, in a forked child: the hosts are its parent's."""
        for file in self._held.values():
            file.close()

    def alive(self, host: str) -> bool:
        """Whether the host's process holds its lock. Once False, False for ever."""
        if host in self._held:
            return True
        if host in self._gone:
            return False
        try:
            file = self._directory.open(_name(host))
        except FileNotFoundError:
            self._gone.add(host)
            return False
        if not file.try_lock():
            return True
        self._gone.add(host)
        return False

    def sweep(self) -> None:
        """Remove the files of dead hosts. For the holder of the folder's lock.

        A host joins under the same lock, so no file seen here is about to be locked. One that
        leaves meanwhile removes its file itself.
        """
        own = {_name(host) for host in list(self._held)}
        for name in self._directory.names():
            if name not in own:
                with suppress(FileNotFoundError):
                    file = self._directory.open(name)
                    if file.try_lock():
                        self._directory.remove(name)


def _name(host: str) -> str:
    return blake2b(host.encode(errors="surrogatepass"), digest_size=16).hexdigest()
