"""The processes that a worker's substrate has started, as Linux shows them in ``/proc``."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

from .mark import RUN

_PROC: Final = Path("/proc")
CAN_LOOK: Final = (_PROC / "self" / "environ").exists()
"""True if this system shows the processes of others; elsewhere they cannot be found."""


def processes(run: str, worker: int) -> dict[int, str]:
    """Return the living processes of a worker's substrate, as process id and command.

    Args:
        run: The value of `RUN` in the worker's environment, which its children inherit.
        worker: The worker's process id, which is also the session of children that were forked.
    """
    wanted = f"{RUN}={run}".encode()
    found = {}
    for entry in _PROC.iterdir() if CAN_LOOK else ():
        if not entry.name.isdecimal() or int(entry.name) == worker:
            continue
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            state, session = fields[0], int(fields[3])
            if state == "Z":
                continue
            if session == worker or wanted in (entry / "environ").read_bytes().split(b"\0"):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                found[int(entry.name)] = command or f"process {entry.name}"
    return found


def end(run: str, worker: int) -> None:
    """End the processes that a killed worker left."""
    for pid in processes(run, worker):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def files(folder: Path) -> list[str]:
    """Return the files and folders below a folder, by their paths in it."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
