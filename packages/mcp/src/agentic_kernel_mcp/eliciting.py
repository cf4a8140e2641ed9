"""Eliciting: a server's question to the user becomes a question of the Task.

A handler cannot wait for days. So the server is told that the user dismissed its question, the
call ends, and the Task pauses. After a person's answer the call is made again, and finds it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types

from agentic_kernel import InvalidValue
from agentic_kernel_engine.seams import ToolContext, ToolError, Unfinished, compile_schema

DECLINE: Final = "decline"
"""The answer with which a person refuses a server's question."""
MOST_TRIES: Final = 3
"""How often a person is asked for an answer that fits, before the server is told that none came."""
_ACTIONS: Final = frozenset({DECLINE, "cancel"})
_MAX_MESSAGE: Final = 4_000


class Elicitation:
    """The questions of one call of a server's tool.

    Args:
        context: The call; None if nobody can be asked.
        server: The server's name, which the question tells the person.
    """

    def __init__(self, context: ToolContext | None, server: str) -> None:
        self._context = context
        self._server = server
        self.unfinished: Unfinished | None = None
        """The question that has no answer yet."""
        self.unclear = False
        """True if the call may have asked beside others, and its question was dismissed."""

    def answer(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """What the server is told: the person's answer, or that the question was dismissed."""
        if self._context is None or self.unfinished is not None:
            return types.ElicitResult(action="cancel")
        try:
            if isinstance(params, types.ElicitRequestURLParams):
                return self._visited(self._context, params)
            return self._filled(self._context, params)
        except Unfinished as unfinished:
            self.unfinished = unfinished
        except (ToolError, InvalidValue):
            pass
        return types.ElicitResult(action="cancel")

    def _visited(
        self, context: ToolContext, params: types.ElicitRequestURLParams
    ) -> types.ElicitResult:
        said = context.ask(
            f"The MCP server {self._server} asks you to open {params.url[:2_000]}\n"
            f"{params.message[:_MAX_MESSAGE]}\n"
            f"Answer done when you have been there, or {DECLINE}."
        )
        action = _action(said)
        return types.ElicitResult(action=action or "accept")

    def _filled(
        self, context: ToolContext, params: types.ElicitRequestFormParams
    ) -> types.ElicitResult:
        schema: dict[str, Any] = {**params.requested_schema, "type": "object"}
        fits = compile_schema(schema)
        question = _question(self._server, params.message, schema)
        why = ""
        for _ in range(MOST_TRIES):
            said = context.ask(question + why)
            action = _action(said)
            if action is not None:
                return types.ElicitResult(action=action)
            content, problem = _read(said, schema)
            problem = problem or fits(content)
            if problem is None:
                return types.ElicitResult(action="accept", content=content)
            why = f"\nThe answer {said[:200]!r} does not fit: {problem[:500]}"
        return types.ElicitResult(action="cancel")


def _action(said: str) -> Any:
    word = said.strip().lower()
    return word if word in _ACTIONS else None


def _question(server: str, message: str, schema: Mapping[str, Any]) -> str:
    """The text of a question: the message, and the fields that the answer must have."""
    lines = [f"The MCP server {server} asks: {message[:_MAX_MESSAGE]}"]
    fields = _fields(schema)
    for name, field in list(fields.items())[:50]:
        lines.append(f"- {name}: {_kind(field)}{_said(field)}"[:400])
    if len(fields) > 1:
        lines.append(f"Answer with a JSON object of these fields, or {DECLINE}.")
    elif fields:
        lines.append(f"Answer with the value, or {DECLINE}.")
    else:
        lines.append(f"Answer yes, or {DECLINE}.")
    return "\n".join(lines)


def _fields(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    given = schema.get("properties")
    if not isinstance(given, Mapping):
        return {}
    return {str(name): field if isinstance(field, Mapping) else {} for name, field in given.items()}


def _kind(field: Mapping[str, Any]) -> str:
    for key in ("enum", "oneOf", "anyOf"):
        choices = field.get(key)
        if isinstance(choices, list) and choices:
            shown = [
                each.get("const", each) if isinstance(each, dict) else each for each in choices
            ]
            return "one of " + ", ".join(str(each) for each in shown[:20])
    return str(field.get("type", "any value"))


def _said(field: Mapping[str, Any]) -> str:
    said = field.get("description") or field.get("title")
    return f" ({said})" if isinstance(said, str) and said else ""


def _read(said: str, schema: Mapping[str, Any]) -> tuple[Any, str | None]:
    """An answer as the object that the server wants, and what is wrong with it."""
    text, fields = said.strip(), _fields(schema)
    if text.startswith("{"):
        try:
            given = json.loads(text)
        except (ValueError, RecursionError) as error:
            return None, f"it is not JSON: {str(error)[:200]}"
        return given, None
    if len(fields) > 1:
        return None, "it must be a JSON object"
    if not fields:
        return {}, None
    ((name, field),) = fields.items()
    return {name: _value(text, field.get("type"))}, None


def _value(text: str, kind: Any) -> Any:
    if kind == "boolean":
        return {"yes": True, "true": True, "no": False, "false": False}.get(text.lower(), text)
    if kind == "array" and not text.startswith("["):
        return [each.strip() for each in text.split(",")]
    if kind in ("integer", "number", "array"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text
