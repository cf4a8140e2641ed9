"""Unheld: calls that must let the event loop run; a watchdog looks while they are made."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from .rules import broken
from .substrate_watchdog import Watchdog

HELD: Final = 0.2
"""Seconds of looks for which a call may hold the event loop."""
Look = Callable[[], None]
"""Raises a `RuleError` if the event loop was held."""


@asynccontextmanager
async def unheld(doing: str) -> AsyncIterator[Look]:
    """Watch the event loop while the block makes calls; see `Watchdog`.

    A block that makes many calls without an ``await`` calls the `Look` after each of them, so that
    it ends with the first report.

    Args:
        doing: The name of the calls, for the report.

    Raises:
        RuleError: The block held the event loop.
    """
    stacks: list[str] = []

    def look() -> None:
        if stacks:
            raise broken("held", f"{doing} held the event loop; the innermost calls:\n{stacks[0]}")

    watchdog = Watchdog(asyncio.get_running_loop(), threading.get_ident(), HELD, stacks.append)
    await asyncio.sleep(0)
    watchdog.start()
    try:
        yield look
        look()
    finally:
        watchdog.stop()
