"""Guardrail: a check of the texts of the model and the tools, which may end the run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Literal

import msgspec

from ...plans.action import AskUser, FinalAnswer, Thought
from ...plans.ending import End
from ...plans.observation import Observation
from ...plans.plan import Plan
from ...plans.reasons import StopReason
from ...tools.call import Invocation
from ..middleware import storable
from ..planner import Context

Place = Literal["text", "answer", "tool"]
"""``text`` is by the model, beside its actions or in one; ``answer`` is final; ``tool`` by a tool.
"""
Check = Callable[[str, Place], str | Awaitable[str | None] | None]
"""Returns the reason why the run must end; None or "" if it may go on."""

_encode = msgspec.json.Encoder().encode


class Guardrail:
    """Ends the run with the reason ``guardrail`` if a check objects.

    It checks the model's text and reasoning, its thoughts and questions, final answers, and the
    outputs and failure messages of tools. A value that is not a text is checked as its JSON text.
    An answer that the check refuses is not carried out, and no planner sees an output that it
    refuses. Both stay in the history, where people can look at them. Observers see the pieces of a
    stream before the whole answer is checked. If a check raises, the run fails, so nothing passes
    unchecked. Give it first, so that it checks the results of the other middlewares.

    Args:
        check: A function, or a coroutine function, of a text and its place.
    """

    def __init__(self, check: Check) -> None:
        self._check = check

    async def after_model(self, context: Context, plan: Plan) -> None:
        for place, text in _said(plan):
            await self._check_text(text, place)

    async def after_tool(self, invocation: Invocation, observation: Observation) -> None:
        for said in (observation.output, observation.message):
            await self._check_text(_text(said), "tool")

    async def _check_text(self, text: str, place: Place) -> None:
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
            case Thought(text) | AskUser(text):
                yield "text", text


def _text(said: Any) -> str:
    if said is None:
        return ""
    return said if isinstance(said, str) else _encode(said).decode()
