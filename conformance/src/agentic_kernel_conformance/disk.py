"""Disk: fails or delays a store's file operations; the adapter asks it before each of them."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Disk:
    """A disk that is healthy until the kit makes it fail or wait.

    The store's files call `before` ahead of each operation that changes a file or a folder, or
    makes a change durable. It may be called in any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._fails: tuple[int, int] | None = None
        self._waits = 0
        self._loop: int | None = None
        self._reached = threading.Event()
        self._released = threading.Event()
        self.on_loop = ""
        """The first operation that had to wait in the thread of the event loop; empty for none."""

    def before(self, operation: str) -> None:
        """Let the operation happen, now or later.

        Args:
            operation: The name of the operation and of the file, for messages.

        Raises:
            OSError: The disk fails here.
        """
        with self._lock:
            self._count += 1
            if self._fails is not None and self._count >= self._fails[0]:
                number = self._fails[1]
                raise OSError(number, f"{os.strerror(number)} (of the kit), before {operation}")
            if not self._waits or self._count < self._waits:
                return
            self._reached.set()
            if threading.get_ident() == self._loop:
                self.on_loop = self.on_loop or operation
                return
        self._released.wait()

    @contextmanager
    def failing(self, at: int, number: int = errno.EIO) -> Iterator[None]:
        """Fail the operation ``at``, counted from 1, and each later one, until the block ends.

        Args:
            number: The ``errno`` of the error.
        """
        with self._lock:
            self._count, self._fails = 0, (at, number)
        try:
            yield
        finally:
            with self._lock:
                self._fails = None

    @contextmanager
    def waiting(self, at: int) -> Iterator[threading.Event]:
        """Let the operation ``at``, counted from 1, and each later one wait until the block ends.

        The block runs on the event loop, whose thread never waits: `on_loop` names an operation in
        it. The event is set when the first operation waits, and at the end of the block.
        """
        with self._lock:
            self._count, self._waits, self.on_loop = 0, at, ""
            self._loop = threading.get_ident()
            self._reached, self._released = threading.Event(), threading.Event()
        try:
            yield self._reached
        finally:
            with self._lock:
                self._waits = 0
            self._reached.set()  # A thread may wait for it.
            self._released.set()

    @property
    def count(self) -> int:
        """The number of operations since `failing` or `waiting` began, or since the beginning."""
        with self._lock:
            return self._count
