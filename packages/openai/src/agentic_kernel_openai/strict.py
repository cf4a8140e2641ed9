"""Strict: functions whose arguments OpenAI enforces, in the form of each of its two APIs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agentic_kernel_engine.providers import is_strict


def strict_field(function: Mapping[str, Any]) -> dict[str, bool]:
    """Return the field ``strict`` of a function for the Responses API.

    The API's default is strict, which would change a schema that is not. The mere name of a
    function has no such field.
    """
    return {"strict": is_strict(function["parameters"])} if "parameters" in function else {}


def strict_tools(tools: Sequence[Any], own: Collection[Any]) -> list[Any]:
    """Return the tools of Chat Completions, each in strict mode if its schema allows it.

    Args:
        tools: All tools of a request.
        own: The user's own tools, which stay as they are.
    """
    return [each if each in own else _strict(each) for each in tools]


def _strict(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    strict = is_strict(function["parameters"])
    return {**tool, "function": {**function, "strict": True}} if strict else tool
