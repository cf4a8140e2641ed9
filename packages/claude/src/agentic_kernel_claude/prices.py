"""Prices: Anthropic's prices by model, in US dollars for a million tokens.

From platform.claude.com/docs/en/about-claude/pricing and the page of each model there, on 22
November 2026. A write to the cache has the price for five minutes. Batches, fast mode, data
residency and server tools have other prices, which are not included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentic_kernel_engine.providers import Long, Price

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
    "claude-haiku-5-5": Price(0.10, 0.50, 0.01, 0.125, Long(100_000, 5.0, 5.0)),
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
