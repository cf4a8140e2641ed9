"""Outage: a run does its own work again while the store fails, so that no Task ends of that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from agentic_kernel_engine import StoreError
from agentic_kernel_engine.errors import HostGone
from agentic_kernel_engine.faults import said

_log = logging.getLogger(__name__)
AGAIN: Final = 0.2
"""Seconds after which work is done again."""

T = TypeVar("T")


async def outlasting(
    what: str, work: Callable[[], Awaitable[T]], reset: Callable[[], None] | None = None
) -> T:
    """Do work until the store does not fail any more, and return its result.

    Args:
        what: Names the run in the log.
        work: May be begun again after a `StoreError`, which means that nothing was written.
        reset: Called before the work is done again.

    Raises:
        HostGone: The Host lost its lease. It can store nothing any more, so the Task goes on
            elsewhere.
    """
    while True:
        try:
            return await work()
        except HostGone:
            raise
        except StoreError as fault:
            _log.warning("%s: %s; it is tried again", what, said(fault))
            if reset is not None:
                reset()
        await asyncio.sleep(AGAIN)
