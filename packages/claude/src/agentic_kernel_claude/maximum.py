"""Maximum: the most tokens that a model can write, which each request of the API has to name."""

from __future__ import annotations

import asyncio
from typing import Any, Final

UNKNOWN: Final = 4096
"""The most tokens of an answer of a model whose server does not tell its maximum."""
SECONDS: Final = 10.0
"""The most seconds to wait for that number."""


class Maximum:
    """The most tokens that a model can write, which the server is asked for once.

    Args:
        model: The model's name.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._most: int | None = None

    @property
    def tokens(self) -> int:
        """The number, or `UNKNOWN` before `ask`."""
        return self._most or UNKNOWN

    async def ask(self, client: Any) -> None:
        """Ask the server, unless it was asked before.

        A server that does not answer well is not asked again: many servers have no such page, and
        the model's own call tells of a server that fails.
        """
        if self._most is not None:
            return
        self._most = UNKNOWN
        try:
            async with asyncio.timeout(SECONDS):
                told = (await client.models.retrieve(self._model)).max_tokens
        except asyncio.CancelledError:
            self._most = None
            raise
        except Exception:
            return
        if type(told) is int and told > 0:
            self._most = told
