"""Every edge of the local runtime, given wrong types and ranges: a refusal that names it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine import MemoryStore
from agentic_kernel_local import LocalPlanner, LocalRuntime, find_model

NUMBERS: list[Any] = [
    True, False, "4", b"4", 1.5, 4.0, math.nan, math.inf, 0, -1, 2**31, 10**400, [], {}, object(),
]  # fmt: skip
"""None of it is a number of slots, threads or tokens."""
PATHS: list[Any] = [5, True, b"model.gguf", [], object(), "", "a\0b", "\ud800", Path("a\0b")]
OBJECTS: list[Any] = [5, "x", {}, object(), MemoryStore]


@pytest.mark.parametrize("made", [LocalPlanner, LocalRuntime])
@pytest.mark.parametrize("name", ["slots", "context_tokens", "threads"])
def test_a_number_that_llama_cpp_cannot_use_is_refused(made: Any, name: str) -> None:
    for value in NUMBERS:
        with pytest.raises(InvalidValue) as refused:
            made(**{name: value})
        assert refused.value.path == name, repr(value)


def test_slots_and_their_tokens_are_bounded_together() -> None:
    with pytest.raises(InvalidValue, match=r"context_tokens: makes 2,147,483,648 tokens"):
        LocalPlanner(slots=4, context_tokens=2**29)
    LocalPlanner(slots=4, context_tokens=2**29 - 1)


@pytest.mark.parametrize("made", [LocalPlanner, LocalRuntime])
def test_what_is_no_path_is_refused_before_a_model_is_looked_for(made: Any) -> None:
    for value in PATHS:
        with pytest.raises(InvalidValue) as refused:
            made(value)
        assert refused.value.path == "model", repr(value)
        assert str(refused.value).isprintable()
        with pytest.raises(InvalidValue):
            find_model(value)


def test_a_store_in_the_place_of_the_model_is_told_its_place() -> None:
    with pytest.raises(InvalidValue, match=r"give the path of a GGUF file, .* a store is store="):
        LocalRuntime(cast(Any, MemoryStore()))


@pytest.mark.parametrize("made", [LocalPlanner, LocalRuntime])
def test_the_other_parts_have_their_types(made: Any) -> None:
    for value in NUMBERS:
        with pytest.raises(InvalidValue, match="max_tokens"):
            made(max_tokens=value)
    for value in OBJECTS:
        with pytest.raises(InvalidValue, match="examples"):
            made(examples=value)
        with pytest.raises(InvalidValue, match=r"examples\[0\]"):
            made(examples=[value])
    for temperature in (10**400, math.nan, -(10**400), True, "0"):
        with pytest.raises(InvalidValue, match="temperature"):
            made(temperature=temperature)
    for system in ("\ud800", "nul\0", 5):
        with pytest.raises(InvalidValue, match="system"):
            made(system=system)
    with pytest.raises(InvalidValue, match="offers"):
        made(offers=["fly"])
    with pytest.raises(TypeError, match="model_path"):
        made(model_path="model.gguf")
