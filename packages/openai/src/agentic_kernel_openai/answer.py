"""Answer: what a model said and called, whichever way it came, and the plan that it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentic_kernel_engine.loop import Action, Plan, Usage
from agentic_kernel_engine.providers import (
    Asked,
    Function,
    Malformed,
    actions_of,
    final_answer,
    provider,
)
from agentic_kernel_engine.providers import failures as names

from .failures import Unusable

End = Literal["stop", "length", "filter"]


@dataclass(slots=True)
class Answer:
    """A whole answer."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: Sequence[Asked] = ()
    items: Sequence[Any] | None = None
    """All of it in the vendor's form, if some of it has no other."""
    end: End = "stop"
    usage: Usage | None = None
    """None if the server did not say."""
    written: int = 0
    """Tokens of the input that were written to a cache."""
    model: str = ""


def plan_of(
    answer: Answer, functions: Sequence[Function], schema: Mapping[str, Any] | None, wire: str
) -> Plan:
    """The plan behind an answer, without what it used up.

    Args:
        functions: What the model was shown.
        schema: What a final answer must fit.
        wire: Whose opaque items those of the answer are.

    Raises:
        Unusable: It was cut short, refused, or has nothing in it.
        Malformed: A call in it is none.
    """
    said = answer.text
    if answer.end == "filter":
        raise Unusable(names.CONTENT_FILTER, "the vendor's filter stopped the answer", said)
    if answer.end == "length":
        raise Unusable(
            names.MAX_TOKENS, "the answer was cut at its limit; give a larger max_tokens", said
        )
    if answer.refusal:
        raise Unusable(names.REFUSAL, "the model refuses", answer.refusal)
    if answer.calls:
        return _calling(answer, functions, wire)
    if not said.strip():
        raise Unusable(names.BAD_RESPONSE, "the answer is empty")
    actions: tuple[Action, ...] = (final_answer(said, schema),)
    left = provider(wire, answer.items, ())
    return Plan(actions, reasoning=answer.reasoning, provider=left)


def _calling(answer: Answer, functions: Sequence[Function], wire: str) -> Plan:
    ids = [call.id for call in answer.calls if call.id]
    if len(set(ids)) != len(ids):
        raise Malformed("two calls have one id")
    if not all(call.name for call in answer.calls):
        raise Malformed("a call has no name")
    actions, calls = actions_of(answer.calls, functions)
    left = provider(wire, answer.items, calls)
    return Plan(actions, text=answer.text, reasoning=answer.reasoning, provider=left)
