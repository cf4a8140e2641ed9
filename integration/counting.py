"""Counting: how much work some Python does, whatever the load of the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def lines(work: Callable[..., object], *given: Any) -> int:
    """How many lines of Python some work takes, with all that it calls."""
    count = 0

    def step(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        work(*given)
    finally:
        sys.settrace(before)
    return count
