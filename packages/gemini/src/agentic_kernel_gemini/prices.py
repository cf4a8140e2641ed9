"""Prices: Google's prices by model, in US dollars for a million tokens of text and images.

The standard paid tier of ai.google.dev/gemini-api/docs/pricing, as LiteLLM 1.110 lists it in
November 2026. Other tiers, batches, audio and grounding have other prices, which are not included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentic_kernel_engine.providers import Long, Price

_FLASH: Final = Price(0.75, 3.75, 0.075)

PRICES: Final[Mapping[str, Price]] = {
    "gemini-2.5-flash": Price(0.30, 2.50, 0.03),
    "gemini-2.5-flash-lite": Price(0.10, 0.40, 0.01),
    "gemini-2.5-pro": Price(1.25, 10, 0.125, None, Long(200_000, 2.0, 1.5)),
    "gemini-3-flash-preview": Price(0.50, 3, 0.05),
    "gemini-3.1-flash-lite": Price(0.25, 1.50, 0.025),
    "gemini-3.1-pro-preview": Price(2, 12, 0.20, None, Long(200_000, 2.0, 1.5)),
    "gemini-3.5-flash": Price(1.50, 9, 0.15),
    "gemini-3.5-flash-lite": Price(0.30, 2.50, 0.03),
    "gemini-3.6-flash": _FLASH,
    "gemini-3.7-flash": _FLASH,
    "gemini-3.8-flash": _FLASH,
    "gemini-4-argon": Price(2, 10, 0.10),
    "gemini-4-hydrogen": Price(1.50, 7.50, 0.075),
}
"""Prices by model; a dated version costs the same as its model."""
