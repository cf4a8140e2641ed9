"""Guardrail: a check over what is said, that may end the run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Literal

import msgspec

from ...plans.action import AskUser, FinalAnswer, Thought
from ...plans.context import Context
from ...plans.ending import End
from ...plans.observation import Observation
from ...plans.plan import Plan
from ...plans.reasons import StopReason
from ...tools.registry import Invocation
from ..middleware import storable

Place = Literal["text", "answer", "tool"]
"""Said by the model, beside its actions or in one; a final answer; said by a tool."""
Check = Callable[[str, Place], str | Awaitable[str | None] | None]
"""Why this must not go on; None or "" if it may."""

_encode = msgspec.json.Encoder().encode


class Guardrail:
    """Ends the run with the reason ``guardrail`` when a check objects.

    Checked are the model's text and reasoning, its thoughts and questions, final answers, and what
    tools return or say of their failure; what is no text is checked as its JSON text. An answer
    that trips is not carried out, and no planner sees an output that does. Both stay in the log,
    where people can look at them. Pieces of a stream have been seen by observers before the answer
    is whole. A check that raises fails the run: nothing passes unchecked. Give it first, so that
    it checks what the other middlewares have left.

    Args:
        check: A function, or a coroutine function, of a text and where it is from.
    """

    def __init__(self, check: Check) -> None:
        self._check = check

    async def after_model(self, context: Context, plan: Plan) -> None:
        for place, text in _said(plan):
            await self._heed(text, place)

    async def after_tool(self, invocation: Invocation, observation: Observation) -> None:
        for said in (observation.output, observation.message):
            await self._heed(_text(said), "tool")

    async def _heed(self, text: str, place: Place) -> None:
        if not text:
            return
        why = self._check(text, place)
        if inspect.isawaitable(why):
            why = await why
        if why:
            raise End(StopReason.GUARDRAIL, storable(str(why)))


def _said(plan: Plan) -> Iterator[tuple[Place, str]]:
    yield "text", plan.text
    yield "text", plan.reasoning
    for action in plan.actions:
        match action:
            case FinalAnswer(output):
                yield "answer", _text(output)
            case Thought(text):
                yield "text", text
            case AskUser(question):
                yield "text", question


def _text(said: Any) -> str:
    if said is None:
        return ""
    return said if isinstance(said, str) else _encode(said).decode()
