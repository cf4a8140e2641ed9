"""Worker processes on the store under test, and the factory by which they open it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from inspect import isawaitable
from typing import Any

from agentic_kernel_engine import Store

from .rules import KitError

Argument = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class StoreFactory:
    """The factory by which any process opens the store under test.

    Args:
        path: ``package.module:name`` of a callable that returns a Store.
        arguments: The arguments of the call; plain values, because they cross a process boundary.
    """

    path: str
    arguments: tuple[Argument, ...] = ()

    def open(self) -> Store:
        """Open the store, and return a handle of this process's own."""
        module, _, name = self.path.partition(":")
        made: Store = getattr(import_module(module), name)(*self.arguments)
        return made


async def close(store: Store) -> None:
    """Close a handle, if it has a ``close``."""
    closing = getattr(store, "close", None)
    if closing is not None:
        closed = closing()
        if isawaitable(closed):
            await closed


class Worker:
    """A process that works on the store; it writes one JSON value per line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def said(self) -> Any:
        """Return the next JSON value that the process writes.

        Raises:
            KitError: The process ended without a value; the message holds its stderr.
        """
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        line = await self._process.stdout.readline()
        if not line:
            trouble = (await self._process.stderr.read()).decode(errors="replace")
            raise KitError(f"a worker process ended without a word:\n{trouble[-2_000:]}")
        return json.loads(line)

    def go(self, seed: int = 0) -> None:
        """Write the line that the process waits for."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"%d\n" % seed)

    async def kill(self) -> None:
        """End the process as ``kill -9`` does, and wait until it is gone."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def worker(factory: StoreFactory, job: str, **told: Any) -> AsyncIterator[Worker]:
    """Start a process that does one job of `agentic_kernel_conformance.store_worker`."""
    path, arguments = factory.path, factory.arguments
    text = json.dumps({"path": path, "arguments": arguments, "job": job, "told": told})
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "agentic_kernel_conformance.store_worker",
        text,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=64 * 1024 * 1024,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    started = Worker(process)
    try:
        yield started
    finally:
        await started.kill()
