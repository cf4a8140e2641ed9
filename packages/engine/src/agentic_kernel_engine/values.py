"""Values that may be stored, checked once; a refusal names the path of the bad part.

Durable values are JSON that every store and every reader agrees on: strings that are valid
Unicode without NUL, integers of 64 bits, finite numbers, string keys, bounded depth and size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel.frozen import freeze, shown

from .size import MAX_BYTES as MAX_BYTES
from .size import MAX_DEPTH as MAX_DEPTH
from .size import check_size

MAX_ID = 512
"""The most characters of a Task's id or runtime kind."""
MAX_ID_BYTES = 1024
"""The most bytes of a new id in UTF-8, because an index of Postgres holds two in 2,704 bytes."""

_PLAIN = MAX_BYTES // 6
"""The most characters that surely fit: JSON writes a character as six bytes at most."""
_SMALL = 16
"""The most items of a dict that `check` tries to accept in one look."""
_FEW = 4_096
"""The number of keys and items after which `check` counts the size of the whole value: only a value
with shared parts has far more parts than objects."""
INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1
_NUL = b"\\u0000"
"""NUL as JSON text. ``count`` looks for it, because ``in`` first tries to read it as a number,
which takes most of the time for short texts."""
_ROOT = (None, 0)
_encoder = msgspec.json.Encoder()
decode = msgspec.json.Decoder().decode
"""JSON text (bytes) back to plain values."""


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """A value that was checked already, as its JSON text."""

    text: bytes


def encode(value: Any, path: str = "value") -> bytes:
    """The JSON text of a value that may be stored.

    Raises:
        InvalidValue: The value, or a part of it, may not be stored; the message names its path.
    """
    if type(value) is Encoded:
        return value.text
    check(value, path)
    try:
        text = _encoder.encode(value)
    except (TypeError, ValueError, RecursionError) as error:  # e.g. a subclass of dict or list
        raise InvalidValue(path, f"cannot be written as JSON: {error}") from error
    if len(text) > MAX_BYTES:
        raise _too_long(len(text), path)
    return text


def mapping(value: Any, path: str) -> dict[str, Any]:
    """A caller's mapping as a plain dict.

    A mapping that computes its items may be endless, so only a bounded number of them is read.

    Raises:
        InvalidValue: It is not a mapping, or `agentic_kernel.frozen.freeze` does not accept it.
    """
    if type(value) is dict:
        return value
    if not issubclass(type(value), Mapping):
        raise InvalidValue(path, f"must be a mapping, not {type(value).__name__}")
    return dict(freeze(value, path, MAX_DEPTH))


def encode_checked(value: Any, path: str = "value") -> bytes:
    """The JSON text of a value whose keys and numbers are known to be storable.

    It looks only for bad text. The engine uses it for values that it builds itself, from parts that
    `check` has accepted.

    Raises:
        InvalidValue: A text in it may not be stored, or the whole value is too long.
    """
    try:
        text = _encoder.encode(value)
    except UnicodeEncodeError:
        check(msgspec.to_builtins(value, enc_hook=decode), path)
        raise
    if text.count(_NUL):  # most likely a NUL; or a text that only looks like one
        check(decode(text), path)
    if len(text) > MAX_BYTES:
        raise _too_long(len(text), path)
    return text


def encode_lines(items: Sequence[Any], path: str = "value") -> list[bytes]:
    """`encode_checked` of several values, in one call of the encoder."""
    try:
        text = _encoder.encode_lines(items)
    except UnicodeEncodeError:
        text = None
    if text is None or text.count(_NUL) or len(text) > MAX_BYTES:
        return [encode_checked(item, path) for item in items]
    return text.splitlines()


def snapshot(value: Any) -> msgspec.Raw:
    """Encode a part of a value now, for `encode_checked`; later changes do not count."""
    return msgspec.Raw(_encoder.encode(value))


def _too_long(length: int, path: str) -> InvalidValue:
    return InvalidValue(
        path,
        f"is {length:,} bytes of JSON, over the limit of {MAX_BYTES:,}; "
        "store it elsewhere and keep a reference",
    )


def check(value: Any, path: str = "value") -> None:
    """Refuse a value that would not come back unchanged after `encode` and `decode`.

    Raises:
        InvalidValue: See `encode`.
    """
    kind = type(value)
    if kind is str:
        if not value.isascii() or "\0" in value:
            check_text(value, path)
        return
    if value is None or kind is bool or (kind is int and INT_MIN <= value <= INT_MAX):
        return
    if kind is dict and len(value) <= _SMALL and _flat(value):
        return
    # Items are (container, path of container, depth). A stack is used instead of recursion.
    stack: list[tuple[Any, Any, int]]
    stack = [(value, _ROOT, 1)] if kind is dict or kind is list else [((value,), None, 0)]
    seen = size = 0
    counted = False
    while stack:
        container, trail, depth = stack.pop()
        seen += len(container)
        if size > MAX_BYTES or (seen > _FEW and not counted):
            counted = True
            check_size(value, path)
        is_map = isinstance(container, dict)
        for key, item in container.items() if is_map else enumerate(container):
            if is_map:
                if not isinstance(key, str):
                    raise InvalidValue(
                        _where(path, trail),
                        f"has a key of type {type(key).__name__}; keys must be strings",
                    )
                size += len(key)
                if not key.isascii() or "\0" in key:
                    check_text(key, f"a key of {_where(path, trail)}")
            kind = type(item)
            if kind is str:
                size += len(item)
                if size > MAX_BYTES:
                    check_size(value, path)
                if not item.isascii() or "\0" in item:
                    check_text(item, _where(path, (trail, key)))
            elif item is None or kind is bool:
                pass
            elif kind is int:
                if not INT_MIN <= item <= INT_MAX:
                    raise InvalidValue(
                        _where(path, (trail, key)),
                        "is an integer outside 64 bits; store it as a string",
                    )
            elif kind is float:
                if not math.isfinite(item):
                    raise InvalidValue(
                        _where(path, (trail, key)),
                        "is not a finite number; JSON has no NaN and no infinity",
                    )
            elif isinstance(item, (dict, list, tuple)):
                if depth >= MAX_DEPTH:
                    raise InvalidValue(
                        _where(path, (trail, key)), f"is nested deeper than {MAX_DEPTH} levels"
                    )
                stack.append((item, (trail, key), depth + 1))
            else:
                raise InvalidValue(
                    _where(path, (trail, key)),
                    f"is a {kind.__name__}, which is not JSON; use null, booleans, numbers, "
                    "strings, lists and dicts",
                )


def _flat(items: dict[Any, Any]) -> bool:
    """True if every key and item is surely storable; most arguments of tools are like this."""
    for key, item in items.items():
        kind = type(item)
        if kind is str:
            if not plain(item):
                return False
        elif kind is int:
            if not INT_MIN <= item <= INT_MAX:
                return False
        elif item is not None and kind is not bool:
            return False
        if type(key) is not str or not key.isascii() or "\0" in key:
            return False
    return True


def check_text(text: str, path: str) -> None:
    """Refuse a string that is not valid Unicode or holds NUL.

    Raises:
        InvalidValue: The string is not valid Unicode, or holds NUL.
    """
    text = str.__str__(text)  # The methods of a subclass are the caller's code.
    if "\0" in text:
        raise InvalidValue(path, f"holds a NUL character at index {text.index(chr(0))}; remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidValue(
            path,
            f"holds the lone surrogate {ascii(text[error.start])} at index {error.start}; "
            "decode the text properly or replace it",
        ) from None


def plain(text: str) -> bool:
    """True if a text is ASCII without NUL and fits; `encode` decides about the others."""
    return text.isascii() and "\0" not in text and len(text) <= _PLAIN


def check_id(value: Any, path: str) -> str:
    """Refuse an id or a kind that some store could not hold.

    Raises:
        InvalidValue: Not a string, empty, too long, or not storable text.
    """
    if type(value) is str and 0 < len(value) <= MAX_ID and value.isascii() and "\0" not in value:
        return value  # The fast path: most ids are short ASCII.
    value = check_known_id(value, path)
    if not value.isascii() and len(value.encode()) > MAX_ID_BYTES:
        raise InvalidValue(
            path,
            f"is {len(value.encode()):,} bytes of UTF-8; use at most {MAX_ID_BYTES:,}",
        )
    return cast(str, value)


def check_known_id(value: Any, path: str) -> str:
    """Check an id like `check_id`, but not its bytes: earlier versions counted characters only.

    Raises:
        InvalidValue: Not a string, empty, too many characters, or not storable text.
    """
    if not issubclass(type(value), str):
        raise InvalidValue(path, f"must be a string, not {type(value).__name__}")
    value = str.__str__(value)
    if not 0 < len(value) <= MAX_ID:
        raise InvalidValue(path, f"has {len(value):,} characters; use 1 to {MAX_ID}")
    check_text(value, path)
    return cast(str, value)


def _where(root: str, trail: Any) -> str:
    steps: list[str] = []
    while trail is not None:
        trail, key = trail
        steps.append(f"[{key}]" if isinstance(key, int) else f"[{shown(key)}]")
    steps.reverse()
    # Drop the outermost step: it stands for the tuple that `check` wraps the value in.
    steps = steps[1:]
    if len(steps) > 12:
        steps = [*steps[:6], f"…({len(steps) - 9} more)…", *steps[-3:]]
    return root + "".join(steps)
