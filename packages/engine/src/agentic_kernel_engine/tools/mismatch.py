"""Mismatch: the message about a value that does not fit a schema.

The validator's own message holds the value and every alternative that was tried, and grows
exponentially with them. This module walks down to the first part that does not fit, and asks the
validator for its message only there. So it costs one walk, for any schema and any value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

from agentic_kernel.frozen import shown

MAX_STEPS: Final = 256
"""The most levels of the schema that are walked down."""
MAX_MESSAGE: Final = 500
"""The longest message, in characters."""
# Keywords that apply another schema to the value, or to parts of it.
_APPLIED: Final = frozenset(
    {
        "$ref", "$dynamicRef", "$recursiveRef", "$defs", "definitions", "allOf", "anyOf", "oneOf",
        "not", "if", "then", "else", "dependentSchemas", "dependencies", "properties",
        "patternProperties", "additionalProperties", "propertyNames", "items", "prefixItems",
        "additionalItems", "contains", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip

_NAMES: Final[dict[type, tuple[str, ...]]] = {
    type(None): ("null",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    str: ("string",),
    dict: ("object",),
    list: ("array",),
    tuple: ("array",),
}
"""The names that JSON Schema has for the type of a value."""

_Place = tuple[str, Any, tuple[str | int, ...]]
"""Pointer to a part of the schema, the part of the value, and how the path goes on to it."""


def path_of(root: str, steps: Sequence[str | int]) -> str:
    """A path for people, e.g. ``arguments['tags'][3]``, of bounded length."""
    parts = [f"[{step}]" if isinstance(step, int) else f"[{shown(step)}]" for step in steps]
    if len(parts) > 12:
        parts = [*parts[:6], f"…({len(parts) - 9} more)…", *parts[-3:]]
    return root + "".join(parts)


class Mismatch:
    """Makes messages about values that do not fit one schema."""

    __slots__ = ("_options", "_parts", "_schema")

    def __init__(self, schema: dict[str, Any], options: Mapping[str, Any]) -> None:
        self._schema = schema
        self._options = options
        self._parts: Any = None
        """Validators of all parts, by pointer; made when the first value does not fit."""

    def describe(self, value: Any) -> str:
        """Say what does not fit, where, and what is expected; the value itself is not quoted."""
        import jsonschema_rs

        if self._parts is None:
            self._parts = jsonschema_rs.validator_map_for(self._schema, **self._options)
        path: list[str | int] = []
        pointer = "#"
        words = "does not fit the schema"
        for _ in range(MAX_STEPS):
            part = self._at(pointer)
            own = self._own(part, value)
            deeper = None if own else self._deeper(pointer, part, value)
            if deeper is None:
                words = own or self._alternatives(pointer, part, value) or words
                break
            pointer, value, steps = deeper
            path += steps
        where = path_of("", path)
        return f"{where}{': ' if where else ''}{words}"[:MAX_MESSAGE]

    def _own(self, part: Any, value: Any) -> str:
        """The message if the value as a whole does not meet a part's demands; "" if it does."""
        import jsonschema_rs

        if not isinstance(part, dict):
            return "is not allowed here"
        known = part.get("properties", {})
        if part.get("additionalProperties") is False and "patternProperties" not in part:
            for key in value if isinstance(value, dict) else ():
                if key not in known:
                    there = ", ".join(shown(name) for name in known) or "none"
                    return f"has the unknown property {shown(key)}; known are: {there}"
        own = {key: each for key, each in part.items() if key not in _APPLIED and key != "$id"}
        if "$schema" in self._schema:
            own["$schema"] = self._schema["$schema"]
        try:
            jsonschema_rs.validator_for(own, **self._options).validate(value)
        except jsonschema_rs.ValidationError as error:
            return error.message.removeprefix("value ")
        return ""

    def _deeper(self, pointer: str, part: dict[str, Any], value: Any) -> _Place | None:
        """The first place below that does not fit; None if there is no single such place."""
        reference = part.get("$ref")
        if isinstance(reference, str) and self._fails(unquote(reference), value):
            return unquote(reference), value, ()
        for index in range(len(part.get("allOf", ()))):
            below = f"{pointer}/allOf/{index}"
            if self._fails(below, value):
                return below, value, ()
        if isinstance(value, dict):
            known = part.get("properties", {})
            for key, item in value.items():
                if key in known:
                    below = f"{pointer}/properties/{_escaped(key)}"
                elif "patternProperties" not in part:
                    below = f"{pointer}/additionalProperties"
                else:
                    continue
                if self._fails(below, item):
                    return below, item, (key,)
        elif isinstance(value, (list, tuple)):
            first = part.get("prefixItems", ())
            for index, item in enumerate(value):
                ahead = index < len(first)
                below = f"{pointer}/prefixItems/{index}" if ahead else f"{pointer}/items"
                if self._fails(below, item):
                    return below, item, (index,)
        for keyword in ("anyOf", "oneOf"):
            # If exactly one alternative has the value's type, it was meant.
            likely = [
                f"{pointer}/{keyword}/{index}"
                for index in range(len(part.get(keyword, ())))
                if self._admits(f"{pointer}/{keyword}/{index}", value)
            ]
            if len(likely) == 1 and self._fails(likely[0], value):
                return likely[0], value, ()
        return None

    def _alternatives(self, pointer: str, part: dict[str, Any], value: Any) -> str:
        """The message if no alternative fits, or too many do; "" otherwise."""
        for keyword, demand in (("anyOf", "must fit one of"), ("oneOf", "must fit exactly one of")):
            some = part.get(keyword, ())
            failing = [self._fails(f"{pointer}/{keyword}/{n}", value) for n in range(len(some))]
            if some and (all(failing) or (keyword == "oneOf" and failing.count(False) > 1)):
                named = [
                    str(each.get("title") or each.get("type") or each.get("$ref") or "a schema")
                    for each in some
                    if isinstance(each, dict)
                ]
                return f"{demand}: {', '.join(name[:60] for name in named)}"
        return ""

    def _fails(self, pointer: str, value: Any) -> bool:
        validator = self._parts.get(pointer)
        return validator is not None and not validator.is_valid(value)

    def _admits(self, pointer: str, value: Any) -> bool:
        """True if an alternative names the value's type, or no type at all."""
        part = self._at(pointer)
        if isinstance(part, dict) and isinstance(part.get("$ref"), str):
            part = self._at(unquote(part["$ref"]))
        types = part.get("type") if isinstance(part, dict) else None
        if types is None:
            return True
        names = _NAMES.get(type(value), ())
        return any(name in names for name in ([types] if isinstance(types, str) else types))

    def _at(self, pointer: str) -> Any:
        """The part at a pointer; every pointer was resolved when the schema was accepted."""
        part: Any = self._schema
        for step in pointer.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            part = part[int(key)] if isinstance(part, list) else part[key]
        return part


def _escaped(key: str) -> str:
    """The key, escaped as a step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
