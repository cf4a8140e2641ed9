"""Pricing: what an answer costs, by a table that the user can replace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from ..plans.plan import Usage

MILLION: Final = 1_000_000
_DATED: Final = re.compile(r"(.+)-\d{4}-?\d{2}-?\d{2}")


class Long(NamedTuple):
    """From how many tokens of input on a whole call costs more, and how many times as much."""

    above: int
    input: float
    """Cached and written input, too."""
    output: float


class Price(NamedTuple):
    """Prices of one model, each for a million tokens."""

    input: float
    output: float
    cached: float | None = None
    """Of input that was read from a cache; as other input if None."""
    written: float | None = None
    """Of input that was written to a cache; as other input if None."""
    long: Long | None = None
    """What a call with a long input costs, if that is more."""

    def cost(self, usage: Usage, written: int = 0) -> float:
        """What a call cost.

        Args:
            usage: Its ``input_tokens`` are all of them, cached and written ones included.
            written: Tokens that were written to a cache.
        """
        cached = self.input if self.cached is None else self.cached
        write = self.input if self.written is None else self.written
        plain = max(usage.input_tokens - usage.cached_tokens - written, 0)
        total = plain * self.input + usage.cached_tokens * cached + written * write
        return self._sum(usage.input_tokens, total, usage.output_tokens)

    def most(self, input_tokens: int, output_tokens: int) -> float:
        """What a call may cost that reads and writes so many tokens at most."""
        dearest = max(self.input, self.cached or 0.0, self.written or 0.0)
        return self._sum(input_tokens, input_tokens * dearest, output_tokens)

    def _sum(self, input_tokens: int, read: float, output_tokens: int) -> float:
        wrote = output_tokens * self.output
        if self.long is not None and input_tokens > self.long.above:
            read, wrote = read * self.long.input, wrote * self.long.output
        return (read + wrote) / MILLION


def price_of(prices: Mapping[str, Price], model: str) -> Price | None:
    """The price of a model, or of the model that it is a dated version of; None if not listed.

    A dated version is called like its model with a hyphen and digits behind: ``name-2026-01-31``,
    ``name-20260131``. Nothing else is guessed.
    """
    if model in prices:
        return prices[model]
    dated = _DATED.fullmatch(model)
    return None if dated is None else prices.get(dated[1])
