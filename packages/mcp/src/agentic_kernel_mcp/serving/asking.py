"""Asking: a question of a tool as a form that the client shows to its user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import mcp_types as types

from ..eliciting import DECLINE

MOST_ROUNDS: Final = 21
"""The most rounds of one call: one more than the questions that it may ask."""
LONGEST_ANSWER: Final = 10_000
"""The most characters of an answer that a tool gets."""
_FIELD: Final = "answer"


def form_of(question: str) -> types.ElicitRequestFormParams:
    """The form of a question: one text."""
    field = {"type": "string", "title": "Answer", "maxLength": LONGEST_ANSWER}
    return types.ElicitRequestFormParams(
        message=question,
        requested_schema={"type": "object", "properties": {_FIELD: field}, "required": [_FIELD]},
    )


def answer_of(reply: Any) -> str:
    """The user's answer; ``decline`` or ``cancel`` if they gave none."""
    if not isinstance(reply, types.ElicitResult) or reply.action != "accept":
        return getattr(reply, "action", DECLINE)
    said = (reply.content or {}).get(_FIELD)
    return said[:LONGEST_ANSWER] if isinstance(said, str) else DECLINE


def questions_of(asked: Sequence[str], replies: Mapping[str, Any] | None) -> dict[str, str]:
    """The answers to those questions that were asked; others are not looked at."""
    given = replies or {}
    return {digest: answer_of(given[digest]) for digest in asked if digest in given}
