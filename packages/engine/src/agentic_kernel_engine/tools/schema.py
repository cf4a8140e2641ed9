"""Schemas: checks that a value fits a JSON Schema.

A schema is data from outside. It is never executed, and no reference in it is fetched. The cost of
a check is bounded: by the schema's size, by its patterns, which run in linear time (so lookaround
and back references are refused), and by the number of references that are followed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol
from urllib.parse import unquote

from agentic_kernel import InvalidValue
from agentic_kernel.frozen import shown

from ..values import check, decode, encode, mapping
from .mismatch import MAX_MESSAGE, Mismatch, path_of

MAX_BYTES: Final = 256 * 1024
"""The longest schema, as JSON text in bytes."""
MAX_PATTERN: Final = 64 * 1024
"""The largest compiled pattern, in bytes of the regex engine's program."""
MAX_REFERENCES: Final = 4_096
"""The most references followed from the root; each counts as often as it is met."""
MAX_CHAIN: Final = 128
"""The longest chain of references that lead from one to the next."""

_HINT: Final = "; lookaround, back references and large repetitions are not supported"

Fit = Callable[[Any], str | None]
"""Returns None if a value fits; else a message: what does not fit, where, what is expected."""


class Validator(Protocol):
    """Makes checks from schemas; `compile_schema` is the one that comes with the engine.

    A check gets only values that `values.check` has accepted. It is used in several threads and
    Tasks, and should not raise. If it raises, the call of the tool fails; the check of a final
    answer ends the run.
    """

    def __call__(self, schema: Mapping[str, Any]) -> Fit:
        """The check of one schema.

        Raises:
            InvalidValue: It is not a schema, or not an accepted one.
        """
        ...


def compile_schema(schema: Mapping[str, Any], *, checked: bool = False) -> Fit:
    """The check of one schema: draft 2020-12, or another one that its ``$schema`` names.

    A value that may not be stored fits no schema. A reference must lead into the schema itself
    (``#``, ``#/…``).

    Args:
        checked: True if the caller passes only values that `values.check` has accepted; another
            value that is deep enough would end the process.

    Raises:
        InvalidValue: It is not a JSON Schema, refers to something outside of itself, has a pattern
            that cannot run in linear time, or is too deep or too large.
    """
    text = encode(mapping(schema, "schema"), "schema")
    if len(text) > MAX_BYTES:
        raise InvalidValue("schema", f"is {len(text):,} bytes of JSON; use up to {MAX_BYTES:,}")
    plain = decode(text)
    _References(plain).check()
    # Imported here, because most programs that import the engine never compile a schema.
    import jsonschema_rs

    options: dict[str, Any] = {
        "offline": True,
        "mask": "value",
        "pattern_options": jsonschema_rs.RegexOptions(
            size_limit=MAX_PATTERN, dfa_size_limit=MAX_PATTERN
        ),
    }
    try:
        is_valid = jsonschema_rs.validator_for(plain, **options).is_valid
    except jsonschema_rs.ValidationError as error:
        raise InvalidValue(
            path_of("schema", error.instance_path),
            f"is not accepted: {error.message[:500]}{_HINT if 'regex' in error.message else ''}",
        ) from None
    except ValueError as error:
        raise InvalidValue("schema", f"is not accepted: {str(error)[:500]}") from None
    mismatch = Mismatch(plain, options)
    if checked:
        return lambda value: None if is_valid(value) else mismatch.describe(value)

    def fit(value: Any) -> str | None:
        try:
            check(value, "")  # Bounds the depth, too: deep recursion would end the process.
        except InvalidValue as error:
            return str(error).removeprefix(": ")[:MAX_MESSAGE]
        return None if is_valid(value) else mismatch.describe(value)

    return fit


# A keyword decides how its parts are read: as names with a schema each, or as plain data.
_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
_APART: Final = frozenset({"$defs", "definitions", "const", "enum", "default", "examples"})
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


class _References:
    """The references of a schema, followed before the schema is compiled.

    If references fan out and meet again, every validator follows them once per path: thirty lines
    of schema make a billion checks.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._counts: dict[str, int] = {}
        self._base = "id" if "draft-04" in str(schema.get("$schema")) else "$id"

    def check(self) -> None:
        """Refuse references that lead outside, lead nowhere, or multiply too much."""
        if self._count("#", 0) > MAX_REFERENCES:
            raise InvalidValue(
                "schema", f"multiplies its references to over {MAX_REFERENCES:,}; simplify it"
            )

    def _count(self, pointer: str, depth: int) -> int:
        """Number of references followed from here; one that leads back counts as one."""
        if pointer in self._counts:
            return self._counts[pointer]
        if depth > MAX_CHAIN:
            raise InvalidValue("schema", f"chains over {MAX_CHAIN} references; simplify it")
        self._counts[pointer] = 0
        total = 0
        for target in self._targets(pointer):
            total += 1 + self._count(target, depth + 1)
        self._counts[pointer] = total
        return total

    def _targets(self, pointer: str) -> list[str]:
        """The references that apply whenever the part at a pointer applies."""
        start = self._resolve(pointer)
        found: list[str] = []
        stack: list[tuple[Any, bool]] = [(start, False)]
        while stack:
            part, named = stack.pop()
            if isinstance(part, list):
                stack += [(item, False) for item in part]
            elif not isinstance(part, dict):
                continue
            elif named:
                stack += [(item, False) for item in part.values()]
            else:
                if part is not self._schema:
                    self._refuse_base(part)
                found += [part[key] for key in _REFERENCES if isinstance(part.get(key), str)]
                stack += [(item, key in _NAMED) for key, item in part.items() if key not in _APART]
        return found

    def _resolve(self, reference: str) -> Any:
        if reference != "#" and not reference.startswith("#/"):
            raise InvalidValue(
                "schema",
                f"refers to {shown(reference)}; nothing is fetched, so put it under $defs "
                "and refer to it as #/$defs/…",
            )
        part: Any = self._schema
        for step in unquote(reference).split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(part, dict) and key in part:
                part = part[key]
            elif isinstance(part, list) and key.isdecimal() and int(key) < len(part):
                part = part[int(key)]
            else:
                raise InvalidValue("schema", f"refers to {shown(reference)}: nothing is there")
            self._refuse_base(part)
        return part

    def _refuse_base(self, part: Any) -> None:
        """Refuse a part with an id of its own, which changes the meaning of its references."""
        if isinstance(part, dict) and isinstance(part.get(self._base), str):
            raise InvalidValue("schema", f"has a part with an {self._base} of its own; remove it")
