"""Reading: checked access to the parts of a response, which the SDK does not check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentic_kernel import InvalidValue

from .. import values
from ..plans.plan import LARGEST
from .answers import Malformed


def got(value: Any, name: str) -> Any:
    """Return a part of an object of the SDK, or of a mapping; None if it is missing."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def text(value: Any, name: str) -> str:
    """Return a part that is a string; an empty string if it is missing.

    Raises:
        Malformed: The part is not a string, or no store accepts it.
    """
    found = got(value, name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise Malformed(f"{name} is a {type(found).__name__}, not a string")
    try:
        values.check_text(found, name)
    except InvalidValue as error:
        raise Malformed(str(error)) from error
    return found


def several(value: Any, name: str) -> Sequence[Any]:
    """Return a part that is a list; an empty one if it is missing.

    Raises:
        Malformed: The part is not a list.
    """
    found = got(value, name)
    if found is None:
        return ()
    if not isinstance(found, list):
        raise Malformed(f"{name} is a {type(found).__name__}, not a list")
    return found


def count(value: Any, name: str) -> int:
    """Return a part that is a number of tokens; 0 if it is missing.

    Raises:
        Malformed: The part is not a whole number from 0 to `LARGEST`.
    """
    found = got(value, name)
    if found is None:
        return 0
    if type(found) is not int or not 0 <= found <= LARGEST:
        raise Malformed(f"{name} is not a number of tokens from 0 to {LARGEST:,}")
    return found
