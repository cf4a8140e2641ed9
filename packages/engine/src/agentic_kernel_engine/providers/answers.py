"""Answers: the actions behind what a model said and called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from agentic_kernel import InvalidValue

from .. import values
from ..loop.action import Action, FinalAnswer, ToolCall
from .offers import Function, Offer

_UNFIT: Final = (msgspec.DecodeError, InvalidValue, RecursionError)


class Asked(NamedTuple):
    """A call as a vendor gives it: its arguments are a text that should be a JSON object."""

    id: str
    name: str
    arguments: str


class Malformed(ValueError):
    """The arguments of a call are no JSON object, or do not fit what was offered."""


def actions_of(
    calls: Sequence[Asked], functions: Sequence[Function]
) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    """The actions behind calls, and the vendor's name of each call that its action cannot keep.

    Args:
        calls: In the order of the answer.
        functions: What the model was shown.

    Raises:
        Malformed: See there.
    """
    offers = {each.name: each for each in functions if isinstance(each, Offer)}
    actions: list[Action] = []
    names: list[str] = []
    for call in calls:
        arguments = _object(call)
        offer = offers.get(call.name)
        if offer is None:
            actions.append(ToolCall(call.name, arguments, call.id))
            names.append("")
            continue
        try:
            actions.append(offer.action(arguments))
        except ValueError as error:
            raise Malformed(str(error)) from error
        names.append(call.id)
    return tuple(actions), tuple(names)


def final_answer(text: str, schema: Mapping[str, Any] | None) -> FinalAnswer:
    """The final answer that a text is; under a schema, the JSON that it holds.

    A text that is no JSON is handed on as it is: the Loop tells the model what does not fit.
    """
    if schema is None:
        return FinalAnswer(text)
    try:
        return FinalAnswer(_decoded(text))
    except _UNFIT:
        return FinalAnswer(text)


def _decoded(text: str) -> Any:
    """The JSON value, if it is one that may be stored: deep ones are not."""
    value = msgspec.json.decode(text)
    values.check(value)
    return value


def _object(call: Asked) -> dict[str, Any]:
    try:
        arguments = _decoded(call.arguments or "{}")
    except _UNFIT as error:
        raise Malformed(f"the arguments of {call.name[:80]} are no JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise Malformed(f"the arguments of {call.name[:80]} are no object")
    return arguments
