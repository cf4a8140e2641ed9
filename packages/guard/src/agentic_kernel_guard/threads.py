"""Threads: a function in a thread, whatever it raises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[..., T], /, **given: Any) -> T:
    """Return the result of a function that runs in a thread.

    asyncio cannot pass a `StopIteration` on: the waiting caller would wait for ever. So it is
    raised as a `RuntimeError`, as that of a coroutine is.
    """

    def work() -> T:
        try:
            return function(**given)
        except StopIteration as error:
            raise RuntimeError("the function raised StopIteration") from error

    return await asyncio.to_thread(work)
