"""Shared by tests of Hosts that close: the wait until a Host drains, or is closed."""

from __future__ import annotations

import asyncio

from agentic_kernel import CannotStart, Task, TaskNotFound
from agentic_kernel_engine import Host, HostClosed


async def draining(host: Host, task: Task) -> None:
    """Wait until the Host starts nothing more.

    Args:
        task: What to ask it for meanwhile; all its slots are taken.
    """
    while True:
        try:
            await host.dispatch(task)
        except CannotStart as refused:
            if "draining" in str(refused):
                return
        await asyncio.sleep(0)


async def closed(host: Host) -> None:
    """Wait until the verbs of the Host refuse."""
    while True:
        try:
            await host.pause("unknown")
        except TaskNotFound:
            await asyncio.sleep(0)
        except HostClosed:
            return
