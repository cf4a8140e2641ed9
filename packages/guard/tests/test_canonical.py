"""The canonical form is that of RFC 8785, also where it is made in a shorter way."""

from __future__ import annotations

from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_kernel import InvalidValue
from agentic_kernel_guard.canonical import EXACT, canonical

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-EXACT, EXACT) | TEXTS | st.floats(-1e9, 1e9),
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=40,
)


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_every_value_has_the_form_of_the_rfc(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        "\0", {"\0": 1}, {"a": "\ud800"}, {1: 2}, EXACT + 1, [-EXACT - 1], float("nan"), b"x",
        {1, 2}, nested(2_000), {"a": {"b": object()}},
    ],
)  # fmt: skip
def test_what_not_all_readers_read_alike_is_refused(value: Any) -> None:
    with pytest.raises(InvalidValue):
        canonical(value)


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(InvalidValue):
        canonical(value)
