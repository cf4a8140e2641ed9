"""Options of a Task, and refusals of bad ones."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel import InvalidValue, Task
from agentic_kernel_local.options import AnswerOptions


def task(**metadata: Any) -> Task:
    asked = {f"local/{name}": value for name, value in metadata.items()}
    return Task.new(summary="", instructions="Hi", runtime_kind="local", metadata=asked)


def test_a_task_overrides_what_it_asks_for_and_nothing_else() -> None:
    defaults = AnswerOptions(max_tokens=10, temperature=0.5, seed=1, system="Be brief.")
    assert defaults.of(task(), "local") == defaults
    asked = defaults.of(task(max_tokens=3, seed=None), "local")
    assert asked == AnswerOptions(3, 0.5, "Be brief.", seed=None)
    asked = defaults.of(task(temperature=1, system="Rhyme.", tool_choice="none"), "local")
    assert asked == AnswerOptions(10, 1, "Rhyme.", "none", 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", 0),
        ("max_tokens", "10"),
        ("max_tokens", True),
        ("max_tokens", 1.5),
        ("max_tokens", None),
        ("temperature", -0.1),
        ("temperature", 2.1),
        ("temperature", "hot"),
        ("temperature", True),
        ("seed", -1),
        ("seed", 2**32),
        ("seed", "7"),
        ("top_p", 2),
        ("stop", [""]),
        ("system", 7),
        ("system", ["x"]),
        ("system", "nul\0"),
        ("tool_choice", ""),
    ],
)
def test_a_bad_option_is_refused_by_its_key(name: str, value: Any) -> None:
    with pytest.raises(InvalidValue, match=rf"local/{name}"):
        AnswerOptions().of(task(**{name: value}), "local")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_default_that_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(InvalidValue, match="temperature"):
        AnswerOptions(temperature=value)
