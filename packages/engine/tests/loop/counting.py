"""Shared by tests of costs: a count of the Python functions that are called."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def counted(calls: list[int]) -> Iterator[None]:
    """Adds to the last number for every call of a Python function.

    No garbage is collected meanwhile, because a collection may call functions of other tests.
    """

    def count(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and "asyncio" not in frame.f_code.co_filename:
            calls[-1] += 1

    gc.disable()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)
        gc.enable()
