"""Processes: the commands of a target, and everything that they start."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .shelf import aside

MARK = "BUILDS_MARK"
"""The environment variable that every process of a target inherits: the mark of its Task."""
_PROC = Path("/proc")
_SCANS = 50


async def run_line(line: str, folder: Path, mark: str, hear: Callable[[str], None]) -> int:
    """Run one line of a recipe by ``sh``, in a session of its own; return its exit status.

    The line is over when ``sh`` ends; processes that it left behind are then ended. After a
    cancellation nothing of it runs either.

    Args:
        hear: Gets the output, piece by piece.

    Raises:
        OSError: The line cannot be started.
    """
    # A pipe of our own: `Process.wait` of some Pythons waits until asyncio's pipes are closed.
    reading, writing = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            "sh", "-e", "-c", line, cwd=folder, start_new_session=True,
            env={**os.environ, MARK: mark}, stdin=asyncio.subprocess.DEVNULL,
            stdout=writing, stderr=writing,
        )  # fmt: skip
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    over = asyncio.create_task(_ended(process, mark))
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


async def _ended(process: asyncio.subprocess.Process, mark: str) -> int:
    status = await process.wait()
    _kill_group(process.pid)
    await end_processes(mark)
    return status


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


async def end_processes(mark: str) -> None:
    """End every process on this machine that has the mark in its environment.

    Raises:
        RuntimeError: Some are still there after 50 scans.
    """
    await aside(_end_processes, mark)


def _end_processes(mark: str) -> None:
    wanted, found = f"{MARK}={mark}".encode(), 0
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
    raise RuntimeError(f"{found} processes with {MARK}={mark} do not end after SIGKILL")
