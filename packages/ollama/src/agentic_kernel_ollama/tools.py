"""Tools: functions in the form that the SDK sends, which drops most of a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from agentic_kernel_engine.providers import Function

_FITS: Final = "Its arguments fit this JSON Schema: "
_SENT: Final = frozenset({"type", "items", "description", "enum"})
"""Keywords of a property's schema that the SDK sends."""
_SENT_ABOVE: Final = frozenset({"type", "properties", "required", "$defs"})
"""Keywords of the whole arguments' schema that the SDK sends."""
_SILENT: Final = frozenset({"title", "$schema", "$id", "$comment"})
"""Keywords without information for a model."""


def tool_of(function: Function) -> dict[str, Any]:
    """Return a function as the SDK takes it; the description has the schema if a part is lost."""
    parameters, lost = _parameters(function.schema)
    description = function.description
    if lost:
        fits = _FITS + msgspec.json.encode(function.schema).decode()
        description = f"{description}\n{fits}" if description else fits
    told = {"name": function.name, "description": description, "parameters": parameters}
    return {"type": "function", "function": told}


def _parameters(schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the part of a schema that the SDK sends, and True if a part of it is lost."""
    given = schema.get("properties", {})
    sent = {
        name: {key: part[key] for key in _SENT & part.keys()} if isinstance(part, Mapping) else {}
        for name, part in given.items()
    }
    lost = any(
        not isinstance(part, Mapping) or part.keys() - _SENT - _SILENT for part in given.values()
    )
    above = schema.keys() - _SENT_ABOVE - _SILENT - {"description"}
    if schema.get("additionalProperties") is False:
        above -= {"additionalProperties"}
    parameters: dict[str, Any] = {"type": "object", "properties": sent}
    parameters |= {key: schema[key] for key in ("required", "$defs") if key in schema}
    return parameters, lost or bool(above)
