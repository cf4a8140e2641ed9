"""Prices: Google's prices by model, in US dollars for a million tokens of text and images.

The standard tier of ai.google.dev/gemini-api/docs/pricing, as LiteLLM 1.110 lists it in November
2026. Other tiers, batches, audio and grounding have other prices, which are not included.
"""

from typing import Final

from agentic_kernel_engine.providers import Long, Price

PRICES: Final = {
    "gemini-2.5-flash-lite": Price(0.10, 0.40, 0.01),
    "gemini-3-flash-preview": Price(0.50, 3, 0.05),
    "gemini-3.1-flash-lite": Price(0.25, 1.50, 0.025),
    "gemini-3.1-pro-preview": Price(2, 12, 0.20, None, Long(200_000, 2.0, 1.5)),
    "gemini-3.5-flash": Price(1.50, 9, 0.15),
    "gemini-3.5-flash-lite": Price(0.30, 2.50, 0.03),
    "gemini-3.6-flash": Price(0.75, 3.75, 0.075),
    "gemini-3.7-flash": Price(0.75, 3.75, 0.075),
    "gemini-3.8-flash": Price(0.75, 3.75, 0.075),
    "gemini-4-argon": Price(2, 10, 0.10),
    "gemini-4-hydrogen": Price(1.50, 7.50, 0.075),
}
"""Prices by model; a dated version costs the same as its model."""
