"""Counters: the port to what counts calls for rate limits."""

from __future__ import annotations

from typing import Protocol


class Counters(Protocol):
    """Counts calls in a window that ends now.

    Processes that share a limit share the counters.
    """

    async def count(self, counter: str, seconds: float) -> int:
        """The number of calls that `counter` took in the last `seconds`."""
        ...
