"""Prices: Anthropic's prices by model, in US dollars for a million tokens.

From platform.claude.com/docs/en/about-claude/pricing and the page of each model there, on 22
November 2026. A write to the cache has the price for five minutes. Batches, fast mode, data
residency and server tools have other prices, which are not included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from agentic_kernel_engine.providers import Price, price_of

_FABLE: Final = Price(8, 40, 0.20, 10)
_FABLE_5_1: Final = Price(10, 50, 0.25, 12.50)
_FABLE_5: Final = Price(10, 50, 1, 12.50)
_OPUS: Final = Price(5, 25, 0.50, 6.25)
_SONNET_4: Final = Price(3, 15, 0.30, 3.75)

PRICES: Final[Mapping[str, Price]] = {
    "claude-fable-5": _FABLE_5,
    "claude-fable-5-1": _FABLE_5_1,
    "claude-fable-5-2": _FABLE,
    "claude-haiku-4-5": Price(1, 5, 0.10, 1.25),
    "claude-haiku-5-5": Price(0.10, 0.50, 0.01, 0.125),
    "claude-mythos-5": _FABLE_5,
    "claude-mythos-5-1": _FABLE_5_1,
    "claude-opus-4-5": _OPUS,
    "claude-opus-4-6": _OPUS,
    "claude-opus-4-7": _OPUS,
    "claude-opus-4-8": _OPUS,
    "claude-opus-5": _OPUS,
    "claude-opus-5-5": Price(4, 20, 0.20, 5),
    "claude-sonnet-4-5": _SONNET_4,
    "claude-sonnet-4-6": _SONNET_4,
    "claude-sonnet-5": Price(2, 10, 0.20, 2.50),
    "claude-sonnet-5-5": Price(2, 10, 0.10, 2.50),
}
"""Prices by model; a dated version costs the same as its model."""


class Long(NamedTuple):
    """The price of a call with a long prompt."""

    above: int
    """The price applies above this number of prompt tokens, cached tokens included."""
    price: Price


LONG: Final[Mapping[str, Long]] = {
    "claude-haiku-5-5": Long(100_000, Price(0.50, 2.50, 0.05, 0.625)),
}
"""Models with a higher price for long prompts. It applies to the whole call, and never to a price
that the user gave."""


def price_for(prices: Mapping[str, Price], model: str, prompt: int) -> Price | None:
    """Return the price of a call; None if the model is not listed.

    Args:
        prices: `PRICES`, or the user's own prices.
        model: Name of the model.
        prompt: Tokens of the prompt.
    """
    price = price_of(prices, model)
    for name, long in LONG.items():
        if price is PRICES[name] and prompt > long.above:
            return long.price
    return price
