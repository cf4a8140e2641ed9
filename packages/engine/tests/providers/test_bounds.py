"""The most that an answer may cost, its most tokens, and the request for it."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel import CannotStart, InvalidValue
from agentic_kernel_engine.loop import Remaining, ToolCall, Usage
from agentic_kernel_engine.providers import (
    IMAGES,
    AnswerOptions,
    Long,
    Price,
    functions,
    input_bound,
    instructions,
    price_of,
)

from .seen import add, seen, turn

PRICE = Price(input=2.0, output=10.0, cached=0.5, written=2.5)


def test_a_price_counts_what_came_from_a_cache_and_what_went_into_it() -> None:
    usage = Usage(1_000_000, 100_000, cached_tokens=600_000)
    assert PRICE.cost(usage, written=100_000) == pytest.approx(0.6 + 0.3 + 0.25 + 1.0)
    assert Price(2.0, 10.0).cost(usage) == pytest.approx(3.0)


def test_the_most_that_a_call_may_cost_is_not_passed_whatever_was_cached() -> None:
    for cached, written in ((0, 0), (500, 0), (0, 1000), (400, 600)):
        usage = Usage(1_000, 200, cached_tokens=cached)
        assert PRICE.cost(usage, written) <= PRICE.most(1_000, 200)


def test_a_long_input_makes_the_whole_call_dearer() -> None:
    price = PRICE._replace(long=Long(1_000, 2.0, 1.5))
    short, long = Usage(1_000, 100, cached_tokens=400), Usage(1_001, 100, cached_tokens=400)
    assert price.cost(short) == PRICE.cost(short)
    assert price.cost(long) == pytest.approx((601 * 4 + 400 * 1 + 100 * 15) / 1e6)
    assert price.cost(long) <= price.most(1_001, 100)


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("large-5", 1), ("large-5-2026-01-31", 1), ("large-5-20260131", 1), ("large-5-mini", 2),
        ("large-5-mini-2026-01-31", 2), ("large-5-pro", None), ("large", None), ("large-55", None),
    ],
)  # fmt: skip
def test_a_dated_version_costs_what_its_model_costs_and_nothing_is_guessed(
    model: str, found: int | None
) -> None:
    prices = {"large-5": Price(1, 1), "large-5-mini": Price(2, 2)}
    price = price_of(prices, model)
    assert (price and price.input) == found


def test_a_prompt_is_bounded_by_all_that_is_in_it() -> None:
    shown = functions([add], ())
    short = input_bound(seen(), shown, "")
    longer = seen(turn(ToolCall("add", {"a": 1, "b": 2}), output="é" * 500))
    assert input_bound(longer, shown, "") > short + 1000
    assert input_bound(seen(), shown, "é" * 10) == short + 20
    assert input_bound(seen(), (), "") < short
    assert input_bound(seen(output_schema={"type": "object"}), shown, "") > short
    pixel = {"type": "image", "media_type": "image/png", "data": "x"}
    assert input_bound(seen(metadata={IMAGES: [pixel]}), shown, "") > short + 10_000


def test_instructions_say_first_what_stays_the_same() -> None:
    context = seen(instructions=["Be kind."], memories=["It rained."], goals=["all", "a part"])
    assert instructions(context, "You are a poet.") == (
        "You are a poet.\n\nBe kind.\n\nYou remember:\n- It rained.\n\n"
        "Goals; the last one is current:\n1. all\n2. a part"
    )
    assert instructions(seen(), None) == ""


def test_a_task_overrides_options_by_its_metadata() -> None:
    context = seen(metadata={"acme/max_tokens": 7, "other/temperature": 1})
    assert AnswerOptions().of(context.task, "acme") == AnswerOptions(max_tokens=7)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", 0), ("max_tokens", True), ("max_tokens", "9"), ("temperature", 3),
        ("temperature", float("nan")), ("temperature", "hot"), ("system", 1), ("tool_choice", ""),
    ],
)  # fmt: skip
def test_an_option_that_makes_no_sense_is_named(name: str, value: Any) -> None:
    with pytest.raises(InvalidValue, match=name):
        AnswerOptions(**{name: value})
    if value == value:
        context = seen(metadata={f"acme/{name}": value})
        with pytest.raises(CannotStart, match=f"acme/{name}"):
            AnswerOptions().accept(context.task, "acme")


def test_a_task_with_bad_images_is_not_accepted() -> None:
    with pytest.raises(CannotStart, match="input/images"):
        AnswerOptions().accept(seen(metadata={IMAGES: ["x"]}).task, "acme")


def test_only_the_first_answer_is_forced() -> None:
    options = AnswerOptions(tool_choice="add")
    assert options.choice(seen()) == "add"
    assert options.choice(seen(turn(ToolCall("add")))) == "auto"
    assert AnswerOptions(tool_choice="none").choice(seen(turn(ToolCall("add")))) == "none"


def test_an_answer_is_no_longer_than_what_is_left() -> None:
    options = AnswerOptions(max_tokens=100)
    assert options.most(seen()) == 100
    assert options.most(seen(remaining=Remaining(1, output_tokens=40))) == 40
    assert options.most(seen(remaining=Remaining(1, output_tokens=3)), least=16) == 16
    assert options.most(seen(remaining=Remaining(1, output_tokens=0))) == 1


@pytest.mark.parametrize(
    ("left", "most"),
    [
        ({}, None),
        ({"input_tokens": 10}, None),
        ({"output_tokens": 10_000}, 4096),
        ({"output_tokens": 10}, 10),
        ({"total_tokens": 10_000}, 4096),
        ({"cost": 0.5}, 4096),
    ],
    ids=str,
)
def test_an_answer_has_a_limit_only_if_a_limit_of_the_run_needs_one(
    left: dict[str, Any], most: int | None
) -> None:
    context = seen(remaining=Remaining(1, **left))
    assert AnswerOptions().most(context) == most
    assert AnswerOptions().bound(context) == (most or 4096)
