"""Schemas: a JSON Schema in the form that llama.cpp turns into a grammar, or a refusal.

llama.cpp refuses boolean schemas and references to other documents, and ignores ``prefixItems``
beside ``items``. Limits that no value fits make it fail in the middle of an answer, or hang.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from agentic_kernel import InvalidValue

_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
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
    if schema is True:
        return {}
    if not isinstance(schema, Mapping):
        raise InvalidValue(place, "is a schema that no value fits; remove it")
    made = dict(schema)
    _check(made, place)
    if "prefixItems" in made or made.get("items") is False:
        _close(made, place)
    for key in _MAPS:
        if isinstance(made.get(key), Mapping):
            made[key] = {
                name: fitted(each, f"{place}/{key}/{name}") for name, each in made[key].items()
            }
    for key in _LISTS:
        if isinstance(made.get(key), list | tuple):
            made[key] = [
                fitted(each, f"{place}/{key}/{index}") for index, each in enumerate(made[key])
            ]
    for key in _ONES:
        if key == "items" and made.get(key) is True:
            made[key] = {}
        elif isinstance(made.get(key), Mapping):
            made[key] = fitted(made[key], f"{place}/{key}")
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


def _check(made: Mapping[str, Any], place: str) -> None:
    """Refuse what no value fits, and references that llama.cpp does not follow."""
    reference = made.get("$ref")
    if isinstance(reference, str) and not reference.startswith("#"):
        raise InvalidValue(
            f"{place}/$ref", "leads to another document; copy that schema into $defs"
        )
    for key in ("enum", "anyOf", "oneOf"):
        if key in made and not made[key]:
            raise InvalidValue(f"{place}/{key}", "is empty, so no value fits; remove it")
    for low, high in _BOUNDS:
        least, most = made.get(low), made.get(high)
        if _number(least) and _number(most) and least > most:
            raise InvalidValue(
                place, f"has {low} {least} and {high} {most}, so no value fits; change one of them"
            )
    least, most = _range(made)
    if least > most:
        raise InvalidValue(
            place, "has a minimum that is above its maximum, so no value fits; change one of them"
        )


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
