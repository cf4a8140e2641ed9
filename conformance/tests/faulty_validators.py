"""Validators, each with one mistake that a real author might make."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from agentic_kernel import InvalidValue
from agentic_kernel_engine.seams import compile_schema

Fit = Callable[[Any], str | None]


class _Validator:
    def __call__(self, schema: Mapping[str, Any]) -> Fit:
        return compile_schema(schema)


class TruthyOnly(_Validator):
    """The empty text means that a value fits."""

    def __call__(self, schema: Mapping[str, Any]) -> Fit:
        fits = compile_schema(schema)
        return lambda value: fits(value) or ""


class PythonsTypes(_Validator):
    """A value of Python's own types, by `isinstance`: True is an integer."""

    def __call__(self, schema: Mapping[str, Any]) -> Fit:
        fits = compile_schema(schema)
        if schema.get("type") == "integer":
            return lambda v: None if isinstance(v, int) else "is no integer"
        return fits


class Coerces(_Validator):
    """A text that reads as a number is taken for one."""

    def __call__(self, schema: Mapping[str, Any]) -> Fit:
        fits = compile_schema(schema)

        def fit(value: Any) -> str | None:
            if isinstance(value, str) and value.isdecimal():
                return fits(int(value)) and fits(value)
            return fits(value)

        return fit


class FillsIn(_Validator):
    """Defaults are filled into the value."""

    def __call__(self, schema: Mapping[str, Any]) -> Fit:
        fits = compile_schema(schema)

        def fit(value: Any) -> str | None:
            if isinstance(value, dict):
                for name, part in schema.get("properties", {}).items():
                    if "default" in part:
                        value.setdefault(name, part["default"])
            return fits(value)

        return fit


class TheSameSchema(_Validator):
    """The schema is compiled at each check, from the caller's own object."""

    def __call__(self, schema: Mapping[str, Any]) -> Fit:
        compile_schema(schema)
        return lambda value: compile_schema(schema)(value)


class Lazily(_Validator):
    """A schema is looked at when the first value is checked."""

    def __call__(self, schema: Mapping[str, Any]) -> Fit:
        return lambda value: compile_schema(schema)(value)


class RaisesAlways(_Validator):
    """A value that does not fit is an exception, as its library does it."""

    def __call__(self, schema: Mapping[str, Any]) -> Fit:
        fits = compile_schema(schema)

        def fit(value: Any) -> None:
            if (problem := fits(value)) is not None:
                raise ValueError(problem)

        return fit


class QuotesTheValue(_Validator):
    """The message has the whole value."""

    def __call__(self, schema: Mapping[str, Any]) -> Fit:
        fits = compile_schema(schema)
        return lambda value: fits(value) and f"{json.dumps(value)} does not fit"


class SaysInvalid(_Validator):
    """The message is always the same."""

    def __call__(self, schema: Mapping[str, Any]) -> Fit:
        fits = compile_schema(schema)
        return lambda value: None if fits(value) is None else "the value is invalid"


class ByType(_Validator):
    """Checks are kept by the schema's type, and given again."""

    def __init__(self) -> None:
        self.known: dict[str, Fit] = {}

    def __call__(self, schema: Mapping[str, Any]) -> Fit:
        made = compile_schema(schema)
        return self.known.setdefault(str(schema.get("type")), made)


class TheLastValue(_Validator):
    """The value is kept while it is checked, for one thread at a time."""

    value: Any = None

    def __call__(self, schema: Mapping[str, Any]) -> Fit:
        fits = compile_schema(schema)

        def fit(value: Any) -> str | None:
            self.value = value
            time.sleep(0)
            return fits(self.value)

        return fit


class TopLevel(_Validator):
    """Only the first level is checked."""

    def __call__(self, schema: Mapping[str, Any]) -> Fit:
        compile_schema(schema)
        kinds = {"object": dict, "array": list, "string": str}
        wanted = kinds.get(str(schema.get("type")), object)
        return lambda value: None if isinstance(value, wanted) else "is of another type"


class SwallowsErrors(_Validator):
    """A schema that cannot be compiled is fulfilled by every value."""

    def __call__(self, schema: Mapping[str, Any]) -> Fit:
        try:
            return compile_schema(schema)
        except InvalidValue:
            return lambda value: None
