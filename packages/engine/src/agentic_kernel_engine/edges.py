"""Edges: checks of a caller's arguments by type and range, before any code depends on them.

Each check returns the value or raises `InvalidValue`. The error's path is the argument's name; its
message shows the value that came and the values that are accepted.
"""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from inspect import getattr_static, iscoroutinefunction
from itertools import islice
from types import FunctionType
from typing import Any, Final, TypeVar, cast

from agentic_kernel import InvalidValue, TaskStatus
from agentic_kernel.frozen import shown

from . import moments, values
from .cursor import EventId

T = TypeVar("T")
_log = logging.getLogger(__name__)
LONGEST: Final = 1e9
"""The longest time that an argument may give, in seconds: about thirty years."""
LATEST: Final = 10**15
"""The latest time that a timer may return, in seconds."""
MOST_NAMES: Final = 10_000
"""The most names that one argument may hold."""
_PLAIN: Final = frozenset("\n\r\t\u200c\u200d\u200e\u200f")
"""Control and format characters of ordinary text: line breaks, tabs, joiners, direction marks."""
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2065\u2800\u3164\uffa0")
"""Invisible characters of other Unicode categories."""

SHORT: Final = 6
"""The most letters of the name of a property that is one letter away from other usual names."""
_WORDS: Final = {True: ("method", "called", "calls"), False: ("property", "read", "reads")}
"""The words of the warning of a misspelled member: True for a method."""


def came(value: object) -> str:
    """A value as an error message shows it: short, and without calling the value's own code."""
    if value is None or type(value) is bool or type(value) is float:
        return repr(value)
    if type(value) is int:
        return str(value) if abs(value) < 10**20 else f"a number of {value.bit_length()} bits"
    return shown(value)


def whole(value: Any, name: str, least: int, most: int | None = None) -> int:
    """Check a whole number in a range; a boolean is not a number here.

    Raises:
        InvalidValue: The value is not a whole number, or out of range.
    """
    top = values.INT_MAX if most is None else most
    kind = type(value)
    number: int | None = value if kind is int else None
    if number is None and kind is not bool and issubclass(kind, int):
        number = int.__int__(value)
    if number is None or not least <= number <= top:
        wanted = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise InvalidValue(name, f"is {came(value)}; use a whole number {wanted}")
    return number


def whole_or_none(value: Any, name: str, least: int) -> int | None:
    """Check a whole number of at least ``least``, or None for no limit.

    Raises:
        InvalidValue: The value is neither.
    """
    if value is None:
        return None
    try:
        return whole(value, name, least)
    except InvalidValue as wrong:
        raise InvalidValue(name, f"{wrong.reason}, or None") from None


def seconds(value: Any, name: str, least: float = 0.0, *, zero: bool = True) -> float:
    """Check a finite time in seconds; return it as a float.

    Args:
        zero: True if 0 is allowed.

    Raises:
        InvalidValue: The value is not a number, not finite, or out of range.
    """
    kind = type(value)
    if kind is not float and kind is not int and kind is not bool:
        # The methods of a subclass are the caller's code.
        if issubclass(kind, int):
            value = int.__int__(value)
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
    """Check a boolean.

    Raises:
        InvalidValue: The value is not True or False.
    """
    if not isinstance(value, bool):
        raise InvalidValue(name, f"is {came(value)}; use True or False")
    return value


def text(value: Any, name: str, *, empty: bool = True, remedy: str = "") -> str:
    """Check text that may be stored.

    Args:
        remedy: Advice for the message: the value to pass instead of an empty text.

    Raises:
        InvalidValue: The value is not a string, is empty although it must not be, or cannot be
            stored.
    """
    kind = type(value)
    if kind is str and (value or empty) and value.isascii() and "\0" not in value:
        return cast(str, value)  # Most texts, in a third of the time.
    if not issubclass(kind, str):
        raise InvalidValue(name, f"must be a string, not {kind.__name__}")
    checked: str = str.__str__(value)
    if not checked and not empty:
        raise InvalidValue(name, f"must not be empty{remedy and '; '}{remedy}")
    values.check_text(checked, name)
    return checked


def prose(value: Any, name: str) -> str:
    """Check text of several lines for a model or a person: it has no invisible characters.

    Zero-width joiners, direction marks and variation selectors are allowed, because some scripts
    and emoji need them.

    Raises:
        InvalidValue: It is not such text; the message names the first bad character.
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
    """Check that the value can be called.

    Raises:
        InvalidValue: The value cannot be called.
    """
    if not callable(value):
        raise InvalidValue(name, f"is {came(value)}; pass a function")
    return value


def predicate(value: Any, name: str) -> Any:
    """Check that the value can be called and is not a coroutine function.

    Raises:
        InvalidValue: It cannot be called, or it is an ``async def``, whose result is always true.
    """
    checked = function(value, name)
    if iscoroutinefunction(checked) or iscoroutinefunction(vars(type(checked)).get("__call__")):
        raise InvalidValue(name, "is an async function; pass a plain one that returns a boolean")
    return checked


def choice(value: Any, name: str, known: Sequence[str]) -> str:
    """Check that the value is one of the known words.

    Raises:
        InvalidValue: The value is not one of them.
    """
    if not issubclass(type(value), str) or str.__str__(value) not in known:
        raise InvalidValue(name, f"is {came(value)}; use {', '.join(known)}")
    return str.__str__(value)


def instance(value: Any, name: str, kind: type[T]) -> T:
    """Check that the value is an object of a class.

    Raises:
        InvalidValue: The value is of another class.
    """
    if type(value) is not kind and not issubclass(type(value), kind):
        raise InvalidValue(name, f"is {came(value)}; give a {kind.__name__}")
    checked: T = value  # `cast` would be one more call, in the check that is made most often.
    return checked


def several(value: Any, name: str, noun: str, most: int = MOST_NAMES) -> list[Any]:
    """The items of an iterable; at most ``most`` + 1 items are read.

    Args:
        noun: The items' name in the plural, for the message.

    Raises:
        InvalidValue: The value is a text, a mapping or not iterable, has more than ``most`` items,
            or raises.
    """
    kind = type(value)
    if issubclass(kind, (str, bytes, Mapping, type)) or not isinstance(value, Iterable):
        raise InvalidValue(name, f"is {came(value)}; give a list of up to {most:,} {noun}")
    return _read(value, name, noun, most)


def entries(value: Any, name: str, most: int = MOST_NAMES) -> list[tuple[Any, Any]]:
    """The keys and values of a mapping; at most ``most`` + 1 of them are read.

    Raises:
        InvalidValue: The value is not a mapping, has more than ``most`` keys, or raises.
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
    """Check a collection of texts that may be stored; return each text once.

    Raises:
        InvalidValue: The value is not such a collection, or holds over `MOST_NAMES` texts.
    """
    found = several(value, name, "texts")
    return frozenset(text(each, f"{name}[{index}]") for index, each in enumerate(found))


def ids(value: Any, name: str) -> Iterable[Any]:
    """Check that a value is an iterable of ids, and no text; the ids are not looked at.

    Raises:
        InvalidValue: The value is a text, or not iterable.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise InvalidValue(name, f"must be a collection of ids, not {type(value).__name__}")
    return value


def kinds(value: Any, name: str) -> frozenset[str] | None:
    """Check a collection of runtime kinds; None stands for every kind.

    Raises:
        InvalidValue: The value is not a collection, or one item is not a runtime kind.
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
    """Check statuses of a Task; each may also be given by its value.

    Raises:
        InvalidValue: One of them is not a status.
    """
    return tuple(one_status(status, name) for status in value)


def one_status(value: Any, name: str) -> TaskStatus:
    """Check a status of a Task; it may also be given by its value.

    Raises:
        InvalidValue: The value is not a status.
    """
    known = tuple(TaskStatus)
    if not issubclass(type(value), str) or str.__str__(value) not in known:
        raise InvalidValue(name, f"{came(value)} is none of {', '.join(known)}")
    return TaskStatus(str.__str__(value))


def cursor(value: Any, name: str) -> EventId | None:
    """Check a cursor: the id of the last event that was read, or None for the beginning.

    Raises:
        InvalidValue: The value is not a pair of whole numbers.
    """
    if value is None:
        return None
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise InvalidValue(
            name,
            f"is {came(value)}; use the id of an event, as EventId.parse('3.1') gives it, or None",
        )
    return EventId(whole(value[0], f"{name}[0]", 0), whole(value[1], f"{name}[1]", -1))


def part(value: Any, name: str, port: type[Any]) -> Any:
    """Check that an object has the methods and properties of a port.

    Raises:
        InvalidValue: The value is a class, or lacks a method; the message names it.
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
    """Check an object as `part` does; None passes too.

    Raises:
        InvalidValue: The value is neither None nor such an object.
    """
    return None if value is None else part(value, name, port)


def optional(value: Any, name: str, port: type[Any]) -> Any:
    """The object if it also has the methods of an optional port; else None.

    If one of its members is one typing error away from the port's, the log warns of it.
    """
    members = _members(cast(Hashable, port))
    if all(_has(value, each, getattr(port, each)) for each in members):
        return value
    warn_of_misspelled(value, name, port)
    return None


def warn_of_misspelled(value: Any, name: str, port: type[Any]) -> None:
    """Log, once for its class, each member that is one typing error away from one of a port's."""
    kind = cast(Hashable, type(value))
    _warn_of_class(kind, name, cast(Hashable, port))
    for each, given in getattr(value, "__dict__", {}).items():
        _warn_of_member(kind, each, callable(given), name, cast(Hashable, port))


@lru_cache(1024)
def _warn_of_class(kind: Any, name: str, port: Any) -> None:
    for each in dir(kind):
        # A descriptor of the class may run any code, so it is looked up without a call of it.
        given = getattr_static(kind, each, None)
        is_method = callable(given) or isinstance(given, (staticmethod, classmethod))
        _warn_of_member(kind, each, is_method, name, port)


@lru_cache(1024)
def _warn_of_member(kind: Any, each: str, is_method: bool, name: str, port: Any) -> None:
    meant = _meant(each, is_method, port)
    if meant is not None:
        noun, done, does = _WORDS[is_method]
        _log.warning(
            "%s: the %s %s.%s is never %s; %s %s %s. Rename it, and name %s as a base class to "
            "have a type checker see it",
            name, noun, kind.__name__, each, done, port.__name__, does, meant, port.__name__,
        )  # fmt: skip


def _meant(name: str, is_method: bool, port: Any) -> str | None:
    """The method or property of a port from which one typing error separates a name; else None.

    The name of a short property must have the same letters: ``meter`` is no misspelled ``meters``.
    """
    members = _members(port)
    if name in members or (not is_method and name.startswith("_")):  # As in `self._model`.
        return None
    near = [
        each
        for each in members
        if _almost(name, each) and is_method is not isinstance(getattr(port, each), property)
    ]
    if is_method:
        return next(iter(near), None)
    return next((e for e in near if len(e) > SHORT or sorted(e) == sorted(name)), None)


def _almost(name: str, meant: str) -> bool:
    """True if one typing error separates the names: a letter more, less, other, or two swapped.

    A name that lacks no more than three letters at the end counts too.
    """
    if name != meant and meant.startswith(name) and len(meant) - len(name) <= 3:
        return True
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
    """Wrap a clock so that each moment it returns is checked; call it once now.

    Raises:
        InvalidValue: The value cannot be called, or does not return an aware moment.
    """
    if not callable(value):
        raise InvalidValue(name, f"is {came(value)}; pass a function that returns the time")

    def checked() -> datetime:
        return moments.aware(f"{name}()", value())

    moments.aware(f"{name}()", _tried(value, name))
    return checked


def timer(value: Any, name: str) -> Callable[[], float]:
    """Check a function that returns seconds; call it once now.

    Raises:
        InvalidValue: The value cannot be called, or does not return a number up to `LATEST`.
    """
    seconds = _tried(function(value, name), name)
    if type(seconds) not in (int, float) or not abs(seconds) <= LATEST:  # NaN is in no range.
        raise InvalidValue(
            f"{name}()", f"is {came(seconds)}; return a number of seconds up to {LATEST:,}"
        )
    return cast("Callable[[], float]", value)


def _tried(value: Callable[[], Any], name: str) -> Any:
    try:
        return value()
    except Exception as fault:
        raise InvalidValue(
            name,
            f"cannot be called, because of a {type(fault).__name__}; pass a function that needs no "
            "arguments",
        ) from fault
