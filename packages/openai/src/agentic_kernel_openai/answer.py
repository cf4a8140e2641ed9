"""Answer: the text and the calls of a model, in one form for both APIs, and the plan from them."""

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
    """The answer in the vendor's form; None if the other fields hold all of it."""
    end: End = "stop"
    usage: Usage | None = None
    """None if the server did not report it."""
    written: int = 0
    """Input tokens that were written to a cache."""
    model: str = ""


def plan_of(
    answer: Answer, functions: Sequence[Function], schema: Mapping[str, Any] | None, wire: str
) -> Plan:
    """Return the plan from an answer, without its usage.

    Args:
        functions: The functions that the model was shown.
        schema: The JSON Schema of a final answer.
        wire: The API that the answer's opaque items belong to.

    Raises:
        Unusable: The answer was cut short, is a refusal, or is empty.
        Malformed: A call in the answer is not valid.
    """
    said = answer.text
    if answer.end == "filter":
        raise Unusable(names.CONTENT_FILTER, "the vendor's filter stopped the answer", said)
    if answer.end == "length":
        raise Unusable(
            names.MAX_TOKENS,
            "the answer reached its token limit before its end; raise max_tokens, or the run's "
            "limits if less is left of them",
            said,
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
        raise Malformed("two calls in the answer have the same id")
    if not all(call.name for call in answer.calls):
        raise Malformed("a call in the answer has no name")
    actions, calls = actions_of(answer.calls, functions)
    left = provider(wire, answer.items, calls)
    return Plan(actions, text=answer.text, reasoning=answer.reasoning, provider=left)
