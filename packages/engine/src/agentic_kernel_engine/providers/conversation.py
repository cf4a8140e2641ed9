"""Conversation: a step's transcript as the messages that every vendor's chat API knows.

Items that a vendor wants back unchanged, e.g. reasoning items or signed thinking, are in the plan
of its planner (`Plan.provider`), and are not given to another vendor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import starmap
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from ..plans.action import Action, AskUser, FinalAnswer, PushGoal, Thought, ToolCall
from ..plans.observation import Observation
from ..plans.plan import Plan
from ..plans.transcript import Entry, Summary, Transcript, Turn
from ..seams.planner import Context
from .attachments import Document, Image, documents_of, images_in, images_of
from .offers import offer_of

EMPTY: Final = "(nothing)"
"""The text in place of an empty one, because vendors refuse a message without text."""
GO_ON: Final = "Go on."
"""The message to the model between two answers, and after the last one, if a vendor needs one."""


class Heard(NamedTuple):
    """A message to the model."""

    text: str
    images: tuple[Image, ...] = ()
    documents: tuple[Document, ...] = ()

    @property
    def shown(self) -> tuple[Image | Document, ...]:
        """The documents, and then the images."""
        return (*self.documents, *self.images)


class Call(NamedTuple):
    """A function that the model called."""

    id: str
    name: str
    arguments: Mapping[str, Any]

    @property
    def json(self) -> str:
        """The arguments as JSON text."""
        return _json(self.arguments)


class Said(NamedTuple):
    """A message of the model."""

    text: str
    calls: tuple[Call, ...] = ()
    items: Sequence[Any] | None = None
    """The message in the vendor's own form, to be sent back unchanged; None if there is none."""
    before: str = ""
    """The fingerprint that `provider` was given for everything before the message."""

    def kept(self, called: Callable[[Any], str | None]) -> list[Any]:
        """The original items, if their calls are exactly those that have results; else none.

        Args:
            called: Returns the id or the name of an item's call; None if the item is not a call.
        """
        found = [mark for item in self.items or () if (mark := called(item)) is not None]
        same = len(found) == len(self.calls) and all(
            mark in (call.id, call.name) for mark, call in zip(found, self.calls, strict=True)
        )
        return list(self.items or ()) if same else []


class Result(NamedTuple):
    """The result of a call."""

    id: str
    name: str
    text: str
    failed: bool
    images: tuple[Image, ...] = ()


Message = Heard | Said | tuple[Result, ...]
W = TypeVar("W")

_encode: Final = msgspec.json.Encoder().encode


def conversation(context: Context, impl: str, *, answered: bool = False) -> list[Message]:
    """The transcript as messages; neighbouring messages of the user are joined.

    Args:
        impl: The planner's ``impl``; opaque items of other planners are left out.
        answered: True to follow each message of the model by another one, at least by `GO_ON`.

    Raises:
        InvalidValue: The Task's images or documents are not valid.
    """
    messages = wired(context, impl, _itself)
    return _answered(messages) if answered else messages


def wired(context: Context, impl: str, form: Callable[[Message], Sequence[W]]) -> list[W]:
    """The messages of `conversation` in the form of a vendor.

    A long conversation is sent again at each step. So the forms of its old messages are kept, and
    only new messages are converted.

    Args:
        impl: The planner's ``impl``; opaque items of other planners are left out.
        form: A function of a module. It returns the vendor's messages for a message, and depends
            on nothing else.

    Raises:
        InvalidValue: The Task's images or documents are not valid.
    """
    made: list[W] = []
    heard: Heard | None = None
    images, documents = images_of(context.task), documents_of(context.task)
    place = _place_of_images(context) if images or documents else -1
    for number, told in enumerate(_entries(context.transcript, impl, form)):
        for each in told:
            if isinstance(each, Heard):
                shown = (images, documents) if number == place else ()
                heard = _joined(heard, each.text, *shown)
                continue
            if heard is not None:
                made += form(heard)
                heard = None
            made.append(each)
    if heard is not None:
        made += form(heard)
    return made


def _itself(message: Message) -> tuple[Message]:
    return (message,)


def _entries(
    transcript: Sequence[Entry], impl: str, form: Callable[[Message], Sequence[W]]
) -> Sequence[Sequence[W | Heard]]:
    made = partial(_entry, impl, form)
    if isinstance(transcript, Transcript):
        return transcript.in_form((impl, form), made)
    return list(starmap(made, enumerate(transcript)))


def _entry(
    impl: str, form: Callable[[Message], Sequence[W]], number: int, entry: Entry
) -> Sequence[W | Heard]:
    """An entry in its form, except for a message to the model, which may still be joined."""
    if not isinstance(entry, Turn):
        short = "What came before, in short: " if isinstance(entry, Summary) else ""
        return (Heard(short + entry.text),)
    made: list[W | Heard] = []
    for message in _turn(number, entry, impl):
        if isinstance(message, Heard):
            made.append(message)
        else:
            made += form(message)
    return made


def images_apart(messages: Iterable[Message]) -> list[Message]:
    """Return messages for an API whose results have no images: these follow the results.

    The images of each result are a `Heard`, which names the result.
    """
    apart: list[Message] = []
    for message in messages:
        apart.append(message)
        if not isinstance(message, (Heard, Said)):
            for each in message:
                if each.images:
                    apart.append(Heard(f"What {each.name} ({each.id}) returned:", each.images))
    return apart


def _answered(messages: list[Message]) -> list[Message]:
    made: list[Message] = []
    for message, after in zip(messages, [*messages[1:], None], strict=True):
        made.append(message)
        if isinstance(message, Said) and (after is None or isinstance(after, Said)):
            made.append(Heard(GO_ON))
    return made


def _place_of_images(context: Context) -> int:
    """The place of the Task's own instructions in the transcript, or else of the first text there.

    Entries of an earlier Task may stand before the instructions.
    """
    texts = {
        number: entry.text
        for number, entry in enumerate(context.transcript)
        if not isinstance(entry, Turn | Summary)
    }
    own = [number for number, text in texts.items() if text == context.task.instructions]
    return own[-1] if own else next(iter(texts), -1)


def provider(
    impl: str, items: Sequence[Any] | None, calls: Sequence[str], before: str = ""
) -> dict[str, Any] | None:
    """The data that a planner puts into `Plan.provider`, so that `conversation` can give it back.

    Args:
        impl: The planner's ``impl``.
        items: The answer in the vendor's form; None if it can be made from the actions.
        calls: For each action, the vendor's id of its call; "" if the action itself has the id.
        before: A fingerprint of everything before the answer, if the vendor takes items back only
            if nothing before them has changed.
    """
    left: dict[str, Any] = {}
    if items is not None:
        left["items"] = list(items)
        if before:
            left["before"] = before
    if any(calls):
        left["calls"] = list(calls)
    return {"impl": impl, **left} if left else None


def _turn(number: int, turn: Turn, impl: str) -> list[Message]:
    messages: list[Message] = []
    plan = turn.plan
    left = _left_by(impl, plan)
    names = left.get("calls")
    calls: list[Call] = []
    results: list[Result] = []
    said = [plan.text] if plan.text else []
    heard: list[str] = []
    for index, (action, observation) in enumerate(
        zip(plan.actions, turn.observations, strict=True)
    ):
        if isinstance(action, ToolCall):
            id = action.id or f"call_{number}_{index}"
            call: Call | None = Call(id, action.tool, action.arguments)
        else:
            call = _offered(action, names[index]) if names else None
        if call is not None:
            calls.append(call)
            results.append(_result(call, observation))
            continue
        text = _text(action)
        if text and text != plan.text:
            said.append(text)
        if observation.error or observation.output is not None:
            heard.append(_outcome(observation, observation.output))
    items = left.get("items")
    if said or calls or items:
        before = left.get("before", "")
        messages.append(Said("\n\n".join(said), tuple(calls), items, before))
    if results:
        messages.append(tuple(results))
    if heard:
        messages.append(Heard("\n\n".join(heard)))
    return messages


def _left_by(impl: str, plan: Plan) -> Mapping[str, Any]:
    left = plan.provider
    if left is None or left.get("impl") != impl:
        return {}
    calls = left.get("calls")
    if calls is not None and len(calls) != len(plan.actions):
        return {}  # Middleware replaced the plan.
    return left


def _offered(action: Action, id: str) -> Call | None:
    """The call of an offer that made an action; None if the action was not a call.

    Args:
        id: Its id; empty for an action without a call.
    """
    offer = offer_of(action) if id else None
    return None if offer is None else Call(id, offer.name, offer.arguments(action))


def _text(action: Action) -> str:
    """The text of an action that was not a call."""
    match action:
        case Thought(text):
            return text
        case AskUser(question):
            return question
        case FinalAnswer(output):
            return output if isinstance(output, str) else _json(output)
        case PushGoal(text):
            return f"My next goal: {text}"
    return _json(action)


def _result(call: Call, observation: Observation) -> Result:
    output, images = images_in(observation.output)
    failed = bool(observation.error)
    if images and output is None and not failed:
        text = "an image" if len(images) == 1 else f"{len(images)} images"
    else:
        text = _outcome(observation, output)
    return Result(call.id, call.name, text, failed, images)


def _outcome(observation: Observation, output: Any) -> str:
    if observation.error:
        return f"{observation.error}: {observation.message}"
    if output is None:
        return "done"
    return (output if isinstance(output, str) else _json(output)) or EMPTY


def _joined(
    heard: Heard | None,
    text: str,
    images: tuple[Image, ...] = (),
    documents: tuple[Document, ...] = (),
) -> Heard:
    """One message to the model in place of one before it, if there is one, and of a further one."""
    if heard is None:
        return Heard(text or EMPTY, images, documents)
    both = f"{heard.text}\n\n{text or EMPTY}"
    return Heard(both, heard.images + images, heard.documents + documents)


def _json(value: Any) -> str:
    return _encode(value).decode()
