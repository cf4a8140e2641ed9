"""A guard that ends every process of a test run with the run, also if the run is killed.

As a pytest plugin it guards the pytest process, and each worker of pytest-xdist; a script calls
`guard` itself. The guard is a process of its own. The processes of the run carry a mark in their
environment, which their children inherit, so no fixture has to do anything: the guard finds a
server in a session of its own, a stopped process, and a grandchild whose parent is gone.

Linux only: the guard reads ``/proc``. Elsewhere `guard` does nothing.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

MARK: Final = "AGENTIC_KERNEL_RUNS"
"""The environment variable that holds the marks of a process: one for each run it belongs to."""
GRACE = 10.0
"""Seconds in which the processes may end by themselves, and remove their files."""
_LOOK = 0.05
"""Seconds between two looks at the processes that have not ended yet."""
_PROC: Final = Path("/proc")


def guard() -> None:
    """Start a process that ends all processes of this run as soon as this process is gone.

    The run is this process with all that it starts from now on. The guard ends by itself.
    """
    if not hasattr(os, "pidfd_open") or not (_PROC / "self" / "environ").exists():
        return
    mark = secrets.token_hex(8)
    os.environ[MARK] = ":".join(filter(None, (os.environ.get(MARK), mark)))
    watched = os.pidfd_open(os.getpid())
    try:
        # A session of its own, so that a signal for this process's group does not end the guard.
        started = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(watched), mark, str(GRACE)],
            pass_fds=(watched,), start_new_session=True, env={},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    finally:
        os.close(watched)
    # The guard outlives this process on purpose, so nothing waits for it.
    started.returncode = 0


def pytest_configure() -> None:
    """Guard this pytest process."""
    guard()


def marked(mark: str) -> list[int]:
    """The ids of the living processes with this mark."""
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                variables = (entry / "environ").read_bytes().split(b"\0")
                values = (each for each in variables if each.startswith(f"{MARK}=".encode()))
                if mark.encode() in next(values, b"=").partition(b"=")[2].split(b":"):
                    found.append(int(entry.name))
    return found


def main(watched: int, mark: str, grace: float) -> None:
    """Wait until the watched process is gone; then end the processes that are left of its run.

    A process that outlives two graces, for example another user's, is left alone.
    """
    select.select([watched], [], [])
    until = time.monotonic() + grace
    while (left := marked(mark)) and time.monotonic() < until + grace:
        if time.monotonic() > until:
            for process in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL)
        time.sleep(_LOOK)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
