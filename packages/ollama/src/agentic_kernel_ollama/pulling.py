"""Pulling: the server downloads a model, and reports its progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, cast

from agentic_kernel_engine.providers import Malformed

if TYPE_CHECKING:
    from ollama import AsyncClient, ProgressResponse

PULL_SECONDS: Final = 3_600.0
"""The most seconds of one pull. The server keeps a partial download; a later pull resumes it."""
LONGEST: Final = 200
"""The most characters of a status in a line of progress."""


async def pulled(client: AsyncClient, model: str, timeout: float) -> AsyncGenerator[str, None]:
    """Yield lines of progress, without repeats; after the last one the server has the model.

    Args:
        client: The SDK's client.
        model: Name of the model.
        timeout: The most seconds in which no line differs from the one before it.

    Raises:
        TimeoutError: The pull took longer than `PULL_SECONDS`, or made no progress.
        Exception: Any exception of the SDK.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + PULL_SECONDS
    said = status = ""
    state, due = None, now() + timeout
    pulling = cast("AsyncGenerator[Any, None]", await client.pull(model, stream=True))
    async with aclosing(pulling) as parts:
        while True:
            async with asyncio.timeout_at(min(due, deadline)):
                part = await anext(parts, None)
            if part is None:
                break
            seen = (part.status, part.digest, part.completed)
            if seen != state:  # A line that repeats is no progress.
                state, due = seen, now() + timeout
            elif now() >= due:  # No wait of the stream suspended.
                raise TimeoutError
            status = part.status or ""
            line = _line(part, status)
            if line != said:
                said = line
                yield line
    if status != "success":
        raise Malformed("the server stopped pulling the model before its end; pull it again")


def _line(part: ProgressResponse, status: str) -> str:
    """Return a line of progress, in whole percent, so that there are few lines."""
    line = status[:LONGEST]
    if part.total and part.total > 0 and part.completed is not None:
        line += f" {max(0, min(100, 100 * part.completed // part.total))}%"
    return line
