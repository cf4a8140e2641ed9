"""Stream: builds a reply from the parts of an answer; a whole answer is one part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agentic_kernel_engine import values
from agentic_kernel_engine.loop import LARGEST, Delta

from .failures import Inconsistent

if TYPE_CHECKING:
    from ollama import ChatResponse

DURATIONS: Final = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
LONGEST: Final = 10**18
"""The longest valid duration, in nanoseconds."""


class Reply:
    """The part of an answer that has arrived so far.

    Ollama does not number the parts, so their order cannot be checked.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        """The name of each function, and its arguments as JSON."""
        self.ended = False
        self.reason = ""
        """The reason why the answer ended."""
        self.read: int | None = None
        """Tokens of the prompt; None if the server did not report them."""
        self.written: int | None = None
        """Tokens of the answer; None if the server did not report them."""
        self.durations: dict[str, int] = {}
        """Durations above zero, in nanoseconds, by the API's names."""
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
        """Take the next part, and yield the pieces of text in it.

        Raises:
            Inconsistent: The part is not valid.
            ValueError: No store accepts a text or a value in the part.
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
                raise Inconsistent("a call in the answer has no name")
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
        raise Inconsistent(f"{number:.3g} is not a number of tokens or a duration: 0 to {most:,}")
    return number
