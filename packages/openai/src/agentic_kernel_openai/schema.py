"""Schema: how the model is told what a final answer must fit.

OpenAI takes a JSON Schema whose root is an object, and holds the model to it strictly if it uses no
more than a part of the language. What it would not take is told in words; the Loop checks the
answer either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

NAME: Final = "answer"
"""How the form of the answer is called on the wire."""
_STRICT: Final = frozenset(
    "type properties required additionalProperties items enum const anyOf $ref $defs title "
    "description minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems "
    "pattern format".split()
)
"""What a strict schema may say; see https://developers.openai.com/api/docs/guides/structured-outputs."""
_DEEPEST: Final = 10
"""Levels that a strict schema may have."""


def answer_form(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The form of an answer as both APIs know it; None if it is told in words, or is free."""
    if schema is None or schema.get("type") != "object":
        return None
    strict = "anyOf" not in schema and _is_strict(schema, _DEEPEST)
    return {"name": NAME, "schema": schema, "strict": strict}


def in_words(schema: Mapping[str, Any] | None) -> str:
    """What the model is told about a form that `answer_form` has nothing for."""
    if schema is None or answer_form(schema) is not None:
        return ""
    form = msgspec.json.encode(schema).decode()
    return f"Give the final answer as JSON, and nothing else, that fits this JSON Schema: {form}"


def _is_strict(schema: Any, levels: int) -> bool:
    """Whether a schema is one that the model can be held to."""
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
