"""Offers: the Loop's own actions as functions that a model can call.

A model can only call functions and write text. The other actions of a planner, e.g. a question to
the user or a goal, are offered to the model as functions; `OFFERS` has their names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from agentic_kernel import InvalidValue

from .. import edges
from ..plans.action import (
    Action,
    AskUser,
    CompleteGoal,
    Delegate,
    PushGoal,
    Schedule,
    Stop,
    Thought,
    kind_of,
)
from ..tools.tool import Tool


class Function:
    """A function as every vendor's API describes it.

    Args:
        name: Name of the function.
        description: For the model.
        schema: JSON Schema of the arguments.
    """

    __slots__ = ("description", "name", "schema")

    def __init__(self, name: str, description: str, schema: Mapping[str, Any]) -> None:
        self.name = name
        self.description = description
        self.schema = schema

    def described(self, schema: str) -> dict[str, Any]:
        """The function as JSON.

        Args:
            schema: The vendor's name of the field that has the schema.
        """
        told = {"description": self.description} if self.description else {}
        return {"name": self.name, **told, schema: self.schema}


class Offer(Function):
    """An action of the Loop that a model is offered as a function."""

    __slots__ = ("_make", "_parts")

    def __init__(
        self, name: str, description: str, make: Callable[..., Action], **parts: str
    ) -> None:
        super().__init__(name, description, _texts(parts))
        self._make = make
        self._parts = tuple(parts)

    def action(self, arguments: Mapping[str, Any]) -> Action:
        """The action for a call with these arguments.

        Raises:
            ValueError: The arguments do not fit.
        """
        if set(arguments) != set(self._parts) or not all(
            isinstance(value, str) for value in arguments.values()
        ):
            raise ValueError(
                f"arguments: {self.name} takes exactly these, each a string: "
                f"{', '.join(self._parts)}; nothing was done; correct the arguments and call again"
            )
        return self._make(**arguments)

    def arguments(self, action: Action) -> dict[str, Any]:
        """The arguments of the call for an action."""
        return {part: getattr(action, part) for part in self._parts}


def _texts(parts: Mapping[str, str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": parts[name]} for name in parts},
        "required": list(parts),
        "additionalProperties": False,
    }


def _delegate(verb: Any) -> Callable[..., Action]:
    return lambda **parts: Delegate(verb, **parts)


OFFERS: Final[Mapping[str, Offer]] = {
    offer.name: offer
    for offer in (
        Offer(
            "ask_user",
            "Ask the user a question, and wait for the answer.",
            AskUser,
            question="What to ask.",
        ),
        Offer("think", "Note a thought, and go on.", Thought, text="The thought."),
        Offer("push_goal", "Take on a goal below the current one.", PushGoal, text="The goal."),
        Offer("complete_goal", "Say that the current goal is reached.", CompleteGoal, note="How."),
        Offer(
            "delegate",
            "Give work to another agent, which begins at once. The result names the child.",
            _delegate("spawn"),
            instructions="What to do.",
            summary="A short title.",
        ),
        Offer(
            "join", "Wait for a child, and get its result.", _delegate("join"), child="Its name."
        ),
        Offer("cancel", "End a child.", _delegate("cancel"), child="Its name."),
        Offer(
            "schedule",
            "Pause, and go on not before a moment.",
            Schedule,
            at="ISO 8601 with an offset.",
            reason="Why.",
        ),
        Offer("stop", "End the work without an answer.", Stop, reason="Why."),
    )
}
"""All offers, by name."""


def offered(names: Collection[str]) -> Sequence[Offer]:
    """The offers of these names.

    Raises:
        InvalidValue: It is not a list of names, there is no such offer, or one is named twice.
    """
    given = edges.several(names.keys() if isinstance(names, Mapping) else names, "offers", "names")
    for index, name in enumerate(given):
        if not isinstance(name, str) or name not in OFFERS:
            raise InvalidValue("offers", f"has {edges.came(name)}; use only {', '.join(OFFERS)}")
        if name in given[:index]:
            raise InvalidValue("offers", f"has {name} twice; name it once")
    return tuple(OFFERS[name] for name in given)


def functions(tools: Sequence[Tool], offers: Sequence[Offer]) -> list[Function]:
    """The functions that a model may call: the tools, and the offers whose name no tool has."""
    known = {tool.name for tool in tools}
    shown = [Function(tool.name, tool.description, tool.input_schema) for tool in tools]
    return [*shown, *(offer for offer in offers if offer.name not in known)]


def offer_of(action: Action) -> Offer | None:
    """The offer for an action; None if no offer makes such an action."""
    if isinstance(action, Delegate):
        return OFFERS[{"spawn": "delegate"}.get(action.verb, action.verb)]
    return _BY_KIND.get(kind_of(action))


_BY_KIND: Final = {
    kind_of(AskUser("")): OFFERS["ask_user"],
    kind_of(Thought("")): OFFERS["think"],
    kind_of(PushGoal("")): OFFERS["push_goal"],
    kind_of(CompleteGoal()): OFFERS["complete_goal"],
    kind_of(Schedule("")): OFFERS["schedule"],
    kind_of(Stop()): OFFERS["stop"],
}
