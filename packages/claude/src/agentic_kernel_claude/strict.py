"""Strict: functions whose arguments the vendor enforces, within the limits of its API.

See platform.claude.com/docs/en/build-with-claude/structured-outputs. A request beyond these limits
is refused, so such functions are sent as they are. The Loop checks the arguments in every case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentic_kernel_engine.providers import Function

MOST_TOOLS: Final = 20
"""The most strict functions of a request."""
MOST_OPTIONAL: Final = 24
"""The most optional arguments of all strict functions of a request."""
MOST_UNIONS: Final = 16
"""The most arguments with several types of all strict functions of a request."""
_KEYWORDS: Final = frozenset(
    "type properties required additionalProperties items enum const anyOf title description "
    "default".split()
)
"""Keywords of a schema that the API enforces; it has no references that could be recursive."""


def tools_of(functions: Sequence[Function], *, strict: bool) -> list[dict[str, Any]]:
    """Return the functions of a request as the API takes them.

    Args:
        functions: The functions.
        strict: False if the server may not know strict functions.
    """
    names = strict_names(functions) if strict else frozenset()
    made = [each.described("input_schema") for each in functions]
    return [{**each, "strict": True} if each["name"] in names else each for each in made]


def strict_names(functions: Sequence[Function]) -> frozenset[str]:
    """Return the names of the functions that a request makes strict, as many as it may have."""
    names: set[str] = set()
    optional = unions = 0
    for function in functions:
        counts = [0, 0]
        if len(names) == MOST_TOOLS or not _fits(function.schema, counts, whole=True):
            continue
        if optional + counts[0] <= MOST_OPTIONAL and unions + counts[1] <= MOST_UNIONS:
            names.add(function.name)
            optional, unions = optional + counts[0], unions + counts[1]
    return frozenset(names)


def _fits(schema: Any, counts: list[int], *, whole: bool = False) -> bool:
    """Return True if the API enforces a schema; count its optional arguments and its unions."""
    if not isinstance(schema, Mapping) or not schema or not _KEYWORDS.issuperset(schema):
        return False
    kind, properties = schema.get("type"), schema.get("properties", {})
    if whole and kind != "object":
        return False
    if kind == "object" or properties:
        if kind != "object" or schema.get("additionalProperties") is not False:
            return False
        counts[0] += len(set(properties) - set(schema.get("required", ())))
    unions = schema.get("anyOf", ())
    counts[1] += bool(unions) or not isinstance(kind, str | None)
    inner = [*properties.values(), *unions]
    if "items" in schema:
        inner.append(schema["items"])
    return all(_fits(each, counts) for each in inner)
