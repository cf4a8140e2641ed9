"""Pricing: the cost of an answer, by a price table that the user can replace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from ..plans.plan import Usage

MILLION: Final = 1_000_000
_DATED: Final = re.compile(r"(.+)-\d{4}-?\d{2}-?\d{2}")


class Long(NamedTuple):
    """The higher price of a whole call whose input is long."""

    above: int
    """Calls with more tokens of input than this cost more."""
    input: float
    """Factor for the price of all input, cached and written input included."""
    output: float
    """Factor for the price of the output."""


class Price(NamedTuple):
    """Prices of one model, each for a million tokens."""

    input: float
    output: float
    cached: float | None = None
    """Price of input that was read from a cache; None if it costs as much as other input."""
    written: float | None = None
    """Price of input that was written to a cache; None if it costs as much as other input."""
    long: Long | None = None
    """The higher price of a call with a long input; None if there is none."""

    def cost(self, usage: Usage, written: int = 0) -> float:
        """The cost of a call.

        Args:
            usage: Its ``input_tokens`` include cached and written ones.
            written: Tokens that were written to a cache.
        """
        cached = self.input if self.cached is None else self.cached
        write = self.input if self.written is None else self.written
        plain = max(usage.input_tokens - usage.cached_tokens - written, 0)
        total = plain * self.input + usage.cached_tokens * cached + written * write
        return self._sum(usage.input_tokens, total, usage.output_tokens)

    def most(self, input_tokens: int, output_tokens: int) -> float:
        """The highest cost of a call that reads and writes at most so many tokens."""
        dearest = max(self.input, self.cached or 0.0, self.written or 0.0)
        return self._sum(input_tokens, input_tokens * dearest, output_tokens)

    def _sum(self, input_tokens: int, read: float, output_tokens: int) -> float:
        wrote = output_tokens * self.output
        if self.long is not None and input_tokens > self.long.above:
            read, wrote = read * self.long.input, wrote * self.long.output
        return (read + wrote) / MILLION


def price_of(prices: Mapping[str, Price], model: str) -> Price | None:
    """The price of a model, or of the model that it is a dated version of; None if not listed.

    The name of a dated version is the model's name, a hyphen and a date: ``name-2026-01-31``,
    ``name-20260131``. No other name is guessed.
    """
    if model in prices:
        return prices[model]
    dated = _DATED.fullmatch(model)
    return None if dated is None else prices.get(dated[1])
