"""Summary: what a result is like, in a few lines that are the same for equal results."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from .plain import scalar

FREQUENT: Final = 3
"""The most values of a field that are named."""
LONGEST: Final = 40
"""The most characters of a name or a value in a line."""
_ABSENT: Final = object()
_COUNTED: Final = frozenset({str, bool, int})
"""The types of values that are counted one by one."""
_KINDS: Final[Mapping[type[Any], str]] = {
    str: "text", bool: "true or false", int: "number", float: "number", type(None): "null",
    dict: "object", list: "list", tuple: "list", set: "list", frozenset: "list",
}  # fmt: skip
_encode: Final = json.JSONEncoder(ensure_ascii=False).encode
Redacts = Callable[[Any], Any]


def shape(rows: Sequence[Any], fields: int) -> str:
    """The size of a result in words."""
    count = "1 row" if len(rows) == 1 else f"{len(rows):,} rows"
    return f"{count} of {fields:,} field{'' if fields == 1 else 's'}" if fields else count


def line_of(name: str, rows: Sequence[Any], redacted: Redacts) -> str:
    """One line about a field: its types, how often it is there, its range, its frequent values.

    Args:
        name: The field; its name is redacted already for the line's beginning.
        redacted: Replaces secrets in a value before it is shown.
    """
    values = [
        row.get(name, _ABSENT) for row in rows if type(row) is dict or isinstance(row, Mapping)
    ]
    return f"{quoted(redacted(name))}: {described(values, redacted)}"


def described(values: Sequence[Any], redacted: Redacts) -> str:
    """The properties of these values."""
    if len(values) == 1 and type(values[0]) in _COUNTED:
        # Most calls answer with one row, and counting one value takes ten times as long.
        return f"{_KINDS[type(values[0])]}; always {quoted(redacted(values[0]))} (1)"
    kinds = Counter(map(type, values))
    absent = kinds.pop(type(_ABSENT), 0)
    said: dict[str, int] = {}
    for kind, count in kinds.items():
        said_kind = _KINDS.get(kind) or kind.__name__[:LONGEST]
        said[said_kind] = said.get(said_kind, 0) + count
    words = ", ".join(
        kind if len(said) == 1 else f"{kind} ({count:,})" for kind, count in said.items()
    )
    parts = [words or "nothing"]
    if absent:
        parts.append(f"absent {absent:,} times")
    parts += _range(values, kinds, redacted)
    parts += _frequent(values, kinds, redacted)
    return "; ".join(parts)


def quoted(value: Any) -> str:
    """A value in one line, as JSON, cut to 40 characters."""
    plain = scalar(value)
    # The encoder makes another one for each number.
    plain = str(plain) if type(plain) is int else _encode(plain)
    if not plain.isprintable():
        plain = "".join(char if char.isprintable() else "�" for char in plain)
    return plain if len(plain) <= LONGEST else f"{plain[: LONGEST - 1]}…"


def _range(values: Sequence[Any], kinds: Mapping[type, int], redacted: Redacts) -> list[str]:
    if not {int, float} & kinds.keys():
        return []
    numbers = [
        each for each in values
        if type(each) is int or (type(each) is float and math.isfinite(each))
    ]  # fmt: skip
    if not numbers or min(numbers) == max(numbers):
        return []
    return [f"from {quoted(redacted(min(numbers)))} to {quoted(redacted(max(numbers)))}"]


def _frequent(values: Sequence[Any], kinds: Mapping[type, int], redacted: Redacts) -> list[str]:
    if not _COUNTED & kinds.keys():
        return []
    # The type is part of the key, because True equals 1.
    counts = Counter((type(each), each) for each in values if type(each) in _COUNTED)
    parts = [f"{len(counts):,} distinct"] if len(counts) > 1 else []
    ordered = counts.most_common(FREQUENT) if len(counts) > 1 else counts.items()
    common = [(each, count) for (_, each), count in ordered]
    if common[0][1] > 1 or len(counts) <= FREQUENT:
        shown = ", ".join(f"{quoted(redacted(each))} ({count:,})" for each, count in common)
        parts.append(f"most often {shown}" if len(counts) > 1 else f"always {shown}")
    return parts
