"""Answers: turns the text and the calls of a model into actions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel.frozen import shown

from .. import values
from ..plans.action import Action, FinalAnswer, ToolCall
from .offers import Function, Offer

_FENCE: Final = "```"
_FENCED: Final = re.compile(r"\s*```(?:[jJ][sS][oO][nN])?[ \t]*\r?\n(.*)\n[ \t]*```\s*", re.DOTALL)
_NOT_JSON: Final = (
    "is not valid JSON: give the JSON value alone, without a code fence or any text before or "
    "after it, and without NaN, infinity and lone surrogates"
)
_LONGEST: Final = 300
_UNFIT: Final = (msgspec.DecodeError, RecursionError)


class Asked(NamedTuple):
    """A call as a vendor gives it: its arguments are a text that should be a JSON object."""

    id: str
    name: str
    arguments: str


class Malformed(ValueError):
    """A part of an answer is not valid, e.g. the arguments of a call are not a JSON object."""


class Doubled(ValueError):
    """A JSON object has one key twice, so one of the two values would be lost.

    Attributes:
        key: The key.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(key)

    def __str__(self) -> str:
        return (
            f"arguments: have the key {shown(self.key)} twice in one object; nothing was "
            "done; write each key once"
        )


def actions_of(
    calls: Sequence[Asked], functions: Sequence[Function]
) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    """The actions for calls, and for each call the vendor's id, if its action cannot keep it.

    A call of an offer whose arguments do not fit becomes a `ToolCall` that is refused.

    Args:
        calls: The calls, in the order of the answer.
        functions: The functions that the model was shown.

    Raises:
        Malformed: The arguments of a call are not a JSON object.
    """
    offers = {each.name: each for each in functions if isinstance(each, Offer)}
    actions: list[Action] = []
    names: list[str] = []
    for call in calls:
        try:
            arguments = _object(call)
        except Doubled as error:
            # The model is told, so that it can write the call again.
            actions.append(ToolCall(call.name, {}, call.id, str(error)))
            names.append("")
            continue
        offer = offers.get(call.name)
        if offer is None:
            actions.append(ToolCall(call.name, arguments, call.id))
            names.append("")
            continue
        try:
            action, name = offer.action(arguments), call.id
        except ValueError as error:
            # The model is told, as it is for a tool.
            action, name = ToolCall(call.name, arguments, call.id, str(error)), ""
        actions.append(action)
        names.append(name)
    return tuple(actions), tuple(names)


def final_answer(text: str, schema: Mapping[str, Any] | None) -> FinalAnswer:
    """The final answer with this text; under a schema, with the JSON value in the text.

    One code fence around a JSON object or list is left out. A text that is not JSON is passed on as
    it is, and the Loop tells the model why it is not.
    """
    if schema is None:
        return FinalAnswer(text)
    fenced = _FENCED.fullmatch(text) if _FENCE in text else None
    try:
        value = json_of(text if fenced is None else fenced[1])
    except Doubled as error:
        return FinalAnswer(
            text, f"has the key {shown(error.key)} twice in one object; write each key once"
        )
    except InvalidValue as error:
        return FinalAnswer(text, str(error).removeprefix(": ")[:_LONGEST])
    except (msgspec.DecodeError, RecursionError) as error:
        return FinalAnswer(text, f"{_NOT_JSON} ({str(error)[:_LONGEST]})")
    if fenced is not None and (not isinstance(value, dict | list) or _takes_text(schema)):
        return FinalAnswer(text, _NOT_JSON)
    return FinalAnswer(value)


def _takes_text(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return "string" in ([kind] if isinstance(kind, str) else kind or ())


def json_of(text: str) -> Any:
    """Parse a JSON value that a model wrote, and check that it may be stored.

    All JSON of models is parsed here, so that no part of it is lost in silence.

    Raises:
        Doubled: An object has one key twice.
        ValueError: It is not JSON, or may not be stored.
        RecursionError: It is nested too deep.
    """
    value = msgspec.json.decode(text)
    values.check(value)
    if text.count(":") > 1:
        json.loads(text, object_pairs_hook=_each_key_once)
    return value


def _each_key_once(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1:
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise Doubled(key)
            seen.add(key)


def _object(call: Asked) -> dict[str, Any]:
    try:
        arguments = json_of(call.arguments or "{}")
    except InvalidValue as error:
        why = f"the arguments of {call.name[:80]} are JSON that no store accepts: {error}"
        raise Malformed(why) from error
    except _UNFIT as error:
        raise Malformed(f"the arguments of {call.name[:80]} are not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise Malformed(f"the arguments of {call.name[:80]} are not a JSON object")
    return arguments
