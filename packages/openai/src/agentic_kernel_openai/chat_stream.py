"""ChatReader: reads the answers of Chat Completions, streamed or whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentic_kernel_engine.loop import Delta
from agentic_kernel_engine.providers import Answer, Counted, Malformed, Reader
from agentic_kernel_engine.providers.reading import (
    arguments,
    checked,
    counted,
    got,
    number,
    says,
    several,
    text,
)

from .chat_messages import call_form
from .failures import Reported, not_of_the_answer

_ENDS: Final[dict[str, Any]] = {"length": "length", "content_filter": "filter"}
_REASONING: Final = ("reasoning_content", "reasoning")
"""Fields in which compatible servers put a model's reasoning; the API itself has no such field."""
_MESSAGE: Final = frozenset(
    "role content refusal tool_calls function_call audio annotations".split()
)
_CALL: Final = frozenset("id type function index".split())
_COUNTS: Final = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "cached_tokens": "prompt_tokens_details.cached_tokens",
    "reasoning_tokens": "completion_tokens_details.reasoning_tokens",
    "written": "prompt_tokens_details.cache_write_tokens",
}


class ChatReader(Reader):
    """Reads a stream of chunks.

    Each piece of a call names its call. The reader refuses a piece that does not fit its call, and
    a piece after the end of the answer: both show that the stream is damaged.
    """

    def __init__(self) -> None:
        super().__init__()
        self._more: defaultdict[int, dict[str, Any]] = defaultdict(dict)
        """By call: the fields that the API does not have."""
        self._unknown: dict[str, Any] = {}

    def read(self, event: Any) -> Sequence[Delta]:
        """See `Reader`."""
        self.model = self.model or text(event, "model")
        usage = got(event, "usage")
        if usage is not None:
            self.count = counted(usage, _COUNTS)
        elif got(event, "choices") is None:
            raise not_of_the_answer(event)
        pieces: list[Delta] = []
        for choice in several(event, "choices"):
            if not number(choice, "index"):
                _check(choice)
                pieces += self._delta(got(choice, "delta"))
                reason = text(choice, "finish_reason")
                if reason and self.reason and usage is None:
                    # Some servers repeat the end, but in the chunk that reports the usage.
                    raise Malformed("the answer ended twice")
                self.reason = reason or self.reason
                self.ended = bool(self.reason)
        return pieces

    def whole(self, response: Any) -> None:
        """See `Reader`."""
        self.count, self.done = counted(got(response, "usage"), _COUNTS), True
        choices = several(response, "choices")
        if not choices:
            raise not_of_the_answer(response)
        _check(choices[0])
        message = got(choices[0], "message")
        self.model, self.reason = text(response, "model"), text(choices[0], "finish_reason")
        self._said(message)
        for place, call in enumerate(several(message, "tool_calls")):
            self._piece(call, place)

    def answer(self) -> Answer:
        """See `Reader`."""
        if self.reason == "tool_calls" and not self._incoming:
            raise Malformed("the finish_reason of the answer is tool_calls, but it has no calls")
        # A server may want back the fields that only it has.
        unknown = self._incoming and (self._unknown or any(self._more.values()))
        return self.kept(
            refusal=self.told("refusal"),
            items=[self._message()] if unknown else None,
            end=_ENDS.get(self.reason, "stop"),
        )

    def used(self) -> Counted | None:
        """See `Reader`. Some servers report the usage so far with every chunk."""
        return self.count if self.reason or self.done else None

    def _delta(self, delta: Any) -> list[Delta]:
        pieces, calls = self._said(delta), several(delta, "tool_calls")
        for call in calls:
            pieces += self._piece(call, number(call, "index"))
        if self.reason and (pieces or calls or text(delta, "refusal")):
            raise Malformed("the answer went on after its end")
        return pieces

    def _said(self, part: Any) -> list[Delta]:
        _gather(self._unknown, part, _MESSAGE)
        (said, considered), refused = _content(part), text(part, "refusal")
        thought = next((found for name in _REASONING if (found := text(part, name))), considered)
        self.tell(refused, "refusal")
        return [*self.tell(thought, "reasoning"), *self.tell(said)]

    def _piece(self, call: Any, index: int | None) -> list[Delta]:
        function = got(call, "function")
        id, name = text(call, "id"), text(function, "name")
        # Some servers send the arguments as an object.
        is_object = isinstance(got(function, "arguments"), Mapping)
        told = (arguments if is_object else text)(function, "arguments")
        place = self.place(index, id, name)
        _gather(self._more[place], call, _CALL)
        return self.piece(place, id, name, told)

    def _message(self) -> dict[str, Any]:
        """Return the message with all its fields."""
        calls = [
            {**self._more[place], **call_form(*call)} for place, call in enumerate(self.pieced())
        ]
        said = {"role": "assistant", "content": self.told() or None, "tool_calls": calls}
        return {**self._unknown, **said}


def _check(choice: Any) -> None:
    """Refuse a choice that is no part of an answer.

    Raises:
        Malformed: It says nothing but its number.
        Reported: An aggregator of servers reports with it that the answer broke off.
    """
    if not says(choice, "index"):
        raise Malformed("a choice of an event has no delta and no finish_reason")
    if got(choice, "error") is not None:
        raise not_of_the_answer(choice)
    if text(choice, "finish_reason") == "error":
        code, said = "server_error", "the server ended the answer with an error"
        raise Reported({"code": code, "message": said})


def _content(part: Any) -> tuple[str, str]:
    """Return the text of a message and its reasoning; some servers send both in parts."""
    if not isinstance(got(part, "content"), list):
        return text(part, "content"), ""
    said: list[str] = []
    thought: list[str] = []
    for each in several(part, "content"):
        kind = text(each, "type")
        if kind == "text":
            said.append(text(each, "text"))
        elif kind == "thinking":
            thought += [text(inner, "text") for inner in several(each, "thinking")]
        else:
            raise Malformed(f"a part of the content is {kind[:40] or 'of no type'}, not text")
    return "".join(said), "".join(thought)


def _gather(unknown: dict[str, Any], part: Any, known: frozenset[str]) -> None:
    """Add the fields of a piece that the API does not have; texts and lists go on where they are.

    Raises:
        Malformed: No store accepts a value.
    """
    fields = part if isinstance(part, Mapping) else getattr(part, "model_extra", None) or {}
    for name, value in fields.items():
        if name in known or value is None:
            continue
        checked(value, name)
        before = unknown.get(name)
        joins = isinstance(value, str | list) and isinstance(before, type(value))
        unknown[name] = before + value if joins else value
