"""Processes: the commands of a target, and everything that they start."""

from __future__ import annotations

import asyncio
import codecs
import os
import secrets
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .shelf import aside

_TASK = "BUILDS_TASK"
"""The environment variable that every process of a target inherits: the mark of its Task."""
_LINE = "BUILDS_LINE"
"""The same for one line that one process runs: a builder that lost the Task ends only its own."""
_PROC = Path("/proc")
_SCANS = 50


async def run_line(line: str, folder: Path, mark: str, hear: Callable[[str], None]) -> int:
    """Run one line of a recipe by ``sh``, in a session of its own; return its exit status.

    The line is over when ``sh`` ends; processes that it left behind are then ended. After a
    cancellation nothing of it runs either. Another run of the same Task is left alone.

    Args:
        mark: The Task's mark, by which `end_processes` finds the line.
        hear: Gets the output, piece by piece.

    Raises:
        OSError: The line cannot be started.
    """
    # A pipe of our own: `Process.wait` of some Pythons waits until asyncio's pipes are closed.
    reading, writing = os.pipe()
    own = secrets.token_hex(16)
    try:
        process = await asyncio.create_subprocess_exec(
            "sh", "-e", "-c", line, cwd=folder, start_new_session=True,
            env={**os.environ, _TASK: mark, _LINE: own}, stdin=asyncio.subprocess.DEVNULL,
            stdout=writing, stderr=writing,
        )  # fmt: skip
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    over = asyncio.create_task(_ended(process, own))
    try:
        reader = asyncio.StreamReader()
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb")
        )
        try:
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            while piece := await reader.read(65_536):
                hear(decoder.decode(piece))
            hear(decoder.decode(b"", final=True))
        finally:
            pipe.close()
        return await over
    finally:
        _kill_group(process.pid)
        await over


async def _ended(process: asyncio.subprocess.Process, own: str) -> int:
    status = await process.wait()
    _kill_group(process.pid)
    await aside(_end_all_with, _LINE, own)
    return status


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


async def end_processes(mark: str) -> None:
    """End every process of a Task on this machine, whoever began it.

    Args:
        mark: The Task's mark.

    Raises:
        RuntimeError: Some are still there after 50 scans.
    """
    await aside(_end_all_with, _TASK, mark)


def _end_all_with(variable: str, mark: str) -> None:
    wanted, found = f"{variable}={mark}".encode(), 0
    for _ in range(_SCANS):
        found = 0
        for entry in _PROC.iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    if wanted in (entry / "environ").read_bytes().split(b"\0"):
                        os.kill(int(entry.name), signal.SIGKILL)
                        found += 1
        if not found:
            return
        time.sleep(0.02)
    raise RuntimeError(f"{found} processes with {variable}={mark} do not end after SIGKILL")
