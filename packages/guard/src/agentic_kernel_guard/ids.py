"""Ids of actions, requests and tokens, in letters: digits may look like a card or a phone."""

from __future__ import annotations

from binascii import b2a_base64
from os import urandom
from typing import Final

from .canonical import digest

_LETTERS: Final = str.maketrans("0123456789", "ghijklmnop")
_OF_URLS: Final = bytes.maketrans(b"+/", b"-_")


def new_id(kind: str) -> str:
    """A random id of 128 bits: the letter of its kind, ``_``, and 32 letters."""
    return f"{kind}_{lettered(urandom(16).hex())}"


def lettered(hexadecimal: str) -> str:
    """A hexadecimal number in the letters ``a`` to ``p``."""
    return hexadecimal.translate(_LETTERS)


def action_of(name: str, tenant: str, key: str) -> str:
    """The id of the action that a principal has a key for."""
    return f"k_{lettered(digest([name, tenant, key])[:40])}"


def url_base64(data: bytes) -> bytes:
    """Base64 in the letters of URLs, without the signs at its end."""
    return b2a_base64(data, newline=False).translate(_OF_URLS, b"=")
