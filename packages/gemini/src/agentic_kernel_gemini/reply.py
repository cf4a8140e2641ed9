"""Reply: reads an answer from its parts; a whole answer is one event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from agentic_kernel_engine.loop import Delta
from agentic_kernel_engine.providers import Answer, Malformed, Reader
from agentic_kernel_engine.providers.reading import arguments, counted, got, says, several, text

from .failures import ENDS, UNUSABLE
from .hosting import cite

_COUNTS: Final = {
    "input_tokens": "prompt_token_count tool_use_prompt_token_count",
    "output_tokens": "candidates_token_count thoughts_token_count",
    "cached_tokens": "cached_content_token_count",
    "reasoning_tokens": "thoughts_token_count",
}
_TELLING: Final = ("candidates", "usage_metadata", "prompt_feedback", "model_version")
"""The parts of an event that say anything; the SDK drops what it does not know."""


class Reply(Reader):
    """The part of an answer that has arrived so far.

    The API does not number the events, so their order cannot be checked.
    """

    def read(self, event: Any) -> Iterator[Delta]:
        """See `Reader`."""
        candidates = [each for each in several(event, "candidates") if not got(each, "index")]
        if not all(map(says, candidates)) or not any(got(event, name) for name in _TELLING):
            raise Malformed("an event of the stream has none of the parts of an answer")
        if self.done and candidates:
            raise Malformed("the answer went on after its end")
        self.model = text(event, "model_version") or self.model
        self.count = counted(got(event, "usage_metadata"), _COUNTS) or self.count
        blocked = text(got(event, "prompt_feedback"), "block_reason")
        self.reason = "SAFETY" if blocked else self.reason
        for candidate in candidates:
            for part in several(got(candidate, "content"), "parts"):
                yield from self._take(part)
            cite(self.sources, candidate)
            self.reason = text(candidate, "finish_reason")
        self.done = bool(self.reason)

    def answer(self) -> Answer:
        """See `Reader`."""
        if UNUSABLE.fullmatch(self.reason):
            raise Malformed(f"the server could not end the answer: {self.reason}")
        return self.kept(end=ENDS.get(self.reason, "stop"), items=self.items())

    def _take(self, part: Any) -> Iterator[Delta]:
        call = got(part, "function_call")
        if call is None:
            yield from self.tell(text(part, "text"), "reasoning" if got(part, "thought") else "")
        elif got(call, "will_continue") or got(call, "partial_args"):
            raise Malformed("the arguments of a call come in pieces, which is not supported")
        elif taken := self.call(text(call, "id"), text(call, "name"), arguments(call, "args")):
            yield from taken
        else:
            return
        made = part.model_dump(mode="json", by_alias=True, exclude_none=True)
        if made.keys() != {"text", "thought"}:  # A summary of thoughts is not sent back.
            self.parts.append(made)
