"""Limits: a bound that is none is refused by its name, when the limits are made."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.plans.limits import Limits

WRONG: list[Any] = [-1, True, "3", float("nan"), float("inf"), 10**400, 10**5_000, [], object()]


@pytest.mark.parametrize("value", WRONG, ids=range(len(WRONG)))
@pytest.mark.parametrize("name", Limits.__struct_fields__)
def test_a_limit_that_is_none_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidValue) as refused:
        Limits(**{name: value})
    assert refused.value.path == name
    assert len(str(refused.value)) < 300
    with pytest.raises(InvalidValue, match=r"^limits: |use a"):
        Limits().changed({name: value})


@pytest.mark.parametrize(
    "name", ["max_iterations", "max_repeats", "max_depth", "max_calls_per_answer"]
)
def test_a_limit_that_has_to_be_there_cannot_be_none(name: str) -> None:
    with pytest.raises(InvalidValue, match=f"{name}: is None; use a whole number from"):
        Limits(**{name: None})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, 1])
def test_one_step_repeats_nothing(value: int) -> None:
    with pytest.raises(InvalidValue, match=f"max_repeats: is {value}; use a whole number from 2"):
        Limits(max_repeats=value)


def test_no_answer_may_be_held_to_no_action_at_all() -> None:
    with pytest.raises(InvalidValue, match="max_calls_per_answer: is 0; use a whole number from 1"):
        Limits(max_calls_per_answer=0)
