"""Large values: counted before they are looked at, and looked at in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from .threads import in_thread

IN_THE_LOOP: Final = 20_000
"""The most characters that are looked at in the event loop's own thread."""
MOST: Final = 10_000_000
"""The most characters of a result that is looked at."""
Made = TypeVar("Made")


class TooLarge(Exception):
    """A value is too large to be looked at."""


def weight(value: Any, most: int) -> int:
    """About the characters of a value; the counting ends above `most`.

    A value that has itself as a part weighs more than any number.
    """
    left, found = [value], 0
    while left and found <= most:
        each = left.pop()
        kind = type(each)
        if kind is str:  # The usual types first, because each result is counted.
            found += len(each) + 2
        elif kind is int or kind is float or kind is bool or each is None:
            found += 8
        elif kind is dict:
            left += each
            left += each.values()
            found += 2
        elif isinstance(each, (str, bytes, bytearray)):
            found += len(each) + 2
        elif isinstance(each, Mapping):
            left += each.keys()
            left += each.values()
            found += 2
        elif isinstance(each, (list, tuple, set, frozenset)):
            left += each
            found += 2
        elif isinstance(each, memoryview):
            found += each.nbytes
        else:
            found += 8
    return found


async def off_the_loop(
    made: Callable[[], Made], value: Any, ends: float | None = None, most: int | None = None
) -> Made:
    """Look at a value; in a thread if it is large, so that the event loop goes on.

    A thread cannot be ended. After its time is over it goes on until it is done, which the most
    characters of a result and the limits of a frame bound.
    """
    if weight(value, IN_THE_LOOP) <= IN_THE_LOOP:
        return made()

    def bounded() -> Made:
        bound = MOST if most is None else most
        if weight(value, bound) > bound:
            raise TooLarge
        return made()

    async with asyncio.timeout_at(ends):
        return await in_thread(bounded)
