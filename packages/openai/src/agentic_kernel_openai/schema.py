"""Schema: the schema of a final answer, as the APIs take it or as an instruction.

OpenAI accepts a JSON Schema whose root is an object, and enforces it if it is strict
(`providers.is_strict`). Any other schema goes into the instructions. The Loop checks the answer in
every case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentic_kernel_engine.providers import is_strict

NAME: Final = "answer"
"""Name of the answer's schema in a request."""


def answer_form(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the schema as both APIs take it; None if there is none, or they take no such one."""
    if schema is None or schema.get("type") != "object":
        return None
    return {"name": NAME, "schema": schema, "strict": is_strict(schema)}
