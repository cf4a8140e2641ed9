"""Ids of actions, requests and tokens, in letters: digits may look like a card or a phone."""

from __future__ import annotations

from secrets import token_hex
from typing import Final

from .canonical import digest

_LETTERS: Final = str.maketrans("0123456789", "ghijklmnop")


def new_id(kind: str) -> str:
    """A random id of 128 bits: the letter of its kind, ``_``, and 32 letters."""
    return f"{kind}_{lettered(token_hex(16))}"


def lettered(hexadecimal: str) -> str:
    """A hexadecimal number in the letters ``a`` to ``p``."""
    return hexadecimal.translate(_LETTERS)


def action_of(name: str, tenant: str, key: str) -> str:
    """The id of the action that a principal has a key for."""
    return f"k_{lettered(digest([name, tenant, key])[:40])}"
