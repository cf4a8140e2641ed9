"""The cost of a call."""

from __future__ import annotations

import pytest

from agentic_kernel_engine.loop import Usage
from agentic_kernel_engine.providers import price_of
from agentic_kernel_gemini import PRICES


def test_cached_input_costs_less_and_output_more() -> None:
    for price in PRICES.values():
        assert price.cached is not None
        assert 0 < price.cached < price.input < price.output


def test_a_long_prompt_of_a_pro_model_costs_more() -> None:
    price = price_of(PRICES, "gemini-3.1-pro-preview")
    assert price is not None
    assert price.cost(Usage(200_000, 1_000)) == pytest.approx(0.2 * 2 + 0.001 * 12)
    assert price.cost(Usage(200_001, 1_000)) == pytest.approx(0.200001 * 4 + 0.001 * 18)
