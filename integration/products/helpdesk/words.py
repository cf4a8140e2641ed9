"""Words: customers, amounts of money and the errors of the desk, checked where they come in."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Final

from agentic_kernel_engine import Principal

TENANT: Final = "helpdesk"
HOUSE: Final = Principal("house", TENANT, kind="service")
"""The principal of a Task that no customer opened. It has no orders."""
LONGEST: Final = 4_000
"""The most characters of a text that a person writes."""
MOST_CENTS: Final = 100_000_000
"""The largest amount of an order, in cents."""
_CUSTOMER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class DeskError(Exception):
    """The desk cannot do what was asked; the message says why, and what to do instead."""


class NotThereError(DeskError, LookupError):
    """There is no such ticket."""


class NotNowError(DeskError, RuntimeError):
    """The ticket does not wait for this."""


class BadInputError(DeskError, ValueError):
    """A value that came in is not valid."""


def customer(name: str) -> Principal:
    """The principal of a customer.

    Raises:
        BadInputError: It is no name of a customer.
    """
    if not _CUSTOMER.fullmatch(name) or name == HOUSE.name:
        raise BadInputError(
            f"customer {name[:80]!a} is no name; use 1 to 64 letters, digits and . _ @ -, a letter "
            f"or digit first, and not {HOUSE.name!r}"
        )
    return Principal(name, TENANT)


def text(given: str, what: str) -> str:
    """A text that a person wrote, without the spaces around it.

    Raises:
        BadInputError: It is empty, too long, or has characters that cannot be stored.
    """
    said = given.strip()
    if not 1 <= len(said) <= LONGEST:
        raise BadInputError(f"the {what} has {len(said):,} characters; use 1 to {LONGEST:,}")
    if "\0" in said or (not said.isascii() and said.encode(errors="replace").decode() != said):
        raise BadInputError(f"the {what} has a character that cannot be stored; remove it")
    return said


def cents(amount: str) -> int:
    """An amount such as ``12.50`` in cents.

    Raises:
        BadInputError: It is no amount, or out of range.
    """
    try:
        exact = Decimal(amount) * 100
        whole = int(exact)
    except (InvalidOperation, ValueError, OverflowError):
        whole, exact = 0, Decimal(-1)
    if whole != exact or not 1 <= whole <= MOST_CENTS:
        raise BadInputError(f"{amount[:40]!a} is no amount from 0.01 to {money(MOST_CENTS)}")
    return whole


def money(amount: int) -> str:
    """An amount of cents for people."""
    return f"{amount // 100}.{amount % 100:02}"
