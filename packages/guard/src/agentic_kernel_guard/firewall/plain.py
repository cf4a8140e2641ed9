"""Plain: a result in the forms of JSON, cut to the budgets; each cut is counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

from .frame import Budgets, Cut
from .redact.redactor import free

_SEQUENCES: Final = (list, tuple, set, frozenset)
LONGEST: Final = 1_000
"""The most bits of a number that is shown."""
MOST_TEXT: Final = 200_000
"""The most characters of one frame that are looked at, unless its budget is near."""
_BYTES: Final = (bytes, bytearray, memoryview)
_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
"""The usual types of parts; they are looked for first, because other checks are slower."""
_TEXT: Final = frozenset({str})
_SHORT: Final = 2**63
"""Most numbers are below it; of another one the bits are counted."""


def rows_of(value: Any) -> list[Any]:
    """The rows of a result: the items of a list, tuple or set; any other value is one row.

    The items of a set come in the order of their texts, so that equal results look equal. A named
    tuple is one row, with fields.
    """
    if type(value) is dict:  # Most results that are no list.
        return [value]
    value = unnamed(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=lambda each: (type(each).__name__, repr(each)))
    if isinstance(value, (list, tuple)):
        return [unnamed(each) for each in value]
    return [value]


def unnamed(value: Any) -> Any:
    """A named tuple as a dict of its fields; any other value unchanged."""
    names = getattr(type(value), "_fields", None) if isinstance(value, tuple) else None
    if type(names) is tuple and len(names) == len(value):
        return dict(zip(names, value, strict=True))
    return value


def whole(value: Any) -> Any:
    """All of a value, its names and bytes in the forms that a frame shows, so that JSON has them.

    Raises:
        RecursionError: The value is too deep, or has itself as a part.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    value = value if kind is dict else unnamed(value)
    if kind is dict or isinstance(value, Mapping):
        made: dict[str, Any] = {}
        taken: dict[Any, int] = {}
        for key, each in value.items():
            name = key if type(key) is str else name_of(key)
            if name in made:
                name = free(name, made, taken)
            made[name] = each if type(each) in _PLAIN else whole(each)
        return made
    if isinstance(value, _SEQUENCES):
        return [whole(each) for each in rows_of(value)]
    return scalar(value) if isinstance(value, _BYTES) else value


def named(rows: list[Any]) -> tuple[list[Any], list[str]]:
    """The rows with texts as the names of their fields; and all names, as they first appear."""
    names: dict[Any, None] = {}
    last: object = None
    for row in rows:
        if type(row) is dict or isinstance(row, Mapping):
            keys = row.keys()
            if keys != last:  # Most rows have the fields of the row before.
                names.update(dict.fromkeys(keys))
                last = keys
    if _TEXT.issuperset(map(type, names)):
        return rows, list(names)
    rows = [
        {name_of(key): each for key, each in row.items()} if isinstance(row, Mapping) else row
        for row in rows
    ]
    return rows, list(dict.fromkeys(map(name_of, names)))


def name_of(key: object) -> str:
    """A field's name as text."""
    if isinstance(key, (tuple, frozenset)):
        parts = map(name_of, key)
        return ".".join(sorted(parts) if isinstance(key, frozenset) else parts)
    return key if type(key) is str else str(scalar(key))


def scalar(value: Any) -> Any:
    """A value without parts in a form of JSON; a marker with its type if it has none."""
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return value
    if kind is int and -_SHORT < value < _SHORT:
        return value
    if isinstance(value, Enum):
        return scalar(value.value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else f"[{float(value)}]"
    if isinstance(value, int):
        # Python refuses to write very long numbers.
        bits = value.bit_length()
        return int(value) if bits <= LONGEST else f"[a number of {bits:,} bits]"
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    if isinstance(value, _BYTES):
        data = bytes(value)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return f"[{len(data):,} bytes]"
    return f"[{type(value).__name__}]"


class Cutter:
    """Makes values plain, and cuts what is over the budgets for rows, fields and depth.

    Whole parts are cut here, and no texts, so that no secret is cut before it can be found. Only of
    a text that is far longer than what is shown, the end is left out, because finding secrets in
    all of it takes long.

    Args:
        head: The beginning of a text without secrets (`Redactor.head`).
    """

    def __init__(
        self, budgets: Budgets, head: Callable[[str, int], tuple[str, int] | None]
    ) -> None:
        self._budgets = budgets
        self._head = head
        self._look = max(MOST_TEXT, 10 * budgets.chars)
        """The characters that may still be looked at."""
        self.redactions = 0
        """The parts that were replaced in beginnings of texts."""
        self._cuts: dict[tuple[str, str], list[int]] = {}

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """The cuts so far; equal places are added up."""
        if not self._cuts:
            return ()
        return tuple(
            Cut(kind, shown, total, where)  # type: ignore[arg-type]
            for (kind, where), (shown, total) in self._cuts.items()
        )

    def cut(self, kind: str, shown: int, total: int, where: str = "") -> None:
        """Count a cut, if it is one."""
        if shown < total:
            counts = self._cuts.setdefault((kind, where), [0, 0])
            counts[0] += shown
            counts[1] += total

    def text(self, text: str, where: str = "", most: int = MOST_TEXT) -> str:
        """The text, or its beginning without secrets if it is too long to be looked at.

        Args:
            most: The most characters of a beginning.
        """
        length = len(text)
        if length <= self._look:
            self._look -= length
            return text
        found = self._head(text, min(most, self._look))
        said, count = ("", 0) if found is None else found
        self._look -= min(self._look, len(said))
        self.redactions += count
        self.cut("characters", len(said), length, where)
        return f"{said}… [a text of {length:,} characters]"

    def plain(self, value: Any, where: str = "", depth: int = 1) -> Any:
        """A plain copy of a value, without what is over the budgets.

        Args:
            where: The field that the value stands in.
            depth: The number of containers around the parts of the value, its own included.
        """
        kind = type(value)
        if kind is str:
            return self.text(value, where)
        if kind in _PLAIN:
            return scalar(value)
        value = value if kind is dict else unnamed(value)
        if kind is dict or isinstance(value, Mapping):
            if depth > self._budgets.depth:
                self.cut("depth", 0, 1, where)
                return f"[{len(value):,} fields]"
            return self._mapping(value, where, depth)
        if isinstance(value, _SEQUENCES):
            if depth > self._budgets.depth:
                self.cut("depth", 0, 1, where)
                return f"[{len(value):,} items]"
            items = rows_of(value)
            shown = items[: self._budgets.rows]
            self.cut("rows", len(shown), len(items), where)
            return [self.plain(each, where, depth + 1) for each in shown]
        plain = scalar(value)
        return self.text(plain, where) if type(plain) is str else plain

    def _mapping(self, value: Mapping[Any, Any], where: str, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        taken: dict[Any, int] = {}
        for key, each in value.items():
            if len(made) == self._budgets.fields:
                self.cut("fields", len(made), len(value), where)
                break
            name = self.text(key if type(key) is str else name_of(key), where)
            if name in made:
                name = free(name, made, taken)
            made[name] = self.plain(each, where or name, depth + 1)
        return made


class Room:
    """The characters that a frame may still show."""

    def __init__(self, chars: int) -> None:
        self.left = chars
        self.wanted = 0
        """The characters of all that was to be shown."""
        self.shown = 0

    def fit(self, value: Any) -> Any:
        """A plain value, its texts cut to what is left; `NO_ROOM` if nothing of it can be shown."""
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind is dict:
            made: dict[str, Any] = {}
            for key, each in value.items():
                if self._take(len(key) + 4):
                    part = self.fit(each)
                    if part is not NO_ROOM:
                        made[key] = part
                else:
                    self._count(each)
            return made
        if kind is list:
            parts = [self.fit(each) for each in value]
            return [part for part in parts if part is not NO_ROOM]
        return value if self._take(len(str(value)) + 1) else NO_ROOM

    def text(self, text: str) -> Any:
        """The text, or its beginning and the number of its characters."""
        if self._take(len(text) + 2):
            return text
        said = f"… [{len(text):,} characters]"
        length = self.left - len(said) - 2
        if length < 1:
            self.left = 0
            return NO_ROOM
        self.shown += length
        self.left = 0
        return text[:length] + said

    def _take(self, size: int) -> bool:
        self.wanted += size
        if size > self.left:
            return False
        self.left -= size
        self.shown += size
        return True

    def _count(self, value: Any) -> None:
        self.left = 0
        self.fit(value)


NO_ROOM: Final = object()
"""Stands for a value of which nothing can be shown."""
