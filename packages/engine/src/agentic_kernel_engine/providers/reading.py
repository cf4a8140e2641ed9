"""Reading: checked access to the parts of a response, which the SDK does not check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue

from .. import edges, values
from ..plans.plan import LARGEST, Usage
from .answers import Malformed
from .reader import Counted

_BARE: Final = (str, int, float, list)
"""The types of JSON values without named parts; null stands for an object that is missing."""
_CHARGED: Final = ("input_tokens", "output_tokens")
"""The fields of a usage that every server has to report."""


def got(value: Any, name: str) -> Any:
    """Return a part of an object of the SDK, or of a mapping; None if it is missing.

    Raises:
        Malformed: The value is a string, a number, a list, True or False.
    """
    part_of = _access(value.__class__)
    if part_of is None:
        raise Malformed(f"a {type(value).__name__} stands where an object with {name} belongs")
    return part_of(value, name, None)


@lru_cache(maxsize=256)
def _access(kind: type[Any]) -> Callable[[Any, str, None], Any] | None:
    """Return the function that gets a part of a value of this type; None for `_BARE`."""
    if issubclass(kind, _BARE):
        return None
    return kind.get if issubclass(kind, Mapping) else getattr


def text(value: Any, name: str) -> str:
    """Return a part that is a string; an empty string if it is missing.

    Raises:
        Malformed: The part is not a string, or no store accepts it.
    """
    found = got(value, name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise Malformed(f"{name} is a {type(found).__name__}, not a string")
    said = str.__str__(found)  # Of an enum, its value.
    if not said.isascii() or "\0" in said:
        checked(said, name)
    return said


def several(value: Any, name: str) -> Sequence[Any]:
    """Return a part that is a list of objects; an empty one if it is missing.

    Raises:
        Malformed: The part is not a list, or has an element that is not an object.
    """
    found = got(value, name)
    if found is None:
        return ()
    if not isinstance(found, list):
        raise Malformed(f"{name} is a {type(found).__name__}, not a list")
    for each in found:
        if each is None or isinstance(each, _BARE):
            raise Malformed(f"{name} has a {type(each).__name__} where an object belongs")
    return found


def number(value: Any, name: str) -> int | None:
    """Return a part that is a whole number; None if it is missing.

    Raises:
        Malformed: The part is of another type.
    """
    found = got(value, name)
    if found is not None and type(found) is not int:
        raise Malformed(f"{name} is a {type(found).__name__}, not a whole number")
    return found


def count(value: Any, name: str, most: int = LARGEST) -> int:
    """Return a part that is a number, e.g. of tokens; 0 if it is missing.

    Raises:
        Malformed: The part is not a whole number from 0 to ``most``.
    """
    found = got(value, name)
    if found is None:
        return 0
    if type(found) is not int or not 0 <= found <= most:
        raise Malformed(f"{name} is not a whole number from 0 to {most:,}")
    return found


def kind_of(item: Any, needs: Mapping[str, str]) -> str:
    """Return the type of an item of an answer, whose fields that are read later are all there.

    Such a field is read when a person answers the item, or when the item is sent back. The model
    would then have been asked in vain.

    Args:
        item: The item.
        needs: By the end of a type: the names of its fields. The first one that fits counts.

    Raises:
        Malformed: The type or such a field is missing, or is not a string.
    """
    kind = text(item, "type")
    if not kind:
        raise Malformed("an item of the answer has no type")
    for name in next((names for end, names in needs.items() if kind.endswith(end)), "").split():
        if not text(item, name):
            raise Malformed(f"an item of the answer is {kind[:40]!a}, and it has no {name}")
    return kind


def stored(item: Mapping[str, Any], name: str) -> str:
    """Return a text in an item of an earlier answer.

    Raises:
        InvalidValue: The text is missing. Version 0.1 stored such items.
    """
    found = item.get(name)
    if isinstance(found, str) and found:
        return found
    raise InvalidValue(
        "transcript",
        f"has an item {item.get('type')!a:.40} whose {name} is {edges.came(found)}, so the vendor "
        "cannot take its answer; start a new Task",
    )


def says(value: Any, *beside: str) -> bool:
    """Return True if an object of the SDK, or a mapping, has a part that is not None.

    Args:
        value: The object.
        beside: Names of parts that do not count.
    """
    parts = value.items() if isinstance(value, Mapping) else value
    return any(part is not None for name, part in parts if name not in beside)


def checked(value: Any, name: str) -> Any:
    """Return a value that every store accepts.

    Raises:
        Malformed: No store accepts it.
    """
    try:
        values.check(value, name)
    except InvalidValue as error:
        raise Malformed(str(error)) from error
    return value


def plain(value: Any) -> dict[str, Any]:
    """Return the JSON that an object of the SDK was made from, or the parts of a mapping.

    Raises:
        Malformed: It is neither, or no store accepts a value in it.
    """
    if isinstance(value, Mapping):
        made: dict[str, Any] = dict(value)
    elif hasattr(value, "to_dict"):
        made = value.to_dict(mode="json", warnings=False)
    else:
        raise Malformed(f"a part of the answer is {str(value)[:80]!a}, not a JSON object")
    checked(made, "the answer")
    return made


def arguments(value: Any, name: str) -> str:
    """Return a part that holds the arguments of a call, parsed by the SDK, as JSON again.

    Raises:
        Malformed: No store accepts a value in it.
    """
    found = checked(got(value, name), "the arguments of a call")
    return msgspec.json.encode({} if found is None else found).decode()


def counted(usage: Any, names: Mapping[str, str]) -> Counted | None:
    """Return the usage that a server reported; None if it reported none.

    The input or the output is uncounted if the first of its names is missing or null: the other
    names tell only a part of it, e.g. the thoughts or the tokens of a cache. Gemini leaves out the
    count of an output that is empty, e.g. after it blocked a prompt. That cannot be told apart from
    a count that a server does not report, so it counts as uncounted, which is never too low.

    Args:
        usage: The object that has the counts.
        names: By field of `Usage`, and for ``written``: the name of the count; of one in a part of
            the usage, the part, a dot and the name. Several names are added up.

    Raises:
        Malformed: A count is not valid.
    """
    if usage is None:
        return None
    counts = {}
    for field, several_names in names.items():
        counts[field] = 0
        for part, name in _places(several_names):
            counts[field] += count(got(usage, part) if part else usage, name)
    written = counts.pop("written", 0)
    uncounted = [name for name in _CHARGED if got(usage, _places(names[name])[0][1]) is None]
    return Counted(Usage(**counts), written, tuple(uncounted))


@lru_cache(maxsize=256)
def _places(several_names: str) -> tuple[tuple[str, str], ...]:
    """Return the places of several counts, each as the part of the usage and the name there."""
    parts = (each.rpartition(".") for each in several_names.split())
    return tuple((part, name) for part, _, name in parts)
