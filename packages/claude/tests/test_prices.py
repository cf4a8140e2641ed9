"""What a model costs."""

from __future__ import annotations

import pytest

from agentic_kernel_claude import PRICES
from agentic_kernel_claude.prices import LONG, price_for
from agentic_kernel_engine.providers import Price


def test_every_price_has_all_its_parts() -> None:
    for price in PRICES.values():
        assert price.cached is not None
        assert price.written is not None
        assert 0 < price.cached < price.input < price.written < price.output


def test_a_dated_version_costs_what_its_model_does() -> None:
    assert price_for(PRICES, "claude-opus-4-5-20251101", 1) == PRICES["claude-opus-4-5"]
    assert price_for(PRICES, "claude-nobody-knows", 1) is None


@pytest.mark.parametrize("model", ["claude-haiku-5-5", "claude-haiku-5-5-20261001"])
def test_a_long_prompt_costs_more_where_it_does(model: str) -> None:
    long = LONG["claude-haiku-5-5"]
    assert price_for(PRICES, model, long.above) == PRICES["claude-haiku-5-5"]
    assert price_for(PRICES, model, long.above + 1) == long.price
    own = Price(1, 2)
    assert price_for({"claude-haiku-5-5": own}, model, long.above + 1) == own
