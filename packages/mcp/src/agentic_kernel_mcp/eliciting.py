"""Eliciting: a server's question to the user becomes a question of the Task.

A handler cannot wait for days. So the call ends, and the Task pauses with the question. After a
person's answer the call is made again, and the server is told the answer.

With the protocol of 2026, a server that needs an answer ends the call itself and expects it again.
With that of 2025 it asks in the middle of the call: it is told that the user dismissed the
question, and a person must know that the call is made again from its start.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import mcp_types as types

from agentic_kernel import InvalidValue
from agentic_kernel_engine.loop import INDETERMINATE
from agentic_kernel_engine.seams import ToolContext, ToolError, Unfinished, compile_schema

DECLINE: Final = "decline"
"""The answer with which a person refuses a server's question."""
STOP: Final = "stop"
"""The answer with which a person ends a call that is not to be made again."""
MOST_TRIES: Final = 3
"""The most times that a person is asked for a fitting answer, before the server gets a refusal."""
MOST_AT_ONCE: Final = 20
"""The most questions that a server may ask at once."""
_ACTIONS: Final = frozenset({DECLINE, "cancel"})
_MAX_MESSAGE: Final = 4_000
_MAX_SAID: Final = 1_000
_MOST_FIELDS: Final = 20
_MAX_FIELD: Final = 200
_CANCEL: Final = types.ElicitResult(action="cancel")


class Elicitation:
    """The questions of one call of a server's tool.

    Args:
        context: The call.
        server: The server's name, which the question tells the person.
    """

    def __init__(self, context: ToolContext, server: str) -> None:
        self._context = context
        self._server = server
        self._unfinished: Unfinished | None = None
        """A question without an answer, which the server was told to be dismissed."""
        self.unclear = False
        """True if the call may have asked beside others, and its question was dismissed."""
        self.unanswered = False
        """True if the server heard that a question is dismissed, as no person can be asked."""

    def check(self) -> None:
        """Look before a call that `settle` may have warned about if a person stopped it.

        Raises:
            ToolError: So it is.
        """
        answers = self._context.answers or {}
        if any(each.strip().lower() == STOP for each in answers.values()):
            raise ToolError(
                "a person stopped the call after the server had asked something; whether it took "
                "effect before it asked is not known",
                INDETERMINATE,
            )

    def answers(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The person's answers to questions that ended the call.

        Raises:
            Unfinished: A question has no answer yet.
            ToolError: The server asks too much, or for something else than a person's answer.
        """
        if len(asked) > MOST_AT_ONCE:
            raise ToolError(
                f"{self._server} asks {len(asked)} questions at once; {MOST_AT_ONCE} are accepted"
            )
        found: dict[str, Any] = {}
        for key, each in asked.items():
            if not isinstance(each, types.ElicitRequest):
                raise ToolError(f"{self._server} asks for {each.method}, which it cannot have here")
            found[key] = self._answer(each.params)
        return found

    def visited(self, pages: Sequence[types.ElicitRequestURLParams]) -> bool:
        """True if a person opened all these pages, without which the server refused the call.

        Raises:
            Unfinished: The person has not answered yet.
        """
        return 0 < len(pages) <= MOST_AT_ONCE and all(
            self._answer(each).action == "accept" for each in pages
        )

    def dismissed(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """The reply to a server that waits: the answer, or that there is none."""
        if self._unfinished is not None:
            return _CANCEL
        try:
            return self._answer(params)
        except Unfinished as unfinished:
            self._unfinished = unfinished
            return _CANCEL

    def settle(self, said: str, *, may_repeat: bool) -> None:
        """Look after the call if a question was dismissed that is now the Task's.

        Args:
            said: The server's answer to the call.
            may_repeat: True if the call can be made again without harm.

        Raises:
            Unfinished: So it is.
        """
        if self._unfinished is None:
            return
        waiting = dict(self._unfinished.waiting or {})
        if not may_repeat:
            waiting["question"] += (
                f"\nThe server was told that nobody answers, and said: {said[:_MAX_SAID]!r}\n"
                "With an answer the call is made again from its start. If it took effect before it "
                f"asked, it takes effect twice; answer {STOP} to leave it as it is."
            )
        raise Unfinished(waiting)

    def _answer(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        try:
            if isinstance(params, types.ElicitRequestURLParams):
                return self._visited(params)
            return self._filled(params)
        except (ToolError, InvalidValue):  # No person to ask, or a bad question.
            self.unanswered = True
            return _CANCEL

    def _visited(self, params: types.ElicitRequestURLParams) -> types.ElicitResult:
        if not params.url.startswith(("https://", "http://")):
            return _CANCEL
        said = self._context.ask(
            f"The MCP server {self._server} asks you to open {params.url[:2_000]}\n"
            f"{params.message[:_MAX_MESSAGE]}\n"
            f"Answer done when you have been there, or {DECLINE}."
        )
        action = _action(said)
        return types.ElicitResult(action=action or "accept")

    def _filled(self, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        schema: dict[str, Any] = {**params.requested_schema, "type": "object"}
        fits = compile_schema(schema)
        question = _question(self._server, params.message, schema)
        why = ""
        for _ in range(MOST_TRIES):
            said = self._context.ask(question + why)
            action = _action(said)
            if action is not None:
                return types.ElicitResult(action=action)
            content, problem = _read(said, schema)
            problem = problem or fits(content)
            if problem is None:
                return types.ElicitResult(action="accept", content=content)
            why = f"\nThe answer {said[:200]!r} does not fit: {problem[:500]}"
        return _CANCEL


def _action(said: str) -> Any:
    word = said.strip().lower()
    return word if word in _ACTIONS else None


def _question(server: str, message: str, schema: Mapping[str, Any]) -> str:
    """The text of a question: the message, and the fields that the answer must have."""
    lines = [f"The MCP server {server} asks: {message[:_MAX_MESSAGE]}"]
    fields = _fields(schema)
    required = schema.get("required")
    for name, field in list(fields.items())[:_MOST_FIELDS]:
        may = "" if isinstance(required, list) and name in required else ", may be left out"
        lines.append(f"- {name[:60]}: {_kind(field)}{may}{_said(field)}"[:_MAX_FIELD])
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
    """An answer as the object that the server wants, and what is wrong with it.

    Fields that the answer leaves out have their default.
    """
    text, fields = said.strip(), _fields(schema)
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    if text.startswith("{"):
        try:
            return {**defaults, **_json(text)}, None
        except (ValueError, RecursionError) as error:
            return None, f"it is not JSON: {str(error)[:200]}"
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
            return _json(text)
        except (ValueError, RecursionError):
            return text
    return text


def _json(text: str) -> Any:
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
