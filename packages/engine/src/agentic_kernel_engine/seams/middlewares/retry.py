"""Retry: repeats a failed call of the planner, with a longer wait each time."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping

from agentic_kernel import InvalidValue

from ... import edges
from ..middleware import Recovery
from ..planner import Context


class Retry:
    """Has a planner's call repeated after a failure with one of its codes, and after no other.

    The wait doubles each time. Half of it is random, so that many runs do not retry at the same
    moment. The wait is never shorter than the failure's ``retry_after_ms``; if that is longer than
    ``longest``, the call is not repeated, and the next middleware is asked. The Loop itself makes
    one call at most ten times.

    Args:
        codes: Codes of the failures after which to try again, e.g. ``openai/rate_limit``.
        times: The most repetitions of one call.
        first: Seconds before the first repetition.
        longest: The longest wait, in seconds.
        jitter: Returns a random number from 0 to 1.

    Raises:
        InvalidValue: A number is out of range, or ``codes`` is one string.
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
    """Seconds that the provider asks to wait; 0 if it does not say."""
    metadata = getattr(error, "metadata", None)
    wait = metadata.get("retry_after_ms") if isinstance(metadata, Mapping) else None
    if isinstance(wait, bool) or not isinstance(wait, (int, float)) or not wait > 0:
        return 0.0
    return wait / 1000
