"""Canonical JSON (RFC 8785): the same value has the same bytes, everywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import rfc8785

from agentic_kernel import InvalidValue
from agentic_kernel_engine.values import check

EXACT: Final = 2**53 - 1
"""The largest whole number that every reader of JSON reads exactly."""

_FEW: Final = 64
"""The most parts of a value that is looked at once; so it is not too deep either."""
_SHORT: Final = 20_000
"""The most bytes of its form."""
_TEXT: Final = frozenset({str})
_CONTAINERS: Final = frozenset({dict, list, tuple})
_sorted: Final = msgspec.json.Encoder(order="sorted")


def canonical(value: Any, path: str = "value") -> bytes:
    """The canonical bytes of a value of JSON.

    Raises:
        InvalidValue: It is not a value that all readers of JSON read alike: a number that is not
            finite or over 2^53 - 1, a lone surrogate, NUL, a key that is no text; or it is too deep
            or too large.
    """
    short = _short_form(value)
    if short is not None:
        return short
    check(value, path)
    if _simple(value):
        # The same bytes, in a twentieth of the time: only keys and numbers make a difference.
        return _sorted.encode(value)
    try:
        return rfc8785.dumps(_plain(value))
    except (rfc8785.CanonicalizationError, RecursionError) as error:
        raise InvalidValue(path, f"has no canonical form: {error}") from None


def digest(value: Any, path: str = "value") -> str:
    """SHA-256 of the canonical bytes, in hexadecimal."""
    return hashlib.sha256(canonical(value, path)).hexdigest()


def _short_form(value: Any) -> bytes | None:
    """The bytes of a few parts of ASCII, small whole numbers and the like; None for other values.

    The texts are looked at in their bytes, all at once.
    """
    stack: list[Any] = [value if type(value) in _CONTAINERS else (value,)]
    left = _FEW
    while stack:
        parts = stack.pop()
        left -= len(parts)
        if left < 0:
            return None
        if type(parts) is dict:
            if not _TEXT.issuperset(map(type, parts)):
                return None
            parts = parts.values()
        for part in parts:
            kind = type(part)
            if kind is str:
                continue
            if kind is int:
                if not -EXACT <= part <= EXACT:
                    return None
            elif kind in _CONTAINERS:
                if part:
                    stack.append(part)
            elif part is not None and kind is not bool:
                return None
    try:
        data = _sorted.encode(value)
    except UnicodeEncodeError:
        return None
    # ``count``, because ``in`` first tries to read the bytes as a number.
    short = len(data) <= _SHORT and data.isascii() and not data.count(b"\\u0000")
    return data if short else None


def _simple(value: Any) -> bool:
    """True if no part needs more than sorted keys: ASCII keys, and no other number than an int."""
    stack = [value]
    while stack:
        part = stack.pop()
        kind = type(part)
        if kind is str or part is None or kind is bool:
            continue
        if kind is int:
            if not -EXACT <= part <= EXACT:
                return False
        elif kind is dict:
            if not all(type(key) is str and key.isascii() for key in part):
                return False
            stack.extend(part.values())
        elif kind is list or kind is tuple:
            stack.extend(part)
        else:
            return False
    return True


def _plain(value: Any) -> Any:
    """The value with plain dicts and lists, which the library looks for."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value
