"""Checks of the options by which a model samples an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from agentic_kernel import InvalidValue

from .. import edges, values

LONGEST_STOP: Final = 1_000
"""The longest text at which an answer stops, in characters."""

MOST_TOKENS: Final = 2**31 - 1
"""The largest number of tokens that an option may have."""


def check_tokens(value: Any, name: str) -> None:
    """Refuse a value that is neither None nor a number of tokens, from 1 to `MOST_TOKENS`.

    Raises:
        InvalidValue: It is neither.
    """
    if value is not None and (type(value) is not int or not 1 <= value <= MOST_TOKENS):
        raise InvalidValue(
            name, f"is {edges.came(value)}; use a whole number from 1 to {MOST_TOKENS:,}, or None"
        )


def check_fraction(value: Any, name: str, least: float, most: float) -> None:
    """Refuse a value that is neither None nor a number in a range.

    Raises:
        InvalidValue: It is neither.
    """
    if value is not None and (type(value) not in (int, float) or not least <= value <= most):
        raise InvalidValue(
            name, f"is {edges.came(value)}; must be a number from {least:g} to {most:g}, or None"
        )


def check_seed(value: Any, most: int) -> None:
    """Refuse a value that is neither None nor a whole number from 0 on.

    Raises:
        InvalidValue: It is neither.
    """
    if value is not None and (type(value) is not int or not 0 <= value <= most):
        raise InvalidValue(
            "seed",
            f"is {edges.came(value)}; must be a whole number from 0 to {most:,}, or None",
        )


def stops_of(value: Any, most: int) -> tuple[str, ...]:
    """Return the texts at which an answer stops, from one text or a list of them; None for none.

    Raises:
        InvalidValue: The value is neither, or has a text that is empty, too long or cannot be
            stored, or too many texts.
    """
    if value is None:
        return ()
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, Sequence) or not all(isinstance(each, str) for each in given):
        raise InvalidValue("stop", f"is {edges.came(value)}; give a text, or a list of texts")
    if len(given) > most:
        raise InvalidValue("stop", f"has {len(given)} texts, and the API takes {most}; remove some")
    for each in given:
        values.check_text(each, "stop")
        if not each.strip() or len(each) > LONGEST_STOP:
            raise InvalidValue(
                "stop", f"has a blank text or one of more than {LONGEST_STOP:,} characters"
            )
    return tuple(given)


def check_effort(value: Any, known: Sequence[str]) -> None:
    """Refuse a value that is neither None nor one of the API's words for an effort.

    Raises:
        InvalidValue: It is neither.
    """
    if value is not None and value not in known:
        raise InvalidValue("effort", f"is {edges.came(value)}; use {', '.join(known)}, or None")
