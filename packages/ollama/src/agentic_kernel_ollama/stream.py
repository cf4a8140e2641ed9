"""Stream: builds a reply from the parts of an answer; a whole answer is one part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from agentic_kernel_engine import values
from agentic_kernel_engine.loop import LARGEST, Delta, Usage
from agentic_kernel_engine.providers import Answer, Counted, Malformed, Reader, Unusable
from agentic_kernel_engine.providers import failures as names
from agentic_kernel_engine.providers.reading import arguments

if TYPE_CHECKING:
    from ollama import ChatResponse

DURATIONS: Final = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
LONGEST: Final = 10**18
"""The longest valid duration, in nanoseconds."""


class Reply(Reader):
    """The part of an answer that has arrived so far.

    Ollama does not number the parts, so their order cannot be checked. The SDK gives no ids of its
    calls, so the step and the order of the calls make their ids.
    """

    _read: int | None = None
    _written: int | None = None

    def __init__(self, step: int, parallel: bool) -> None:
        super().__init__(step, parallel=parallel)
        self._durations: dict[str, int] = {}

    def read(self, event: ChatResponse) -> Iterator[Delta]:
        """See `Reader`."""
        part = event
        self.model = _text(part.model or self.model)
        message = part.message
        yield from self.tell(_text(message.thinking or ""), "reasoning")
        yield from self.tell(_text(message.content or ""))
        for call in message.tool_calls or ():
            if not call.function.name:
                raise Malformed("a call in the answer has no name")
            yield from self.call(
                "", _text(call.function.name), arguments(call.function, "arguments")
            )
        if part.done:
            self._end(part)

    def after(self, event: ChatResponse) -> None:
        """See `Reader`."""
        raise Malformed("the answer went on after its end")

    def answer(self) -> Answer:
        """See `Reader`.

        A model needs its thinking back only as long as its calls go on.
        """
        if not self.done:
            raise Malformed("the answer stopped before its end")
        thinking = self.told("reasoning")
        if self.reason == "length":
            raise Unusable(
                names.MAX_TOKENS,
                "the answer reached its token limit or the end of the model's context; raise "
                "max_tokens, or num_ctx in options=, or the run's limits if less is left of them",
                text=self.told() or None,
            )
        missing = {"input_tokens": self._read, "output_tokens": self._written}
        return self.kept(
            items=[{"thinking": thinking}] if thinking and self.calls else None,
            further={"durations": self._durations} if self._durations else {},
            usage=Counted(Usage(self._read or 0, self._written or 0)),
            uncounted=[name for name, number in missing.items() if number is None],
        )

    def used(self) -> Counted | None:
        """See `Reader`."""
        if self._read is None or self._written is None:
            return None
        return Counted(Usage(self._read, self._written))

    def _end(self, part: ChatResponse) -> None:
        self.done = True
        self.reason = part.done_reason or ""
        self._read = _number(part.prompt_eval_count)
        self._written = _number(part.eval_count)
        taken = {name: _number(getattr(part, name), LONGEST) for name in DURATIONS}
        self._durations = {name: time for name, time in taken.items() if time}


def _text(text: str) -> str:
    values.check_text(text, "the answer")
    return text


def _number(number: int | None, most: int = LARGEST) -> int | None:
    if number is not None and not 0 <= number <= most:
        raise Malformed(f"{number:.3g} is not a number of tokens or a duration: 0 to {most:,}")
    return number
