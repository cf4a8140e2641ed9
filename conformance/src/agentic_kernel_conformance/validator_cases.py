"""Cases: schemas of draft 2020-12, each with values that fit it and values that do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

OBJECT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "count": {"type": "integer", "default": 3}},
    "required": ["text"],
    "additionalProperties": False,
}
"""A schema as a typed function has one."""


@dataclass(frozen=True, slots=True)
class Case:
    """A schema, with values on both sides of it."""

    schema: Mapping[str, Any]
    fits: tuple[Any, ...]
    misfits: tuple[Any, ...]


CASES: Final[dict[str, Case]] = {
    "an object": Case(
        OBJECT,
        ({"text": ""}, {"text": "a", "count": 0}),
        ({}, {"text": None}, {"text": 7}, {"text": "a", "more": 1}, {"count": 1}, [], "text", None),
    ),
    "an integer": Case(
        {"type": "integer"}, (0, -7, 1.0, (1 << 63) - 1), (True, False, 0.5, "1", None, [1])
    ),
    "a number": Case({"type": "number"}, (0, 0.5, -1e300), (True, "0.5", None, {})),
    "a boolean": Case({"type": "boolean"}, (True, False), (0, 1, "true", None)),
    "null": Case({"type": "null"}, (None,), (0, "", False, [], {})),
    "one of several types": Case({"type": ["string", "null"]}, ("a", None), (1, [], {}, False)),
    "an enumeration": Case({"enum": ["a", 1, None]}, ("a", 1, 1.0, None), ("b", True, "1", 0, [])),
    "a constant": Case({"const": False}, (False,), (0, None, "", True)),
    "a structured constant": Case(
        {"const": {"a": [1, 2]}}, ({"a": [1, 2]},), ({"a": [2, 1]}, {"a": [1, 2], "b": 1}, {})
    ),
    "bounds": Case(
        {"type": "integer", "minimum": 1, "exclusiveMaximum": 5}, (1, 4), (0, 5, -1, 100)
    ),
    "multiples": Case({"type": "number", "multipleOf": 0.5}, (0, 1.5, -2), (0.3, 1.25)),
    "lengths": Case(
        {"type": "string", "minLength": 2, "maxLength": 3},
        ("ab", "abc", "👋👋"),
        ("", "a", "👋", "abcd"),
    ),
    "a pattern": Case(
        {"type": "string", "pattern": "[0-9]{2}$"}, ("12", "no 42"), ("1", "12a", "", "1 2")
    ),
    "items": Case(
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
        ([1], [1, 2, 3]),
        ([], ["a"], [1, "a"], [1, 2, 3, 4], {"0": 1}, None),
    ),
    "a tuple": Case(
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
        (["a", 1], ["a"], []),
        ([1, "a"], ["a", "b"], ["a", 1, 2]),
    ),
    "distinct items": Case(
        {"type": "array", "uniqueItems": True},
        ([1, 2], [1, True], [0, False], [{"a": 1}, {"a": 2}], ["a", "A"]),
        ([1, 1], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], [1, 1.0], [None, None]),
    ),
    "an item among others": Case(
        {"type": "array", "contains": {"const": "x"}}, (["x"], [1, "x"]), ([], [1], ["X"])
    ),
    "names by pattern": Case(
        {
            "type": "object",
            "patternProperties": {"^n_": {"type": "integer"}},
            "additionalProperties": {"type": "string"},
        },
        ({"n_a": 1, "b": "text"}, {}),
        ({"n_a": "1"}, {"b": 1}),
    ),
    "names of properties": Case(
        {"type": "object", "propertyNames": {"maxLength": 2}, "minProperties": 1},
        ({"a": 1}, {"ab": 1}),
        ({}, {"abc": 1}),
    ),
    "properties that need others": Case(
        {"type": "object", "dependentRequired": {"card": ["address"]}},
        ({}, {"card": 1, "address": 2}, {"address": 2}),
        ({"card": 1},),
    ),
    "any of several": Case(
        {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 3}]},
        ("a", 3),
        (2, None, [], 0.5),
    ),
    "exactly one": Case(
        {"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}], "type": "integer"},
        (2, 3, 9),
        (6, 1, 12, "2"),
    ),
    "all of several": Case(
        {"allOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
        ({"a": 1, "b": 2},),
        ({"a": 1}, {"b": 2}, {}),
    ),
    "not": Case({"type": "string", "not": {"enum": ["root"]}}, ("ann", "Root"), ("root", 1)),
    "if and then": Case(
        {
            "type": "object",
            "if": {"properties": {"kind": {"const": "card"}}, "required": ["kind"]},
            "then": {"required": ["number"]},
            "else": {"required": ["iban"]},
        },
        ({"kind": "card", "number": 1}, {"iban": 1}),
        ({"kind": "card"}, {"kind": "cash"}, {}),
    ),
    "a reference": Case(
        {
            "type": "object",
            "properties": {"start": {"$ref": "#/$defs/point"}},
            "required": ["start"],
            "$defs": {"point": {"type": "object", "required": ["x"]}},
        },
        ({"start": {"x": 1}},),
        ({"start": {}}, {"start": 1}, {}),
    ),
    "a reference to itself": Case(
        {
            "type": "object",
            "properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}},
            "required": ["n"],
        },
        ({"n": 1}, {"n": 1, "next": {"n": 2, "next": {"n": 3}}}),
        ({"n": 1, "next": {}}, {"n": 1, "next": {"n": 2, "next": {"n": "3"}}}),
    ),
    "what no part evaluated": Case(
        {
            "type": "object",
            "allOf": [{"properties": {"a": {"type": "integer"}}}],
            "unevaluatedProperties": False,
        },
        ({"a": 1}, {}),
        ({"a": 1, "b": 2}, {"a": "x"}),
    ),
    "deep inside": Case(
        {
            "type": "object",
            "properties": {
                "rows": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"n": {"type": "integer"}}},
                }
            },
        },
        ({"rows": [{"n": 1}, {}]}, {}),
        ({"rows": [{"n": 1}, {"n": "2"}]}, {"rows": {"n": 1}}, {"rows": [[]]}),
    ),
    "an escaped name": Case(
        {"type": "object", "properties": {"a/b~c": {"type": "null"}, "": {"type": "integer"}}},
        ({"a/b~c": None, "": 1}, {}),
        ({"a/b~c": 1}, {"": None}),
    ),
    "nothing": Case({"not": {}}, (), (None, 0, "", [], {}, False)),
}
"""Values of which Python finds many equal that JSON Schema does not: ``True == 1``."""

NO_SCHEMAS: Final[dict[str, Any]] = {
    "None": None,
    "a text": "object",
    "a number": 7,
    "a list": [{"type": "object"}],
    "a type that there is not": {"type": "objekt"},
    "a type that is no text": {"type": 7},
    "properties that are a list": {"type": "object", "properties": ["a"]},
    "a property that is no schema": {"type": "object", "properties": {"a": "string"}},
    "required that is a text": {"type": "object", "required": "a"},
    "a reference to nothing": {"type": "object", "properties": {"a": {"$ref": "#/$defs/gone"}}},
    "a pattern that is none": {"type": "string", "pattern": "("},
    "a length below zero": {"type": "string", "maxLength": -1},
}
"""Values of which no check can be made."""
