"""Schema: the schema of a final answer, as the API takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def form_of(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema in the form that constrains an answer; None if the API has no such form."""
    from anthropic import transform_schema

    if not _closed(schema):
        return None
    try:
        return {"type": "json_schema", "schema": transform_schema(dict(schema))}
    except (AssertionError, AttributeError, TypeError, ValueError, RecursionError):
        return None


def _closed(schema: Any) -> bool:
    """Return True if each object in a schema allows named keys only; the API supports no others."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            if part.get("additionalProperties", False) is not False or "patternProperties" in part:
                return False
            if part.get("type") == "object" and not part.get("properties"):
                return False
            waiting += part.values()
        elif isinstance(part, Sequence) and not isinstance(part, str):
            waiting += part
    return True
