"""Edges: what a caller may pass in, checked by type and range before anything depends on it.

Each check hands the value back. Its refusal is an `InvalidValue` whose path is the argument's name,
and says what came, what is accepted, and so what to pass.
"""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from itertools import islice
from types import FunctionType
from typing import Any, Final, TypeVar, cast

from agentic_kernel import InvalidValue, TaskStatus
from agentic_kernel.frozen import shown

from . import moments, values

T = TypeVar("T")
_log = logging.getLogger(__name__)
LONGEST: Final = 1e9
"""The longest time that may be asked for, in seconds: some thirty years."""
MOST_NAMES: Final = 10_000
"""How many names one argument may hold."""
_PLAIN: Final = frozenset("\n\r\t\u200c\u200d\u200e\u200f")
"""Control and format characters that ordinary text has: joiners, and marks of direction."""
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2065\u2800\u3164\uffa0")
"""Characters of other categories that no reader can see."""


def came(value: object) -> str:
    """A value as a refusal shows it: short, and without calling code of the value's own."""
    if value is None or type(value) is bool or type(value) is float:
        return repr(value)
    if type(value) is int:
        return str(value) if abs(value) < 10**20 else f"a number of {value.bit_length()} bits"
    return shown(value)


def whole(value: Any, name: str, least: int, most: int | None = None) -> int:
    """A whole number in a range; a boolean is none.

    Raises:
        InvalidValue: It is not.
    """
    top = values.INT_MAX if most is None else most
    kind = type(value)
    number = int.__int__(value) if kind is not bool and issubclass(kind, int) else None
    if number is None or not least <= number <= top:
        wanted = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise InvalidValue(name, f"is {came(value)}; use a whole number {wanted}")
    return number


def whole_or_none(value: Any, name: str, least: int) -> int | None:
    """The same; None is no limit.

    Raises:
        InvalidValue: It is neither.
    """
    if value is None:
        return None
    try:
        return whole(value, name, least)
    except InvalidValue as wrong:
        raise InvalidValue(name, f"{wrong.reason}, or None") from None


def seconds(value: Any, name: str, least: float = 0.0, *, zero: bool = True) -> float:
    """A finite time in seconds.

    Args:
        zero: Whether 0 is a time.

    Raises:
        InvalidValue: It is no number, not finite, or out of range.
    """
    kind = type(value)
    if issubclass(kind, int) and kind is not bool:
        value = int.__int__(value)  # The methods of a subclass are code of the caller's.
    elif issubclass(kind, float):
        value = float.__float__(value)
    number = type(value) in (int, float)
    if not number or not least <= value <= LONGEST or not (zero or value):  # NaN is in no range
        wanted = f"from {least:g}" if zero else f"above {least:g}, up"
        raise InvalidValue(
            name, f"is {came(value)}; use a number of seconds {wanted} to {LONGEST:,.0f}"
        )
    return float(value)


def flag(value: Any, name: str) -> bool:
    """True or False.

    Raises:
        InvalidValue: It is neither.
    """
    if not isinstance(value, bool):
        raise InvalidValue(name, f"is {came(value)}; use True or False")
    return value


def text(value: Any, name: str, *, empty: bool = True, remedy: str = "") -> str:
    """Text that may be stored.

    Args:
        remedy: What to pass instead of an empty text.

    Raises:
        InvalidValue: It is no string, empty although it must not be, or not storable.
    """
    if not issubclass(type(value), str):
        raise InvalidValue(name, f"must be a string, not {type(value).__name__}")
    value = str.__str__(value)
    if not value and not empty:
        raise InvalidValue(name, f"must not be empty{remedy and '; '}{remedy}")
    values.check_text(value, name)
    return cast(str, value)


def prose(value: Any, name: str) -> str:
    """Text of several lines for a model or a person, without a character that hides something.

    Zero-width joiners, direction marks and variation selectors are part of some scripts and of
    emoji, so they stay.

    Raises:
        InvalidValue: It is no such text; the first bad character is named.
    """
    value = text(value, name)
    if value.isprintable() and value.isascii():
        return cast(str, value)
    for index, character in enumerate(value):
        if character in _BLANK or (
            unicodedata.category(character) in ("Cc", "Cf") and character not in _PLAIN
        ):
            raise InvalidValue(
                name,
                f"has the invisible character U+{ord(character):04X} at index {index}; remove it",
            )
    return cast(str, value)


def function(value: Any, name: str) -> Any:
    """Something that can be called.

    Raises:
        InvalidValue: It cannot.
    """
    if not callable(value):
        raise InvalidValue(name, f"is {came(value)}; pass a function")
    return value


def choice(value: Any, name: str, known: Sequence[str]) -> str:
    """One of a few words.

    Raises:
        InvalidValue: It is none of them.
    """
    if not issubclass(type(value), str) or str.__str__(value) not in known:
        raise InvalidValue(name, f"is {came(value)}; use {', '.join(known)}")
    return str.__str__(value)


def instance(value: Any, name: str, kind: type[T]) -> T:
    """An object of a class.

    Raises:
        InvalidValue: It is of another class.
    """
    if not issubclass(type(value), kind):
        raise InvalidValue(name, f"is {came(value)}; give a {kind.__name__}")
    return cast(T, value)


def several(value: Any, name: str, noun: str, most: int = MOST_NAMES) -> list[Any]:
    """The items of an iterable, of which a bounded number is read.

    Args:
        noun: What the items are, in the plural.

    Raises:
        InvalidValue: It is a text, a mapping or no iterable, it has more items, or it raises.
    """
    kind = type(value)
    if issubclass(kind, (str, bytes, Mapping, type)) or not isinstance(value, Iterable):
        raise InvalidValue(name, f"is {came(value)}; give a list of up to {most:,} {noun}")
    return _read(value, name, noun, most)


def entries(value: Any, name: str, most: int = MOST_NAMES) -> list[tuple[Any, Any]]:
    """The keys and values of a mapping, of which a bounded number is read.

    Raises:
        InvalidValue: It is no mapping, it has more keys, or it raises.
    """
    if not issubclass(type(value), Mapping):
        raise InvalidValue(name, f"must be a mapping, not {type(value).__name__}")
    try:
        items = value.items()
    except Exception as fault:
        raise _unreadable(name, fault) from fault
    return _read(items, name, "keys", most)


def _read(items: Iterable[Any], name: str, noun: str, most: int) -> list[Any]:
    try:
        found = list(islice(items, most + 1))
    except Exception as fault:
        raise _unreadable(name, fault) from fault
    if len(found) > most:
        raise InvalidValue(name, f"has over {most:,} {noun}; give fewer")
    return found


def _unreadable(name: str, fault: Exception) -> InvalidValue:
    return InvalidValue(
        name, f"cannot be read, because of a {type(fault).__name__}; pass a plain list or dict"
    )


def names(value: Any, name: str) -> frozenset[str]:
    """Texts that may be stored, each once.

    Raises:
        InvalidValue: It is no collection of a bounded number of such texts.
    """
    found = several(value, name, "texts")
    return frozenset(text(each, f"{name}[{index}]") for index, each in enumerate(found))


def kinds(value: Any, name: str) -> frozenset[str] | None:
    """Runtime kinds; None for every kind.

    Raises:
        InvalidValue: It is no collection, or one of them is no runtime kind.
    """
    if value is None:
        return None
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Collection):
        raise InvalidValue(
            name, f"must be a collection of runtime kinds, not {type(value).__name__}"
        )
    found = several(value, name, "kinds, and None for every kind")
    return frozenset(values.check_id(kind, f"{name}[{index}]") for index, kind in enumerate(found))


def statuses(value: Collection[Any], name: str) -> tuple[TaskStatus, ...]:
    """Statuses of a Task, also given by their values.

    Raises:
        InvalidValue: One of them is none.
    """
    found = []
    for status in value:
        found.append(one_status(status, name))
    return tuple(found)


def one_status(value: Any, name: str) -> TaskStatus:
    """A status of a Task, also given by its value.

    Raises:
        InvalidValue: It is none.
    """
    known = tuple(TaskStatus)
    if not issubclass(type(value), str) or str.__str__(value) not in known:
        raise InvalidValue(name, f"{came(value)} is none of {', '.join(known)}")
    return TaskStatus(str.__str__(value))


def cursor(value: Any, name: str) -> tuple[int, int] | None:
    """The id of an event, after which to go on; None for the beginning.

    Raises:
        InvalidValue: It is no pair of whole numbers.
    """
    if value is None:
        return None
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise InvalidValue(
            name, f"is {came(value)}; use the id of an event, (version, index), or None"
        )
    return whole(value[0], f"{name}[0]", 0), whole(value[1], f"{name}[1]", -1)


def part(value: Any, name: str, port: type[Any]) -> Any:
    """An object that has the methods of a port.

    Raises:
        InvalidValue: It is a class, or lacks a method.
    """
    if isinstance(value, type):
        raise InvalidValue(name, f"is the class {value.__name__}; pass an instance of it")
    members = _members(cast(Hashable, port))
    missing = [each for each in members if not _has(value, each, getattr(port, each))]
    if missing:
        raise InvalidValue(
            name,
            f"is {came(value)}, which is no {port.__name__}: it lacks {', '.join(missing[:5])}",
        )
    return value


def part_or_none(value: Any, name: str, port: type[Any]) -> Any:
    """The same; None for none.

    Raises:
        InvalidValue: It is neither.
    """
    return None if value is None else part(value, name, port)


def optional(value: Any, name: str, port: type[Any]) -> Any:
    """The object if it also has the methods of an optional port; else None.

    A method whose name is almost one of the port's is not called, so the log says so.
    """
    members = _members(cast(Hashable, port))
    if all(_has(value, each, getattr(port, each)) for each in members):
        return value
    _warn_of_misspelled(cast(Hashable, type(value)), name, cast(Hashable, port))
    return None


@lru_cache(1024)
def _warn_of_misspelled(kind: Any, name: str, port: Any) -> None:
    """Log the methods of a class that a port almost names; once for each class."""
    for each in dir(kind):
        meant = next((member for member in _members(port) if _almost(each, member)), None)
        if meant is not None and callable(getattr(kind, each, None)):
            _log.warning(
                "%s: the method %s.%s is never called; %s calls %s. Rename it, and name %s as a "
                "base class to have a type checker see it",
                name, kind.__name__, each, port.__name__, meant, port.__name__,
            )  # fmt: skip


def _almost(name: str, meant: str) -> bool:
    """True if a name is one typing error away: a letter more, less, another, or two swapped."""
    if name == meant or abs(len(name) - len(meant)) > 1:
        return False
    start = next((at for at, (a, b) in enumerate(zip(name, meant, strict=False)) if a != b), None)
    if start is None:
        return True
    a, b = name[start:], meant[start:]
    return a[1:] == b or a == b[1:] or a[1:] == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])


@cache
def _members(port: Any) -> tuple[str, ...]:
    """The methods and properties of a port and of those that it extends, in their order."""
    return tuple(
        name
        for each in reversed(port.__mro__)
        if getattr(each, "_is_protocol", False)
        for name, member in vars(each).items()
        if isinstance(member, (FunctionType, property)) and name[0] != "_"
    )


def _has(value: Any, name: str, member: Any) -> bool:
    if isinstance(member, property):
        return hasattr(value, name)
    return callable(getattr(value, name, None))


def clock(value: Any, name: str) -> Callable[[], datetime]:
    """A clock whose every answer is checked; it is asked once here.

    Raises:
        InvalidValue: It cannot be called, or tells no aware moment.
    """
    if not callable(value):
        raise InvalidValue(name, f"is {came(value)}; pass a function that returns the time")

    def checked() -> datetime:
        return moments.aware(f"{name}()", value())

    checked()
    return checked
