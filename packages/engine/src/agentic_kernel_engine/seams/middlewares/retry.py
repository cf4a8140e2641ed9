"""Retry: a call that the provider failed is made again, later each time."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping

from agentic_kernel import InvalidValue

from ... import edges
from ...plans.context import Context
from ..middleware import Recovery


class Retry:
    """Has a planner's call repeated after a failure that it is told of, and after no other.

    The wait doubles each time; half of it is drawn at random, so that many runs do not come back
    at once. It is never shorter than the failure's ``retry_after_ms``; where that is longer than
    ``longest``, the call is not repeated, and the next middleware may know better. The Loop itself
    makes one call ten times at most.

    Args:
        codes: Of the failures after which to try again, e.g. ``openai/rate_limited``.
        times: How often one call is repeated at most.
        first: Seconds before the first repetition.
        longest: Seconds that a wait may take at most.
        jitter: Draws from 0 to 1.

    Raises:
        InvalidValue: A number makes no sense.
    """

    def __init__(
        self,
        codes: Collection[str],
        *,
        times: int = 3,
        first: float = 0.5,
        longest: float = 30.0,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if isinstance(codes, str):
            raise InvalidValue("codes", "is one string; give a collection of codes")
        self._codes = frozenset(codes)
        self._times = edges.whole(times, "times", 1)
        self._first = edges.seconds(first, "first")
        self._longest = edges.seconds(longest, "longest")
        if self._first > self._longest:
            raise InvalidValue(
                "first, longest", f"are {first} and {longest}; use 0 ≤ first ≤ longest"
            )
        self._jitter = edges.function(jitter, "jitter")

    async def on_error(self, context: Context, error: Exception) -> Recovery | None:
        if getattr(error, "code", None) not in self._codes or context.failures > self._times:
            return None
        backoff = min(self._first * 2.0 ** min(context.failures - 1, 64), self._longest)
        delay = max(backoff * (1 + self._jitter()) / 2, _asked_for(error))
        return None if delay > self._longest else Recovery("retry", delay=delay)


def _asked_for(error: Exception) -> float:
    """Seconds that the provider wants to be left alone; 0 where it does not say."""
    metadata = getattr(error, "metadata", None)
    wait = metadata.get("retry_after_ms") if isinstance(metadata, Mapping) else None
    if isinstance(wait, bool) or not isinstance(wait, (int, float)) or not wait > 0:
        return 0.0
    return wait / 1000
