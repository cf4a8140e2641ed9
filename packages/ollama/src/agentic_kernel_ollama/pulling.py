"""Pulling: the server fetches a model, and says how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, cast

from .failures import Inconsistent

if TYPE_CHECKING:
    from ollama import AsyncClient, ProgressResponse

PULL_SECONDS: Final = 3_600.0
"""How long all of it may take. The server keeps what it has, and goes on from there."""
LONGEST: Final = 200
"""Characters of one line of progress."""


async def pulled(client: AsyncClient, model: str) -> AsyncGenerator[str, None]:
    """Lines of progress, each once; at their end the model is there.

    Raises:
        TimeoutError: It took longer than `PULL_SECONDS`.
        Exception: Whatever the SDK raises.
    """
    deadline = asyncio.get_running_loop().time() + PULL_SECONDS
    said = status = ""
    pulling = cast("AsyncGenerator[Any, None]", await client.pull(model, stream=True))
    async with aclosing(pulling) as parts:
        while True:
            async with asyncio.timeout_at(deadline):
                part = await anext(parts, None)
            if part is None:
                break
            status = part.status or ""
            line = _line(part, status)
            if line != said:
                said = line
                yield line
    if status != "success":
        raise Inconsistent("pulling the model stopped before its end")


def _line(part: ProgressResponse, status: str) -> str:
    """Whole percents, so that there are few lines."""
    line = status[:LONGEST]
    if part.total and part.total > 0 and part.completed is not None:
        line += f" {max(0, min(100, 100 * part.completed // part.total))}%"
    return line
