"""SIGINT and SIGTERM: every Task is left durable and able to go on."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .host import Host

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """What `drain_on_signals` hands out: whether, and by which signal, the Host was stopped."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self.drained = asyncio.Event()
        """Set once the Host has drained after a signal."""


@asynccontextmanager
async def drain_on_signals(
    host: Host, *, pause: bool = False, timeout: float = 30.0
) -> AsyncIterator[Stopping]:
    """Drain the Host on the first SIGINT or SIGTERM; a second one acts as it always did.

    Usable in the main thread only, as all signal handlers of Python are.

    Args:
        pause: Pause the Tasks; otherwise they stay running and claimable.
        timeout: Seconds for the runs to reach a safe point; see `Host.drain`.
    """
    loop = asyncio.get_running_loop()
    stopping = Stopping()
    draining: list[asyncio.Task[None]] = []

    def restore() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, previous[number] or signal.SIG_DFL)

    async def drain() -> None:
        try:
            await host.drain(pause=pause, timeout=timeout)
        finally:
            stopping.drained.set()

    def stop(number: signal.Signals) -> None:
        restore()
        stopping.signal = number
        draining.append(loop.create_task(drain()))

    previous = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        yield stopping
    finally:
        if stopping.signal is None:
            restore()
        for task in draining:
            await task
