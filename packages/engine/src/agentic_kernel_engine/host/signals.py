"""Signals: drain a Host on SIGINT and SIGTERM, so that every Task is durable and can go on."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .host import Host

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """Tells the caller of `drain_on_signals` which signal has stopped the Host, if one has."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self.drained = asyncio.Event()
        """Set after the Host has drained because of a signal."""


@asynccontextmanager
async def drain_on_signals(
    host: Host, *, pause: bool = False, timeout: float = 30.0
) -> AsyncIterator[Stopping]:
    """Drain the Host on the first SIGINT or SIGTERM; the next one acts as it did before.

    It works in the main thread only, like all signal handlers of Python. A signal that the parent
    process had ignored (``nohup``, a background job of a script) stays ignored.

    Args:
        pause: True to pause the Tasks; otherwise they stay running and claimable.
        timeout: Seconds for the runs to reach a safe point; see `Host.drain`.
    """
    loop = asyncio.get_running_loop()
    stopping = Stopping()
    draining: list[asyncio.Task[None]] = []

    def restore() -> None:
        for number, handler in previous.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler or signal.SIG_DFL)

    async def drain() -> None:
        try:
            await host.drain(pause=pause, timeout=timeout)
        finally:
            stopping.drained.set()

    def stop(number: signal.Signals) -> None:
        restore()
        stopping.signal = number
        draining.append(loop.create_task(drain()))

    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    previous = {each: handler for each, handler in handlers.items() if handler != signal.SIG_IGN}
    for number in previous:
        loop.add_signal_handler(number, stop, number)
    try:
        yield stopping
    finally:
        if stopping.signal is None:
            restore()
        for task in draining:
            await task
