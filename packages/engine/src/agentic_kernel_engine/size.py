"""Size: the size of a value as JSON, counted without expanding its shared parts.

A part that a value holds many times is one object in memory and many copies as text: a YAML file
of thirty lines with aliases can stand for a billion parts. The functions here look at each object
once, so their time grows with the number of objects and not with the number of copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from agentic_kernel import InvalidValue

MAX_DEPTH = 128
"""The most levels that lists and dicts may nest in a stored value."""
MAX_BYTES = 8 * 1024 * 1024
"""The most bytes that one stored value may have as JSON text."""
MAX_PARTS = 1_000_000
"""The most keys and items that a stored value may have; shared parts count each time."""

Parts = Callable[[Any], Iterable[Any] | None]
"""A function that returns the parts of a value, keys included, or None if it has no parts."""

_PLAIN: Final = (dict, list, tuple)
_SINGLE: Final = frozenset({int, float, bool, type(None)})


def plain_parts(value: Any) -> Iterable[Any] | None:
    """The keys and items of dicts and lists; None for everything else."""
    if not isinstance(value, _PLAIN):
        return None
    return parts_of_mapping(value) if isinstance(value, dict) else value


def parts_of_mapping(value: Mapping[Any, Any]) -> list[Any]:
    """The keys and values of a mapping."""
    return [*value, *value.values()]


def check_size(value: Any, path: str, parts: Parts = plain_parts) -> None:
    """Refuse a value that would be too large or too deep as JSON, or that holds itself.

    Args:
        path: The value's path, for the message.
        parts: The function that returns the parts of a value.

    Raises:
        InvalidValue: The value has over `MAX_PARTS` parts or `MAX_BYTES` characters (shared parts
            count each time), nests deeper than `MAX_DEPTH`, or holds itself.
    """
    whole = parts(value)
    if whole is None:
        return
    known: dict[int, _Open] = {}
    current = _Open(value, whole, known)
    stack = [current]
    _refuse(current, path)
    while stack:
        current = stack[-1]
        for part in current.left:
            kind = type(part)
            if kind in _SINGLE:
                continue
            if kind is str or isinstance(part, (str, bytes, bytearray)):
                current.length += len(part)
                continue
            before = known.get(id(part))
            if before is None:
                inner = parts(part)
                if inner is None:
                    continue
                if len(stack) >= MAX_DEPTH:
                    raise InvalidValue(path, f"is nested deeper than {MAX_DEPTH} levels")
                stack.append(_Open(part, inner, known))
                break
            if before.open:
                raise InvalidValue(
                    path, "holds itself, so it is nested deeper than any limit; break the cycle"
                )
            current.take(before)
        else:
            stack.pop()
            current.open = False
            _refuse(current, path)
            if stack:
                stack[-1].take(current)


class _Open:
    """A value, and its size as far as it is counted."""

    __slots__ = ("count", "depth", "left", "length", "open", "value")

    def __init__(self, value: Any, parts: Iterable[Any], known: dict[int, _Open]) -> None:
        made = parts if isinstance(parts, (list, tuple)) else list(parts)
        self.value = value  # Kept alive, so that no other object gets its id.
        self.left: Iterator[Any] = iter(made)
        self.count = len(made)
        self.length = 0
        self.depth = 1
        self.open = True
        """True while its parts are being counted."""
        known[id(value)] = self

    def take(self, part: _Open) -> None:
        """Add the size of a part."""
        self.count += part.count
        self.length += part.length
        self.depth = max(self.depth, part.depth + 1)


def _refuse(each: _Open, path: str) -> None:
    if each.count > MAX_PARTS:
        raise InvalidValue(
            path,
            f"has over {MAX_PARTS:,} parts, those that it shares counted each time; "
            "store it elsewhere",
        )
    if each.length > MAX_BYTES:
        raise InvalidValue(
            path,
            f"is at least {each.length:,} bytes of JSON, over the limit of {MAX_BYTES:,}; "
            "store it elsewhere and keep a reference",
        )
    if each.depth > MAX_DEPTH:
        raise InvalidValue(path, f"is nested deeper than {MAX_DEPTH} levels")
