"""The prices of models."""

from __future__ import annotations

import pytest

from agentic_kernel_claude import PRICES
from agentic_kernel_engine.loop import Usage
from agentic_kernel_engine.providers import price_of


def test_every_price_has_all_its_parts() -> None:
    for price in PRICES.values():
        assert price.cached is not None
        assert price.written is not None
        assert 0 < price.cached < price.input < price.written < price.output


def test_a_dated_version_costs_what_its_model_does() -> None:
    assert price_of(PRICES, "claude-opus-4-5-20251101") == PRICES["claude-opus-4-5"]
    assert price_of(PRICES, "claude-nobody-knows") is None


@pytest.mark.parametrize("model", ["claude-haiku-5-5", "claude-haiku-5-5-20261001"])
def test_a_long_prompt_costs_more_where_it_does(model: str) -> None:
    price = price_of(PRICES, model)
    assert price is not None
    assert price.cost(Usage(100_000, 1_000)) == pytest.approx(0.1 * 0.10 + 0.001 * 0.50)
    assert price.cost(Usage(100_001, 1_000)) == pytest.approx(0.100001 * 0.50 + 0.001 * 2.50)
