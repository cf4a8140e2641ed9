"""Actions: the things that a planner may ask for. Data only, each with one JSON form.

A planner gives one action, or several: a batch. The Loop numbers the actions of a plan, so an
action needs no id of its own. A tool call has an id if the provider wants it back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="tool_call"):
    """Call a tool."""

    tool: str
    arguments: Mapping[str, Any] = {}
    id: str = ""
    """The provider's name for this call, handed back with its result."""
    refused: str = ""
    """Reason why the call cannot be made as the model wrote it, for the model; "" if it can."""


class Delegate(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="delegate"
):
    """Give work to a child Task, wait for one, or end one."""

    verb: Literal["spawn", "join", "cancel"]
    child: str = ""
    """Id of the child to join or to cancel; empty for a spawn, because the Loop makes the id."""
    instructions: str = ""
    summary: str = ""
    agent: str | None = None
    """Name of the Agent that gets the work."""


class Thought(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="thought"):
    """Put a text on record, and go on."""

    text: str


class PushGoal(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="goal_push"):
    """Take on a goal below the current one."""

    text: str


class CompleteGoal(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="goal_complete"
):
    """Take the current goal, which is reached, off the stack."""

    note: str = ""


class FinalAnswer(
    msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="final_answer"
):
    """End the Task in ``success``, with this result."""

    output: Any
    refused: str = ""
    """The reason why the model's text is not JSON, for the model. The output is then that text. ""
    if the text is JSON. A text that fits the schema is still an answer."""


class AskUser(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="ask_user"):
    """Pause until a person answers."""

    question: str


class Schedule(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="schedule"
):
    """Pause; the run goes on at a moment, or later."""

    at: str
    """ISO 8601 with an offset."""
    reason: str = ""


class Stop(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="stop"):
    """End the Task without an answer."""

    reason: str = ""


Action = (
    ToolCall
    | Delegate
    | Thought
    | PushGoal
    | CompleteGoal
    | FinalAnswer
    | AskUser
    | Schedule
    | Stop
)
ACTIONS: tuple[type[Action], ...] = get_args(Action)

_JSON = Any, Mapping[str, Any]
TEXTS: Mapping[type[Action], tuple[tuple[str, bool], ...]] = {
    each: tuple(
        (field.name, field.default is None)
        for field in msgspec.structs.fields(each)
        if field.type not in _JSON
    )
    for each in ACTIONS
}
"""By action: the fields that hold text, and whether each may be None. All others hold JSON."""

_canonical = msgspec.json.Encoder(order="sorted")
_encode = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder[Action](Action).decode


def kind_of(action: Action) -> str:
    """The name of the action's type, as in its JSON form."""
    return str(type(action).__struct_config__.tag)


def copy_of(action: Action) -> Action:
    """A copy of an action that was checked; it shares no part with the action."""
    copied: Action = _read(_encode(action))
    return copied


def digest(action: Action, place: str) -> str:
    """The digest that an approval is bound to: of the whole action, and of its place in the run.

    So an approval fits neither another action nor the same action asked for again. SHA-256 of the
    place and of the JSON form with sorted keys, in hexadecimal; a tool call's id does not count.

    Args:
        place: Task, step, and index in the plan, e.g. ``<id>:3:0``.
    """
    if isinstance(action, ToolCall) and action.id:
        action = ToolCall(action.tool, action.arguments)
    text = place.encode() + b"\n" + _canonical.encode(action)
    return hashlib.sha256(text).hexdigest()
