"""Stream: builds a reply from the parts of an answer; a whole answer is one part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agentic_kernel_engine import values
from agentic_kernel_engine.loop import LARGEST, Delta, Usage
from agentic_kernel_engine.providers import Answer, Asked, Counted, Malformed, Reader, Unusable
from agentic_kernel_engine.providers import failures as names

if TYPE_CHECKING:
    from ollama import ChatResponse

DURATIONS: Final = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
LONGEST: Final = 10**18
"""The longest valid duration, in nanoseconds."""


class Reply(Reader):
    """The part of an answer that has arrived so far.

    Ollama does not number the parts, so their order cannot be checked. The SDK gives no ids of its
    calls, so the step and the order of the calls make their ids.

    Args:
        step: The number of the Task's step that it answers.
        parallel: True to take all calls of an answer; False to take only the first one.
    """

    def __init__(self, step: int, parallel: bool) -> None:
        super().__init__()
        self._step = step
        self._parallel = parallel
        self._calls: list[tuple[str, str]] = []
        self._reason = ""
        self._read: int | None = None
        self._written: int | None = None
        self._durations: dict[str, int] = {}
        self._model = ""

    def read(self, event: ChatResponse) -> Iterator[Delta]:
        """See `Reader`."""
        part = event
        self._model = _text(part.model or self._model)
        message = part.message
        yield from self.tell(_text(message.thinking or ""), "reasoning")
        yield from self.tell(_text(message.content or ""))
        for call in message.tool_calls or ():
            if not call.function.name:
                raise Malformed("a call in the answer has no name")
            arguments = _json(call.function.arguments)
            self._calls.append((_text(call.function.name), arguments))
            yield Delta(arguments, "arguments")
        if part.done:
            self._end(part)

    def whole(self, response: ChatResponse) -> None:
        """See `Reader`."""
        for _ in self.read(response):
            pass

    def after(self, event: ChatResponse) -> None:
        """See `Reader`."""
        raise Malformed("the answer went on after its end")

    def answer(self) -> Answer:
        """See `Reader`.

        A model needs its thinking back only as long as its calls go on.
        """
        if not self.done:
            raise Malformed("the answer stopped before its end")
        text, thinking = self.told(), self.told("reasoning")
        if self._reason == "length":
            raise Unusable(
                names.MAX_TOKENS,
                "the answer reached its token limit or the end of the model's context; raise "
                "max_tokens, or num_ctx in options=, or the run's limits if less is left of them",
                text=text or None,
            )
        missing = {"input_tokens": self._read, "output_tokens": self._written}
        calls = self._calls if self._parallel else self._calls[:1]
        return Answer(
            text=text,
            reasoning=thinking,
            calls=[
                Asked(f"call_{self._step}_{index}", name, arguments)
                for index, (name, arguments) in enumerate(calls)
            ],
            reason=self._reason,
            items=[{"thinking": thinking}] if thinking and calls else None,
            further={"durations": self._durations} if self._durations else {},
            usage=Counted(Usage(self._read or 0, self._written or 0)),
            uncounted=[name for name, number in missing.items() if number is None],
            model=self._model,
        )

    def used(self) -> Counted | None:
        """See `Reader`."""
        if self._read is None or self._written is None:
            return None
        return Counted(Usage(self._read, self._written))

    def _end(self, part: ChatResponse) -> None:
        self.done = True
        self._reason = part.done_reason or ""
        self._read = _number(part.prompt_eval_count)
        self._written = _number(part.eval_count)
        taken = {name: _number(getattr(part, name), LONGEST) for name in DURATIONS}
        self._durations = {name: time for name, time in taken.items() if time}


def _text(text: str) -> str:
    values.check_text(text, "the answer")
    return text


def _json(arguments: Any) -> str:
    values.check(arguments, "the arguments of a call")
    return msgspec.json.encode(arguments).decode()


def _number(number: int | None, most: int = LARGEST) -> int | None:
    if number is not None and not 0 <= number <= most:
        raise Malformed(f"{number:.3g} is not a number of tokens or a duration: 0 to {most:,}")
    return number
