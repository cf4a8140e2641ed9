"""Prices: OpenAI's prices by model, in US dollars for a million tokens.

From https://developers.openai.com/api/docs/pricing in November 2026, for the standard tier and
without promotions. Other tiers and regions have other prices: give ``prices=`` for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentic_kernel_engine.providers import Long, Price

_LONG: Final = Long(272_000, 2.0, 1.5)

PRICES: Final[Mapping[str, Price]] = {
    "gpt-6.2-astra": Price(8.00, 40.00, 0.40, 10.00, _LONG),
    "gpt-6.2-sol": Price(2.00, 10.00, 0.10, 2.50, _LONG),
    "gpt-6.1-sol": Price(2.00, 10.00, 0.10, 2.50, _LONG),
    "gpt-6.1-terra": Price(1.00, 5.00, 0.05, 1.25, _LONG),
    "gpt-6-astra": Price(10.00, 50.00, 1.00, 12.50, _LONG),
    "gpt-6-sol": Price(2.00, 10.00, 0.20, 2.50, _LONG),
    "gpt-6-luna": Price(0.10, 0.50, 0.01, 0.125, _LONG),
    "gpt-5.6-sol": Price(5.00, 30.00, 0.50, 6.25, _LONG),
    "gpt-5.6-terra": Price(2.00, 12.00, 0.20, 2.50, _LONG),
    "gpt-5.6-luna": Price(0.20, 1.20, 0.02, 0.25, _LONG),
    "gpt-5.5": Price(5.00, 30.00, 0.50, None, _LONG),
    "gpt-5.4": Price(2.50, 15.00, 0.25, None, _LONG),
    "gpt-5.4-mini": Price(0.75, 4.50, 0.075),
    "gpt-5.4-nano": Price(0.20, 1.25, 0.02),
    "gpt-5.2": Price(1.75, 14.00, 0.175),
    "gpt-5.1": Price(1.25, 10.00, 0.125),
    "gpt-5": Price(1.25, 10.00, 0.125),
    "gpt-5-mini": Price(0.25, 2.00, 0.025),
    "gpt-5-nano": Price(0.05, 0.40, 0.005),
    "gpt-4.1": Price(2.00, 8.00, 0.50),
    "gpt-4.1-mini": Price(0.40, 1.60, 0.10),
    "gpt-4o": Price(2.50, 10.00, 1.25),
    "gpt-4o-mini": Price(0.15, 0.60, 0.075),
    "o3": Price(2.00, 8.00, 0.50),
}
"""Prices by model; a dated version costs the same as its model."""
