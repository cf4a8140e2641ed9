"""Strict: the schemas that OpenAI's strict mode can enforce, and servers that took over its form.

See https://developers.openai.com/api/docs/guides/structured-outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

_STRICT: Final = frozenset(
    "type properties required additionalProperties items enum const anyOf $ref $defs title "
    "description minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems "
    "pattern format".split()
)
"""Keywords of a strict schema."""
_DEEPEST: Final = 10
"""The most levels of a strict schema."""


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Return True if the schema of an answer, or of a function's arguments, can be enforced."""
    whole = schema.get("type") == "object" and "anyOf" not in schema
    return whole and _is_strict(schema, _DEEPEST)


def in_words(schema: Mapping[str, Any]) -> str:
    """The instruction to fit a schema that the API cannot enforce."""
    text = msgspec.json.encode(schema).decode()
    return f"Give the final answer as JSON alone, which fits this JSON Schema:\n{text}"


def _is_strict(schema: Any, levels: int) -> bool:
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
