"""The order of a contract's tests in a run: the cheap ones first.

An implementation with a mistake then fails within seconds. A test may carry
``@pytest.mark.cost(n)``; without the mark its cost follows from what it uses.
"""

from __future__ import annotations

import inspect
from typing import Final

import pytest

from .contract import Contract

RANDOM: Final = 4
PROCESSES: Final = 3
SIZED: Final = 2
PLAIN: Final = 1
CHEAPEST: Final = 0
"""The costs: the tests of the fixtures, plain tests, tests whose size a level sets, tests with
processes or threads, and random tests."""


def cost(item: pytest.Item) -> float:
    """Return the cost of a test; tests of one class run in ascending order of it."""
    if (mark := item.get_closest_marker("cost")) is not None:
        return float(mark.args[0])
    if item.get_closest_marker("random") is not None:
        return RANDOM
    features = {mark.args[0] for mark in item.iter_markers("feature")}
    if features & {"processes", "threads", "shared"}:
        return PROCESSES
    test = getattr(item, "function", None)
    if test is not None and "level" in inspect.signature(test).parameters:
        return SIZED
    rules = {name for mark in item.iter_markers("rule") for name in mark.args}
    return CHEAPEST if rules == {"kit"} else PLAIN


def arrange(items: list[pytest.Item]) -> None:
    """Sort the tests of each contract class by cost, in the places that the class has.

    Tests of equal cost keep their order, and all other tests keep their places.
    """
    places: dict[type, list[int]] = {}
    for index, item in enumerate(items):
        cls = getattr(item, "cls", None)
        if isinstance(cls, type) and issubclass(cls, Contract):
            places.setdefault(cls, []).append(index)
    for indexes in places.values():
        ordered = sorted((items[index] for index in indexes), key=cost)
        for index, item in zip(indexes, ordered, strict=True):
            items[index] = item
