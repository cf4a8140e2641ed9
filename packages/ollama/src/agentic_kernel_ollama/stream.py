"""Stream: the parts of an answer, put together; one that came at once is one part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agentic_kernel_engine import values
from agentic_kernel_engine.loop import Delta
from agentic_kernel_engine.plans.plan import LARGEST

from .failures import Inconsistent

if TYPE_CHECKING:
    from ollama import ChatResponse

DURATIONS: Final = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
LONGEST: Final = 10**18
"""Nanoseconds; what no duration reaches."""


class Reply:
    """An answer as far as it has come; the wire numbers nothing that could be out of place."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        """The name of each function, and its arguments as JSON."""
        self.ended = False
        self.reason = ""
        """Why it ended."""
        self.read: int | None = None
        """Tokens of the prompt; None if the server did not say."""
        self.written: int | None = None
        """Tokens of the answer; likewise."""
        self.durations: dict[str, int] = {}
        """In nanoseconds, by the API's names; those that are not zero."""
        self.model = ""
        self._text: list[str] = []
        self._thinking: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def thinking(self) -> str:
        return "".join(self._thinking)

    def take(self, part: ChatResponse) -> Iterator[Delta]:
        """Take the next part; the pieces of text in it.

        Raises:
            Inconsistent: It is none.
            ValueError: What it holds cannot be stored.
        """
        self.model = _text(part.model or self.model)
        message = part.message
        if message.thinking:
            self._thinking.append(_text(message.thinking))
            yield Delta(message.thinking, "reasoning")
        if message.content:
            self._text.append(_text(message.content))
            yield Delta(message.content)
        for call in message.tool_calls or ():
            if not call.function.name:
                raise Inconsistent("a call has no name")
            arguments = _json(call.function.arguments)
            self.calls.append((_text(call.function.name), arguments))
            yield Delta(arguments, "arguments")
        if part.done:
            self._end(part)

    def _end(self, part: ChatResponse) -> None:
        self.ended = True
        self.reason = part.done_reason or ""
        self.read = _number(part.prompt_eval_count)
        self.written = _number(part.eval_count)
        taken = {name: _number(getattr(part, name), LONGEST) for name in DURATIONS}
        self.durations = {name: time for name, time in taken.items() if time}


def _text(text: str) -> str:
    values.check_text(text, "the answer")
    return text


def _json(arguments: Any) -> str:
    values.check(arguments, "the arguments of a call")
    return msgspec.json.encode(arguments).decode()


def _number(number: int | None, most: int = LARGEST) -> int | None:
    if number is not None and not 0 <= number <= most:
        raise Inconsistent(f"{number:.3g} is no number of tokens, and no duration")
    return number
