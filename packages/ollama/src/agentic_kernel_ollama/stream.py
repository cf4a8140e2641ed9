"""Stream: builds a reply from the parts of an answer; a whole answer is one part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from agentic_kernel_engine.loop import Delta
from agentic_kernel_engine.providers import Answer, Malformed, Reader, Unusable
from agentic_kernel_engine.providers import failures as names
from agentic_kernel_engine.providers.reading import arguments, count, counted, got, several, text

COUNTS: Final = {"input_tokens": "prompt_eval_count", "output_tokens": "eval_count"}
"""By field of `Usage`: the API's count."""
DURATIONS: Final = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
LONGEST: Final = 10**18
"""The longest valid duration, in nanoseconds."""


class Reply(Reader):
    """The part of an answer that has arrived so far.

    Ollama does not number the parts, so their order cannot be checked. The SDK gives no ids of its
    calls, so the step and the order of the calls make their ids.
    """

    def __init__(self, step: int, parallel: bool) -> None:
        super().__init__(step, parallel=parallel)
        self._durations: dict[str, int] = {}

    def read(self, event: Any) -> Iterator[Delta]:
        """See `Reader`."""
        self.model = text(event, "model") or self.model
        message = got(event, "message")
        yield from self.tell(text(message, "thinking"), "reasoning")
        yield from self.tell(text(message, "content"))
        for call in several(message, "tool_calls"):
            function = got(call, "function")
            yield from self.call("", text(function, "name"), arguments(function, "arguments"))
        if got(event, "done"):
            self.done, self.reason = True, text(event, "done_reason")
            self.count = counted(event, COUNTS)
            taken = {name: count(event, name, LONGEST) for name in DURATIONS}
            self._durations = {name: time for name, time in taken.items() if time}

    def after(self, event: Any) -> None:
        """See `Reader`."""
        raise Malformed("the answer went on after its end")

    def answer(self) -> Answer:
        """See `Reader`.

        A model needs its thinking back only as long as its calls go on.
        """
        thinking = self.told("reasoning")
        if self.reason == "length":
            raise Unusable(
                names.MAX_TOKENS,
                "the answer reached its token limit or the end of the model's context; raise "
                "max_tokens, or num_ctx in options=, or the run's limits if less is left of them",
                text=self.told() or None,
            )
        return self.kept(
            items=[{"thinking": thinking}] if thinking and self.calls else None,
            further={"durations": self._durations} if self._durations else {},
        )
