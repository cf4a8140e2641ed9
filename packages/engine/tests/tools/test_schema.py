"""JSON Schemas from outside: what fits, what is refused, and that none costs more than it may."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema_rs
import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.tools.schema import (
    MAX_BYTES,
    MAX_REFERENCES,
    compile_schema,
)

BOUND = 5.0
"""Seconds of the processor for each hostile schema; it takes milliseconds, and without a bound it
never ends."""


def nested(depth: int, key: str = "a", leaf: Any = None) -> Any:
    value: Any = {} if leaf is None else leaf
    for _ in range(depth):
        value = {key: value}
    return value


def doubled(levels: int, keyword: str = "allOf") -> dict[str, Any]:
    """References that double at each level, and lead back to the root below a key."""
    parts: dict[str, Any] = {"x0": {"type": "object", "properties": {"a": {"$ref": "#"}}}}
    for level in range(1, levels + 1):
        parts[f"x{level}"] = {keyword: [{"$ref": f"#/$defs/x{level - 1}"}] * 2}
    return {"$ref": f"#/$defs/x{levels}", "$defs": parts}


@pytest.fixture
def in_time() -> Iterator[None]:
    begun = time.process_time()
    yield
    assert time.process_time() - begun < BOUND


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "age": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"enum": ["x", "y"]}},
        "pair": {"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
        "a/b ~%é": {"$ref": "#/$defs/tree%20node"},
        "extra": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "either": {"oneOf": [{"type": "string"}, {"title": "Deep", "type": "array"}]},
        "all": {"allOf": [{"minimum": 1}, {"maximum": 3}]},
        "overlap": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        "never": False,
        "coded": {"patternProperties": {"^k": {"type": "integer"}}},
    },
    "required": ["name"],
    "additionalProperties": False,
    "$defs": {
        "tree node": {"type": "object", "properties": {"kid": {"$ref": "#/$defs/tree%20node"}}}
    },
}

FITS = [
    {"name": "Ann"},
    {"name": "Ann", "age": None, "tags": ["x"], "pair": ["a", 1], "all": 2, "extra": {"k": True}},
    {"name": "Ann", "a/b ~%é": {"kid": {"kid": {}}}, "either": [], "coded": {"k": 1, "z": ""}},
]

MISFITS = [
    (3, 'is not of type "object"'),
    ({}, '"name" is a required property'),
    ({"name": 3}, "['name']: is not of type \"string\""),
    ({"name": "Annabel"}, "['name']: is longer than 5 characters"),
    ({"name": "Ann", "age": -1}, "['age']: is less than the minimum of 0"),
    ({"name": "Ann", "age": "old"}, "['age']: must fit one of: integer, null"),
    ({"name": "Ann", "tags": ["x", "z"]}, '[\'tags\'][1]: is not one of "x" or "y"'),
    ({"name": "Ann", "pair": ["a", "b"]}, "['pair'][1]: is not of type \"integer\""),
    ({"name": "Ann", "pair": ["a", 1, 2]}, "['pair'][2]: is not allowed here"),
    ({"name": "Ann", "a/b ~%é": {"kid": {"kid": 3}}}, "['kid']['kid']: is not of type \"object\""),
    ({"name": "Ann", "extra": {"k": 1}}, "['extra']['k']: is not of type \"boolean\""),
    ({"name": "Ann", "either": 3}, "['either']: must fit exactly one of: string, Deep"),
    ({"name": "Ann", "overlap": 3}, "['overlap']: must fit exactly one of: integer, number"),
    ({"name": "Ann", "all": 4}, "['all']: is greater than the maximum of 3"),
    ({"name": "Ann", "never": 1}, "['never']: is not allowed here"),
    ({"name": "Ann", "coded": {"k": ""}}, "['coded']: does not fit the schema"),
    ({"name": "Ann", "nmae": ""}, "has the unknown property 'nmae'; known are: 'name', 'age'"),
    ({"name": object()}, "['name']: is a object, which is not JSON"),
    ({"name": "\ud800"}, "['name']: holds the lone surrogate"),
    ({"name": float("nan")}, "['name']: is not a finite number"),
    ({"name": 10**5000}, "['name']: is an integer outside 64 bits"),
    ({3: ""}, "has a key of type int"),
]


@pytest.mark.parametrize("value", FITS, ids=range(len(FITS)))
def test_a_value_that_fits_has_nothing_said_about_it(value: Any) -> None:
    assert compile_schema(PERSON)(value) is None


@pytest.mark.parametrize(("value", "words"), MISFITS, ids=range(len(MISFITS)))
def test_what_does_not_fit_is_named_with_its_path_and_what_is_expected(
    value: Any, words: str
) -> None:
    assert words in (compile_schema(PERSON)(value) or "")


class Schemas:
    """Random schemas and values, over keywords that are also names of properties."""

    names = ("a", "type", "$ref", "properties", "items", "required", "a/b", "~", "%25", "$id", "é")
    types = ("string", "integer", "number", "boolean", "null", "object", "array")

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def schema(self) -> dict[str, Any]:
        parts = {"x": self._part(2), "a/b c": self._part(2)}
        return {**self._keywords(0), "$defs": parts}

    def value(self, depth: int = 0) -> Any:
        match self.random.randrange(8 if depth < 3 else 6):
            case 6:
                return [self.value(depth + 1) for _ in range(3)]
            case 7:
                return {self.random.choice(self.names): self.value(depth + 1) for _ in range(3)}
        return self.random.choice([None, True, 3, -1, 2.5, "x", "", "xyz"])

    def _part(self, depth: int) -> Any:
        if depth < 4 and self.random.random() > 0.15:
            return self._keywords(depth)
        there = self.random.choice(["#", "#/$defs/x", "#/$defs/a~1b%20c"])
        kind = self.random.choice(self.types)
        return self.random.choice([True, False, {}, {"type": kind}, {"$ref": there}])

    def _keywords(self, depth: int) -> dict[str, Any]:
        def below() -> Any:
            return self._part(depth + 1)

        def several() -> list[Any]:
            return [below() for _ in range(self.random.randrange(1, 4))]

        def named() -> dict[str, Any]:
            return {self.random.choice(self.names): below() for _ in range(3)}

        makes: dict[str, Callable[[], Any]] = {
            "type": lambda: self.random.sample(self.types, 2),
            "const": lambda: self.value(2),
            "enum": lambda: [self.value(2), self.value(2)],
            "minimum": lambda: 2,
            "pattern": lambda: "^x",
            "required": lambda: [self.random.choice(self.names)],
            "patternProperties": lambda: {"^a": below()},
            **dict.fromkeys(("properties", "dependentSchemas"), named),
            **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), several),
            **dict.fromkeys(("not", "if", "then", "else", "contains", "items"), below),
            **dict.fromkeys(("additionalProperties", "unevaluatedItems", "propertyNames"), below),
        }
        chosen = self.random.sample(sorted(makes), self.random.randrange(1, 4))
        return {keyword: makes[keyword]() for keyword in chosen}


@pytest.mark.parametrize("seed", range(10))
def test_there_are_words_for_every_value_that_does_not_fit_and_for_no_other(seed: int) -> None:
    made = Schemas(seed)
    said = []
    for _ in range(60):
        schema = made.schema()
        fits = compile_schema(schema)
        reference = jsonschema_rs.validator_for(schema, offline=True)
        for value in [made.value() for _ in range(5)]:
            words = fits(value)
            assert (words is None) is reference.is_valid(value), (schema, value)
            assert words != ""
            said.append(words)
    assert said.count(None) > 30
    assert len(set(said)) > 15


REFUSED = {
    "no mapping": ([], "must be a mapping, not list"),
    "unknown type": ({"type": "nonsense"}, "schema['type']: is not accepted"),
    "below": ({"properties": {"a": {"type": 3}}}, "schema['properties']['a']['type']"),
    "no JSON": ({"const": object()}, "schema['const']: is a object"),
    "NaN": ({"const": float("nan")}, "schema['const']: is not a finite number"),
    "surrogate": ({"title": "\ud800"}, "schema['title']: holds the lone surrogate"),
    "integer keys": ({"properties": {3: {}}}, "schema['properties']: has a key of type int"),
    "deep": (nested(5_000, "not"), "is nested deeper than"),
    "very deep": (nested(100_000, "not"), "is nested deeper than"),
    "large": ({"description": "x" * MAX_BYTES}, "bytes of JSON"),
    "http": ({"$ref": "http://192.0.2.1/x"}, "nothing is fetched"),
    "file": ({"properties": {"a": {"$ref": "file:///x"}}}, "nothing is fetched"),
    "relative": ({"items": [{"$ref": "other.json"}]}, "nothing is fetched"),
    "dynamic": ({"$dynamicRef": "http://192.0.2.1/x"}, "nothing is fetched"),
    "anchor": ({"$ref": "#there"}, "nothing is fetched"),
    "meta-schema": ({"$schema": "http://192.0.2.1/x"}, "is not accepted"),
    "apart": ({"$defs": {"a": {"$ref": "http://192.0.2.1/x"}}, "type": "object"}, ""),
    "named like data": ({"properties": {"const": {"$ref": "http://192.0.2.1/x"}}}, "fetched"),
    "nowhere": ({"$ref": "#/$defs/a"}, "nothing is there"),
    "into a list": ({"allOf": [{}], "$ref": "#/allOf/1"}, "nothing is there"),
    "own id": ({"properties": {"a": {"$id": "http://192.0.2.1/"}}}, "an $id of its own"),
    "through an id": (
        {"$ref": "#/$defs/a/$defs/b", "$defs": {"a": {"$id": "urn:a", "$defs": {"b": {}}}}},
        "an $id of its own",
    ),
    "no pattern": ({"pattern": "("}, "schema['pattern']: is not accepted"),
    "lookaround": ({"pattern": "^(?=a)b"}, "lookaround, back references"),
    "back reference": ({"pattern": r"(a)\1"}, "lookaround, back references"),
    "large pattern": ({"pattern": "((a{1,999}){1,999}){1,999}"}, "large repetitions"),
    "doubled": (doubled(30), "multiplies its references"),
    "doubled alternatives": (doubled(30, "anyOf"), "multiplies its references"),
    "chained": (
        {
            "$ref": "#/$defs/x0",
            "$defs": {f"x{i}": {"$ref": f"#/$defs/x{i + 1}"} for i in range(3_000)} | {"x3000": {}},
        },
        "chains over",
    ),
}


@pytest.mark.usefixtures("in_time")
@pytest.mark.parametrize(("schema", "words"), REFUSED.values(), ids=REFUSED)
def test_a_schema_that_is_not_accepted_is_refused_with_the_reason(schema: Any, words: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        compile_schema(schema)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_data_in_a_schema_is_not_taken_for_references() -> None:
    data = {"$ref": "http://192.0.2.1/x"}
    fits = compile_schema({"properties": {"$ref": {"enum": [data], "default": data}}})
    assert fits({"$ref": data}) is None


def test_nothing_is_fetched_not_even_from_a_server_that_would_answer() -> None:
    first: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                first.append(connection.recv(100))

        thread = threading.Thread(target=answer)
        thread.start()
        port = server.getsockname()[1]
        address = f"http://127.0.0.1:{port}/schema.json"
        for schema in (
            {"$ref": address},
            {"$defs": {"a": {"$ref": address}}},
            {"$schema": address},
        ):
            with pytest.raises(InvalidValue):
                compile_schema(schema)
        with socket.create_connection(("127.0.0.1", port)) as ours:
            ours.sendall(b"ours")
        thread.join()
    assert first == [b"ours"]


@pytest.mark.usefixtures("in_time")
@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*)*x", "^(a?){60}a{60}$"]
)
def test_a_pattern_that_backtracks_elsewhere_for_ever_runs_in_linear_time(pattern: str) -> None:
    fits = compile_schema({"pattern": pattern})
    assert "does not match" in (fits("a" * 100_000 + "!") or "")


@pytest.mark.usefixtures("in_time")
@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_references_that_multiply_within_the_bound_cost_little(keyword: str) -> None:
    fits = compile_schema(doubled(10, keyword))
    assert MAX_REFERENCES > 2**11
    for depth in (1, 4, 100):
        assert (fits(nested(depth)) is None) is (keyword != "oneOf")
        assert fits(nested(depth, leaf=3)) is not None


@pytest.mark.usefixtures("in_time")
@pytest.mark.parametrize("size", [5_000, 100_000])
def test_a_deep_value_ends_in_words_and_not_in_the_process(size: int) -> None:
    fits = compile_schema({"type": "object", "properties": {"a": {"$ref": "#"}}})
    assert fits(nested(100)) is None
    assert "is nested deeper than" in (fits(nested(size)) or "")


@pytest.mark.usefixtures("in_time")
def test_large_values_are_not_echoed() -> None:
    fits = compile_schema(
        {"anyOf": [{"properties": {"a": {"const": index}}} for index in range(200)]}
    )
    assert len(fits({"a": "x" * 10_000_000}) or "") <= 500
    closed = compile_schema({"type": "object", "properties": {}, "additionalProperties": False})
    assert (
        closed({"x" * 10_000_000: 1}) == f"has the unknown property '{'x' * 80}'; known are: none"
    )


def test_a_schema_is_copied_and_never_changed() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
    fits = compile_schema(schema)
    schema["properties"]["a"]["type"] = "string"
    assert fits({"a": 1}) is None


def test_the_validator_is_imported_by_the_first_schema_and_not_before() -> None:
    program = (
        "import sys, agentic_kernel_engine.tools.call\n"
        "assert 'jsonschema_rs' not in sys.modules\n"
        "agentic_kernel_engine.tools.schema.compile_schema({})\n"
        "assert 'jsonschema_rs' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
