"""Reading: parts of what a server sent, which the SDK hands on without checking them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentic_kernel import InvalidValue
from agentic_kernel_engine import values
from agentic_kernel_engine.plans.plan import LARGEST
from agentic_kernel_engine.providers import Malformed


def got(value: Any, name: str) -> Any:
    """A part of an object of the SDK, or of a mapping; None if there is none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def text(value: Any, name: str) -> str:
    """A part that is a text; empty if there is none.

    Raises:
        Malformed: It is no text, or one that no store would keep.
    """
    found = got(value, name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise Malformed(f"{name} is a {type(found).__name__} and no text")
    try:
        values.check_text(found, name)
    except InvalidValue as error:
        raise Malformed(str(error)) from error
    return found


def several(value: Any, name: str) -> Sequence[Any]:
    """A part that is a list; empty if there is none.

    Raises:
        Malformed: It is no list.
    """
    found = got(value, name)
    if found is None:
        return ()
    if not isinstance(found, list):
        raise Malformed(f"{name} is a {type(found).__name__} and no list")
    return found


def count(value: Any, name: str) -> int:
    """A part that is a number of tokens; 0 if there is none.

    Raises:
        Malformed: It is no such number.
    """
    found = got(value, name)
    if found is None:
        return 0
    if type(found) is not int or not 0 <= found <= LARGEST:
        raise Malformed(f"{name} is no number of tokens")
    return found
