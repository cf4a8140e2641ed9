"""Guard: a small process that stops a Postgres server when the process that uses it has ended.

A `Guard` in the process that uses the server starts this file as a program of its own, and keeps
the write end of a pipe to it. When the process ends, even by SIGKILL, the operating system closes
that end. The program then stops the server, unless another process uses it too.

A lock shows whether other processes use the server: each program holds ``<folder>.lock`` shared.
The program that gets the lock exclusively stops the server. A program that starts meanwhile waits
until the server is stopped.

The program needs only the standard library, and no other module of this package.
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
"""Seconds between two checks of a server that is stopping or starting."""
_SETTLED: Final = b"s"
"""Written when the server has started, or failed to start: no server starts after this byte."""
_STARTING: Final = 5.0
"""Seconds that the program waits for a server whose starter died before the server was up."""
_SIGNALS: Final = ((signal.SIGINT, 15.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0))
"""Fast shutdown, immediate shutdown, kill; each with the seconds to wait before the next one."""


class Guard:
    """This process's use of a folder's server; it ends with the process, or by `close`.

    Args:
        folder: The server's data folder, resolved; its parent exists. The lock is beside it, in
            ``<folder>.lock``.
        remove: A folder to remove after the server is stopped.

    Raises:
        OSError: The program does not start.
    """

    def __init__(self, folder: Path, remove: Path | None = None) -> None:
        self._process = os.getpid()
        command = [sys.executable, "-I", "-S", __file__, str(folder)]
        if remove is not None:
            command.append(str(remove))
        # A session of its own, so that Ctrl-C or a signal to the process group does not reach it.
        self._program = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        with self._program.stdout as ready:
            if not ready.read(1):
                self._program.stdin.close()
                raise OSError(
                    f"the guard process of {folder} ended with code {self._program.wait()} before "
                    "it was ready"
                )
        self._end: Callable[[], None] = self.close
        atexit.register(self._end)

    @property
    def mine(self) -> bool:
        """True in the process that made the guard; a forked child must make its own."""
        return self._process == os.getpid()

    def settled(self) -> None:
        """Tell the program that the server has started, or that it never will start."""
        assert self._program.stdin is not None
        with suppress(OSError):
            self._program.stdin.write(_SETTLED)
            self._program.stdin.flush()

    def close(self) -> None:
        """End the use. If no other process uses the server, return after the server is stopped."""
        if self.mine:
            atexit.unregister(self._end)
            assert self._program.stdin is not None
            with suppress(OSError):
                self._program.stdin.close()
            self._program.wait()


def main(folder: Path, remove: Path | None) -> None:
    """Hold the lock shared until the starter ends; then stop the server if the lock is free."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    lock = os.open(f"{folder}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_SH)
    os.write(1, b"r")
    os.close(1)
    settled = False
    while said := os.read(0, 1):
        settled = settled or said == _SETTLED
    # If several programs release the lock at once, the last one gets it, or finds it taken.
    fcntl.flock(lock, fcntl.LOCK_UN)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    stop(folder, 0.0 if settled else _STARTING)
    if remove is not None:
        shutil.rmtree(remove, ignore_errors=True)


def stop(folder: Path, patience: float = 0.0) -> None:
    """Stop the server of a folder, and return after its process has ended.

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
    """The process id of the server of a folder; None if it does not run."""
    try:
        pid = int((folder / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None
    return pid if pid > 0 and _serves(pid, folder) else None


def _serves(pid: int, folder: Path) -> bool:
    """True if the process is the folder's server, and not a later process with the same id."""
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
