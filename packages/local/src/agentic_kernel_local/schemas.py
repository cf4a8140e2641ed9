"""Schemas: a JSON Schema in the form that llama.cpp turns into a grammar, or a refusal.

llama.cpp refuses boolean schemas and references to other documents, and ignores ``prefixItems``
beside ``items``. Limits that no value fits make it fail in the middle of an answer, or hang. It
knows no escapes in references, and no long repetitions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeGuard

from agentic_kernel import InvalidValue

MOST_REPEATED: Final = 2_000
"""The largest ``minLength`` and ``minItems`` that llama.cpp takes."""
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_UNIONS: Final = ("anyOf", "oneOf", "allOf")
_ONES: Final = ("items", "additionalProperties")
_BOUNDS: Final = (
    ("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties"),
)  # fmt: skip


def fitted(schema: Any, place: str = "#") -> dict[str, Any]:
    """Return an equal schema that llama.cpp takes, or one whose values all fit the given one.

    Args:
        schema: The JSON Schema.
        place: The schema's place, as a JSON pointer.

    Raises:
        InvalidValue: llama.cpp cannot take a part of it; the error names the place.
    """
    return _fitted(schema, place, schema)


def _fitted(schema: Any, place: str, root: Any) -> dict[str, Any]:
    if schema is True:
        return {}
    if not isinstance(schema, Mapping):
        raise InvalidValue(place, "is a schema that no value fits; remove it")
    made = dict(schema)
    _check(made, place, root)
    if "prefixItems" in made or made.get("items") is False:
        _close(made, place)
    for key in _MAPS:
        if isinstance(made.get(key), Mapping):
            made[key] = {
                name: _fitted(each, f"{place}/{key}/{name}", root)
                for name, each in made[key].items()
            }
    for key in _LISTS:
        if isinstance(made.get(key), list | tuple):
            made[key] = [
                _fitted(each, f"{place}/{key}/{index}", root)
                for index, each in enumerate(made[key])
            ]
    for key in _ONES:
        if key == "items" and made.get(key) is True:
            made[key] = {}
        elif isinstance(made.get(key), Mapping):
            made[key] = _fitted(made[key], f"{place}/{key}", root)
    return made


def _close(made: dict[str, Any], place: str) -> None:
    """Make an array with a schema for each place end after these places."""
    first = list(made.get("prefixItems", ()))
    least, most = made.get("minItems", 0), min(made.get("maxItems", len(first)), len(first))
    if least > most:
        raise InvalidValue(
            place,
            f"wants at least {least} items, and the local model is held to the {most} of "
            "prefixItems; use an array with one schema for all items",
        )
    made.pop("items", None)
    made.pop("prefixItems", None)
    made["maxItems"] = most
    if most:
        made["prefixItems"] = first[:most]


def _check(made: Mapping[str, Any], place: str, root: Any) -> None:
    """Refuse what no value fits, and what llama.cpp does not turn into a grammar."""
    reference = made.get("$ref")
    if isinstance(reference, str):
        _check_reference(reference, f"{place}/$ref", root)
    for key in ("enum", "anyOf", "oneOf"):
        if key in made and not made[key]:
            raise InvalidValue(f"{place}/{key}", "is empty, so no value fits; remove it")
    for low, high in _BOUNDS:
        least, most = made.get(low), made.get(high)
        if _number(least) and _number(most) and least > most:
            raise InvalidValue(
                place, f"has {low} {least} and {high} {most}, so no value fits; change one of them"
            )
    for low in ("minLength", "minItems"):
        least = made.get(low)
        if _number(least) and least > MOST_REPEATED:
            raise InvalidValue(
                f"{place}/{low}",
                f"is {least:,}, and a local model can be held to at most {MOST_REPEATED:,}; "
                "give a smaller one",
            )
    if made.get("type") == "object" and made.get("additionalProperties") is False:
        known = made.get("properties") or {}
        for name in made.get("required") or ():
            if name not in known and not made.get("patternProperties"):
                raise InvalidValue(
                    f"{place}/required",
                    f"names {name!r}, which additionalProperties: false does not allow, so no "
                    "value fits; add it to properties",
                )
    least, most = _range(made)
    if least > most:
        raise InvalidValue(
            place, "has a minimum that is above its maximum, so no value fits; change one of them"
        )


def _check_reference(reference: str, place: str, root: Any) -> None:
    if not reference.startswith("#"):
        raise InvalidValue(place, "leads to another document; copy that schema into $defs")
    if "~" in reference or "%" in reference:
        raise InvalidValue(
            place,
            f"is {reference!r}, and llama.cpp knows no escapes in references; give the definition "
            "a name without /, ~ and %",
        )
    seen: set[str] = set()
    stack = [reference]
    while stack:
        for each in _same(_at(root, stack.pop())):
            if each == reference:
                raise InvalidValue(
                    place,
                    f"is {reference!r}, which leads back to itself; put a property or an item "
                    "between them",
                )
            if each not in seen:
                seen.add(each)
                stack.append(each)


def _at(root: Any, reference: str) -> Any:
    """Return the schema that a reference leads to; None if there is none."""
    part = root
    for name in reference.split("/")[1:]:
        if isinstance(part, Mapping):
            part = part.get(name)
        elif isinstance(part, list | tuple) and name.isdecimal() and int(name) < len(part):
            part = part[int(name)]
        else:
            return None
    return part


def _same(part: Any) -> Iterator[str]:
    """Yield the references that a schema applies to the same value, and not to a part of it."""
    if not isinstance(part, Mapping):
        return
    if isinstance(part.get("$ref"), str):
        yield part["$ref"]
    for key in _UNIONS:
        for each in part.get(key) or ():
            yield from _same(each)


def _range(made: Mapping[str, Any]) -> tuple[float, float]:
    """Return the least and the greatest number; whole numbers if the type is integer."""
    whole = made.get("type") == "integer"
    least: float = -math.inf
    most: float = math.inf
    if _number(low := made.get("minimum")):
        least = math.ceil(low) if whole else low
    if _number(high := made.get("maximum")):
        most = math.floor(high) if whole else high
    if _number(low := made.get("exclusiveMinimum")):
        least = max(least, math.floor(low) + 1 if whole else math.nextafter(low, math.inf))
    if _number(high := made.get("exclusiveMaximum")):
        most = min(most, math.ceil(high) - 1 if whole else math.nextafter(high, -math.inf))
    return least, most


def _number(value: Any) -> TypeGuard[int | float]:
    return type(value) in (int, float) and math.isfinite(value)
