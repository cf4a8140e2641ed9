"""Pacing: waits for a vendor's rate limits before a request, as the last response told them.

A request beyond a limit is refused with status 429, and only repeats the work of asking. OpenAI and
servers like it tell the limits, the rests and the times of their reset by ``x-ratelimit-…``,
Anthropic by ``anthropic-ratelimit-…``. A server that tells nothing is asked at once.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

LONGEST_PACE: Final = 60.0
"""The longest wait, in seconds. If a limit wants a longer one, the request is sent, and the server
answers when to come back."""
LOOK: Final = 0.25
"""Seconds between two signs of life of a call that waits."""
_NAMES: Final = {
    "requests": ("x-ratelimit-{}-requests", "anthropic-ratelimit-requests-{}"),
    "tokens": ("x-ratelimit-{}-tokens", "anthropic-ratelimit-tokens-{}"),
    "input-tokens": ("anthropic-ratelimit-input-tokens-{}",),
}
"""The names of the headers of each limit; the field is ``limit``, ``remaining`` or ``reset``."""
_MARK: Final = "ratelimit-"
"""A part of each of these names."""
_PARTS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0}
_SPAN: Final = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:ms|s|m|h)){1,4}")
_PART: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h)")
_now: Final = partial(datetime.now, UTC)


@dataclass(slots=True)
class _Limit:
    """One limit: a bucket that fills evenly until the reset."""

    left: float
    rate: float
    """Units a second that come back."""
    at: float
    """The moment of ``left``, by the clock of the event loop."""

    def wait(self, need: float, now: float) -> float:
        """Return the seconds until the bucket has so many units."""
        short = need - self.left - self.rate * (now - self.at)
        return max(short / self.rate, 0.0)

    def take(self, need: float, now: float) -> None:
        """Take units, also more than there are."""
        self.left += self.rate * (now - self.at) - need
        self.at = now


class Pace:
    """The rate limits of one client, shared by all Tasks that use it.

    Args:
        clock: Gives the time of day, for resets that are moments.
    """

    def __init__(self, clock: Callable[[], datetime] = _now) -> None:
        self._clock = clock
        self._limits: dict[str, _Limit] = {}

    @property
    def known(self) -> bool:
        """True if the responses tell of limits; without any, `turn` does nothing."""
        return bool(self._limits)

    def note(self, headers: Mapping[str, str]) -> None:
        """Keep the limits that a response tells; ignore values that cannot be read."""
        if _MARK not in " ".join(headers).lower():
            return
        now = asyncio.get_running_loop().time()
        for kind, names in _NAMES.items():
            for name in names:
                left = headers.get(name.format("remaining"), "")
                if not left:
                    continue
                total = headers.get(name.format("limit"), "")
                seconds = self._seconds(headers.get(name.format("reset"), ""))
                if not (total.isdecimal() and left.isdecimal() and seconds):
                    continue
                if len(total) < 16 and int(left) < int(total):
                    rate = (int(total) - int(left)) / seconds
                    self._limits[kind] = _Limit(float(left), rate, now)
                else:
                    self._limits.pop(kind, None)

    async def turn(self, tokens: int) -> AsyncGenerator[None, None]:
        """Wait until the limits have room for a request, and take the room.

        Args:
            tokens: The tokens of the request, about.

        Yields:
            A sign of life at each look, so that the caller can be paused.
        """
        while True:
            now = asyncio.get_running_loop().time()
            needs = {kind: 1 if kind == "requests" else tokens for kind in self._limits}
            waits = [self._limits[kind].wait(need, now) for kind, need in needs.items()]
            wait = max(waits, default=0.0)
            if not 0 < wait <= LONGEST_PACE:
                break
            yield
            await asyncio.sleep(min(wait, LOOK))
        for kind, need in needs.items():
            self._limits[kind].take(need, now)

    def _seconds(self, reset: str) -> float:
        """Return the seconds until a reset: a span like ``6m0s``, or a moment; 0 if unreadable."""
        reset = reset.strip()
        if _SPAN.fullmatch(reset):
            return sum(float(number) * _PARTS[unit] for number, unit in _PART.findall(reset))
        try:
            left = (datetime.fromisoformat(reset) - self._clock()).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return 0.0
        return left if 0 < left < math.inf else 0.0
