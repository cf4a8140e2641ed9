"""Schema: the schemas of a final answer and of functions, as the APIs take them.

For a final answer, OpenAI accepts a JSON Schema whose root is an object. It enforces a schema
strictly if the schema uses only a subset of the language. The schema of any other answer goes into
the instructions. The Loop checks the answer, and the arguments of a call, in every case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

NAME: Final = "answer"
"""Name of the answer's schema in a request."""
_STRICT: Final = frozenset(
    "type properties required additionalProperties items enum const anyOf $ref $defs title "
    "description minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems "
    "pattern format".split()
)
"""Keywords of a strict schema: https://developers.openai.com/api/docs/guides/structured-outputs."""
_DEEPEST: Final = 10
"""The most levels of a strict schema."""


def answer_form(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the schema as both APIs take it; None if there is none, or they take no such one."""
    if schema is None or schema.get("type") != "object":
        return None
    return {"name": NAME, "schema": schema, "strict": is_strict(schema)}


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Return True if the APIs can enforce the schema of an answer or of a function's arguments."""
    whole = schema.get("type") == "object" and "anyOf" not in schema
    return whole and _is_strict(schema, _DEEPEST)


def _is_strict(schema: Any, levels: int) -> bool:
    """Return True if the API can enforce the schema strictly."""
    if not isinstance(schema, Mapping) or not schema or levels == 0:
        return False
    if not _STRICT.issuperset(schema):
        return False
    properties = schema.get("properties", {})
    if ("properties" in schema or "object" in schema.get("type", "")) and not (
        schema.get("type") == "object"
        and schema.get("additionalProperties") is False
        and set(schema.get("required", ())) == set(properties)
    ):
        return False
    inner = [*properties.values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    if "items" in schema:
        inner.append(schema["items"])
    return all(_is_strict(each, levels - 1) for each in inner)
