"""Lock: a file's lock that a caller waits for only until a timeout."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager

from .errors import StoreBusy
from .files import File, Identity

_SHORTEST, _LONGEST = 20e-6, 2e-3


class Lock(AbstractContextManager[None]):
    """A file's lock as a context manager; entering it waits until a timeout at most.

    A ``flock`` belongs to the open file, which all threads of the process share. So a second lock,
    a `threading.Lock`, excludes the threads of this process from each other.
    """

    __slots__ = ("_file", "_mutex", "_path", "_timeout")

    def __init__(self, file: File, timeout: float, path: str) -> None:
        self._file = file
        self._timeout = timeout
        self._path = path
        self._mutex = threading.Lock()

    def __enter__(self) -> None:
        if not self._mutex.acquire(blocking=False):
            self.acquire(self._timeout)
            return
        try:
            if not self._file.try_lock():
                self._wait(self._timeout)
        except BaseException:
            self._mutex.release()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self._file.unlock()
        finally:
            self._mutex.release()

    def acquire(self, timeout: float) -> None:
        """Take the lock.

        Raises:
            StoreBusy: Another process or thread held the lock until the timeout.
        """
        if not self._mutex.acquire(timeout=timeout):
            raise self._busy(timeout)
        try:
            if not self._file.try_lock():
                self._wait(timeout)
        except BaseException:
            self._mutex.release()
            raise

    def release(self) -> None:
        """Release the lock."""
        try:
            self._file.unlock()
        finally:
            self._mutex.release()

    def identity(self) -> Identity:
        """The identity of the lock's file."""
        return self._file.identity()

    def abandon(self) -> None:
        """Close the file in a forked child; the parent keeps the lock."""
        self._file.close()

    def _wait(self, timeout: float) -> None:
        deadline, pause = time.monotonic() + timeout, _SHORTEST
        while not self._file.try_lock():
            if time.monotonic() >= deadline:
                raise self._busy(timeout)
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST)

    def _busy(self, timeout: float) -> StoreBusy:
        return StoreBusy(
            f"{self._path} was locked by another process for {timeout:g} s; a process that uses "
            "the folder hangs or is stopped: continue or end it, and try again"
        )
