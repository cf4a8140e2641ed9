"""The options that only some APIs have: checked by type and range, refused by name elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel import CannotStart, InvalidValue
from agentic_kernel_engine.providers import FURTHER, AnswerOptions, check_once

from .seen import seen


class Every(AnswerOptions):
    """Options of an API that has all of them."""

    __slots__ = ()
    takes = FURTHER
    efforts = ("low", "high")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", -1), ("seed", 2**31), ("seed", True), ("seed", "7"), ("top_p", 1.1),
        ("top_p", float("nan")), ("top_p", True), ("stop", ""), ("stop", [" \n"]),
        ("stop", ["x" * 1_001]), ("stop", ["a\0"]), ("stop", [1]), ("stop", {"a": 1}),
        ("stop", ["a", "b", "c", "d", "e"]), ("effort", "medium"), ("effort", 3),
        ("effort", ["low"]),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        Every(**{name: value})
    assert caught.value.path == name
    if value == value and value != ["a\0"]:
        with pytest.raises(CannotStart, match=f"acme/{name}"):
            Every().accept(seen(metadata={f"acme/{name}": value}).task, "acme")


@pytest.mark.parametrize(
    ("name", "value"), [("seed", 7), ("top_p", 0.5), ("stop", "END"), ("effort", "low")]
)
def test_an_option_that_the_api_does_not_have_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidValue, match=f"{name}: is no option of this API; leave it out"):
        AnswerOptions(**{name: value})
    with pytest.raises(InvalidValue, match=rf"options\.{name}: is no option of this API"):
        AnswerOptions().check({name: value})
    assert name not in AnswerOptions.names()
    Every(**{name: value})
    Every().check({name: value})


def test_a_stop_is_one_text_or_several() -> None:
    assert Every(stop="END").stop == ("END",)
    assert Every(stop=["a", "b"]).stop == ("a", "b")
    assert Every().stop == ()
    context = seen(metadata={"acme/stop": ["a"]})
    assert Every(stop="END").of(context.task, "acme").stop == ("a",)
    assert Every(stop="END").of(seen(metadata={"acme/stop": None}).task, "acme").stop == ()


def test_a_task_counts_before_its_agent_and_the_agent_before_the_planner() -> None:
    own = Every(seed=1, top_p=0.1, max_tokens=10)
    context = seen(metadata={"acme/seed": 3})
    asked = own.of(context.task, "acme", {"seed": 2, "top_p": 0.2})
    assert (asked.seed, asked.top_p, asked.max_tokens) == (3, 0.2, 10)


def test_an_agents_option_that_is_unknown_or_bad_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidValue, match=r"options\.'temprature': is no option; use max_tokens"):
        Every().check({"temprature": 1})
    with pytest.raises(InvalidValue, match=r"options\.temperature: is 'hot'; must be a number"):
        Every().check({"temperature": "hot"})


def test_an_option_in_two_keywords_is_refused() -> None:
    check_once("low", "effort", "thinking", {"type": "adaptive"}, "effort")
    check_once(None, "effort", "thinking", {"effort": "low"}, "effort")
    check_once((), "stop", "options", {"stop": "a"}, "stop")
    with pytest.raises(InvalidValue, match=r"effort: is also in thinking=, as level; give one"):
        check_once("low", "effort", "thinking", {"level": "low"}, "effort", "level")
