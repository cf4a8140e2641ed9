"""A worker process: a Host with the substrate under test, on a store in the kit's process."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import isawaitable
from pathlib import Path
from typing import Any

from agentic_kernel_engine import Host, task_from_json

from .mark import post
from .substrate_factory import SubstrateFactory
from .substrate_remote import RemoteStore
from .substrate_watchdog import Watchdog
from .substrate_wire import Peer

INTERVAL = 0.01
"""Seconds between two looks of a worker's Host at the store."""


@dataclass(frozen=True, slots=True)
class Orders:
    """All that a worker process is told when it starts; plain values."""

    factory: str
    arguments: tuple[str | int | float | bool | None, ...]
    port: int
    """The port of the kit's store, on the loopback interface."""
    secret: str
    """The name by which this worker says who it is."""
    held: float
    """Seconds for which the event loop may be held."""


def work(orders: Orders) -> None:
    """Run the Host until the kit's process ends the connection."""
    asyncio.run(_Worker(orders).run())


class _Worker:
    """The event loop's side of a worker."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._host: Host | None = None
        self._substrate: Any = None

    async def run(self) -> None:
        orders = self._orders
        # The connection comes first: by its end the kit learns that the factory ended the process.
        reader, writer = await asyncio.open_connection("127.0.0.1", orders.port)
        peer = Peer(reader, writer, self._answer)
        serving = asyncio.create_task(peer.serve(), name="kit: connection")
        await peer.call("hello", orders.secret)
        try:
            self._substrate = await SubstrateFactory(orders.factory, orders.arguments).make()
        except (Exception, SystemExit):
            await peer.call("failed", traceback.format_exc())
            raise
        loop, thread = asyncio.get_running_loop(), threading.get_ident()
        Watchdog(loop, thread, orders.held, tell_held).start()
        self._host = Host(self._substrate, RemoteStore(peer), interval=INTERVAL, max_attempts=None)
        async with self._host:
            await peer.call("ready", self._host.name)
            await serving
            # The kit is gone, and the store with it: there is nothing to let go in.
            os._exit(0)

    async def _answer(self, name: str, arguments: Sequence[Any]) -> Any:
        return await getattr(self, f"do_{name}")(*arguments)

    async def do_dispatch(self, task: str) -> None:
        """Dispatch the Task with this JSON text."""
        assert self._host is not None
        await self._host.dispatch(task_from_json(task))

    async def do_claim(self, task_id: str) -> None:
        """Take up a Task of a worker that died, without the Host's wait after a crash."""
        assert self._host is not None
        await self._host.claim(task_id)

    async def do_resume(self, task_id: str) -> None:
        """Resume a paused Task in this process."""
        assert self._host is not None
        await self._host.resume(task_id)

    async def do_drain(self, seconds: float) -> None:
        """Let every run go at its next safe point."""
        assert self._host is not None
        await self._host.drain(timeout=seconds)

    async def do_pulse(self) -> None:
        """Answer as soon as the event loop runs."""

    async def do_close(self) -> None:
        """Close the substrate, if it has a ``close`` or an ``aclose``."""
        closing = getattr(self._substrate, "aclose", None) or getattr(
            self._substrate, "close", None
        )
        closed = None if closing is None else closing()
        if isawaitable(closed):
            await closed

    async def do_look(self) -> dict[str, list[str]]:
        """Name all that is alive in this process: asyncio tasks, threads, open sockets."""
        tasks = [
            _named(task) for task in asyncio.all_tasks() if not task.get_name().startswith("kit: ")
        ]
        return {"tasks": sorted(tasks), "threads": _threads(), "sockets": _sockets()}


def tell_held(stack: str) -> None:
    """Tell the kit, from any thread, which calls hold the event loop."""
    post("held", stack.encode())


def _named(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", task.get_name())


def _threads() -> list[str]:
    """The threads that do something; a thread of a pool that waits for work is left out."""
    frames = sys._current_frames()
    found = []
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if thread is threading.main_thread() or thread.name.startswith("kit: ") or frame is None:
            continue
        code = frame.f_code
        if code.co_name != "_worker" or Path(code.co_filename).parent.name != "futures":
            found.append(f"{thread.name} in {code.co_qualname}")
    return sorted(found)


def _sockets() -> list[str]:
    """The open sockets of this process, where the system shows them."""
    found = []
    folder = Path("/proc/self/fd")
    for entry in folder.iterdir() if folder.is_dir() else ():
        try:
            target = str(entry.readlink())
        except OSError:
            continue
        if target.startswith("socket:"):
            found.append(target)
    return sorted(found)
