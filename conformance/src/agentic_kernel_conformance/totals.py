"""The tests of a contract, counted from its class, whether or not a run collects them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import pytest

from .contract import Contract, in_the_kit


@dataclass(frozen=True, slots=True)
class Planned:
    """One test of a contract, as the contract declares it."""

    rules: tuple[str, ...]
    features: tuple[str, ...]
    """The features that the test needs."""
    count: int
    """The number of its parameter sets; 1 if it has no parameters."""


def planned(cls: type[Contract]) -> dict[str, Planned]:
    """Return the tests of the contract that a class is held to, by name, in alphabetical order.

    The tests are those of the kit. A test that the class replaces, deletes or adds changes nothing.
    """
    found: dict[str, Planned] = {}
    for base in reversed(cls.__mro__):
        if in_the_kit(base):
            for name, test in vars(base).items():
                if name.startswith("test_") and inspect.isfunction(test):
                    found[name] = _planned(test)
    return dict(sorted(found.items()))


def _planned(test: object) -> Planned:
    marks = list(getattr(test, "pytestmark", ()))

    def named(kind: str) -> tuple[str, ...]:
        return tuple(sorted({name for mark in marks if mark.name == kind for name in mark.args}))

    sizes = [len(list(_values(mark))) for mark in marks if mark.name == "parametrize"]
    return Planned(named("rule"), named("feature"), prod(sizes))


def _values(mark: pytest.Mark) -> Iterable[object]:
    values: Iterable[object] = mark.args[1] if len(mark.args) > 1 else mark.kwargs["argvalues"]
    return values
