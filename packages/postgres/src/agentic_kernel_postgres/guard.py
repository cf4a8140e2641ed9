"""Guard: a small process that stops a Postgres server when the process that uses it has ended.

A `Guard` in the process that uses the server starts this file as a program of its own, and keeps
the write end of a pipe to it. The operating system closes that end however the process ends,
SIGKILL included. The program then stops the server, unless another process uses it too.

Who uses a server is a lock: each program holds ``<folder>.lock`` shared. The one that gets it
alone stops the server. A program that starts meanwhile waits until the server is stopped.

The program needs the standard library only, and nothing of this package.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

_TICK: Final = 0.02
"""Seconds between two looks at a server that is to end."""
_SETTLED: Final = b"s"
"""Written when the server has started, or failed to: no server appears after this."""
_STARTING: Final = 5.0
"""Seconds for which the program waits for a server whose starter died before it was there."""
_SIGNALS: Final = ((signal.SIGINT, 15.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0))
"""Stop fast, stop at once, die; and the seconds before the next one is tried."""


class Guard:
    """A use of the server of a folder by this process; it ends with the process, or by `close`.

    Args:
        folder: The server's data folder, resolved; its parent is there. The lock is beside it, in
            ``<folder>.lock``.
        remove: A folder that is removed once the server is stopped.

    Raises:
        OSError: The program does not start.
    """

    def __init__(self, folder: Path, remove: Path | None = None) -> None:
        self._process = os.getpid()
        command = [sys.executable, "-I", "-S", __file__, str(folder)]
        if remove is not None:
            command.append(str(remove))
        # A session of its own: Ctrl-C in a terminal, and a signal to the group, pass it by.
        self._program = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        with self._program.stdout as ready:
            if not ready.read(1):
                self._program.stdin.close()
                raise OSError(f"the guard of {folder} ended with {self._program.wait()}")
        self._end: Callable[[], None] = self.close
        atexit.register(self._end)

    @property
    def mine(self) -> bool:
        """True in the process that made it; a forked child has to make its own."""
        return self._process == os.getpid()

    def settled(self) -> None:
        """Tell the program that the server has started, or that it never will."""
        assert self._program.stdin is not None
        with suppress(OSError):
            self._program.stdin.write(_SETTLED)
            self._program.stdin.flush()

    def close(self) -> None:
        """End the use, and return when the server is stopped if no other process uses it."""
        if self.mine:
            atexit.unregister(self._end)
            assert self._program.stdin is not None
            with suppress(OSError):
                self._program.stdin.close()
            self._program.wait()


def main(folder: Path, remove: Path | None) -> None:
    """Hold the lock shared until the starter ends; then stop the server if nobody else holds it."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    lock = os.open(f"{folder}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_SH)
    os.write(1, b"r")
    os.close(1)
    settled = False
    while said := os.read(0, 1):
        settled = settled or said == _SETTLED
    # Of several that let go at once, the last one to let go gets it, or finds it taken.
    fcntl.flock(lock, fcntl.LOCK_UN)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    stop(folder, 0.0 if settled else _STARTING)
    if remove is not None:
        shutil.rmtree(remove, ignore_errors=True)


def stop(folder: Path, patience: float = 0.0) -> None:
    """Stop the server of a folder, and return when its process is gone.

    Args:
        patience: Seconds to wait for a server that may be about to start.
    """
    until = time.monotonic() + patience
    while (pid := server_of(folder)) is None:
        if time.monotonic() >= until:
            return
        time.sleep(_TICK)
    for number, seconds in _SIGNALS:
        until = time.monotonic() + seconds
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        while time.monotonic() < until:
            if not _serves(pid, folder):
                return
            time.sleep(_TICK)


def server_of(folder: Path) -> int | None:
    """The process id of the server of a folder, if it runs."""
    try:
        pid = int((folder / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None
    return pid if pid > 0 and _serves(pid, folder) else None


def _serves(pid: int, folder: Path) -> bool:
    """Whether the process is a server of the folder, and no later one with the same number."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        if Path("/proc/self/cmdline").exists():
            return False
        asked = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
        command = subprocess.run(asked, capture_output=True, check=False).stdout
    return b"postgres" in command and os.fsencode(folder) in command


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
