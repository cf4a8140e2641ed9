"""ChatReader: reads the answers of Chat Completions, streamed or whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from agentic_kernel_engine.loop import Delta
from agentic_kernel_engine.providers import Answer, Asked, Counted, Malformed, Reader
from agentic_kernel_engine.providers.reading import counted, got, several, text

_ENDS: Final[dict[str, Any]] = {"length": "length", "content_filter": "filter"}
_REASONING: Final = ("reasoning_content", "reasoning")
"""Fields in which compatible servers put a model's reasoning; the API itself has no such field."""


_COUNTS: Final = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "cached_tokens": "prompt_tokens_details.cached_tokens",
    "reasoning_tokens": "completion_tokens_details.reasoning_tokens",
    "written": "prompt_tokens_details.cache_write_tokens",
}


class _Call:
    """A call whose pieces are still arriving."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []

    def asked(self) -> Asked:
        return Asked(self.id, self.name, "".join(self.arguments))


class ChatReader(Reader):
    """Reads a stream of chunks.

    Each piece of a call names its call. The reader refuses a piece that does not fit its call, and
    a piece after the end of the answer: both show that the stream is damaged.
    """

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[_Call] = []
        self._end = ""
        self._usage: Any = None
        self._model = ""
        self._whole = False

    def read(self, event: Any) -> Sequence[Delta]:
        """See `Reader`."""
        self._model = self._model or text(event, "model")
        usage = got(event, "usage")
        if usage is not None:
            self._usage = usage
        pieces: list[Delta] = []
        for choice in several(event, "choices"):
            if got(choice, "index") in (0, None):
                pieces += self._delta(got(choice, "delta"))
                self._finish(text(choice, "finish_reason"), usage)
        return pieces

    def answer(self) -> Answer:
        """See `Reader`."""
        if not self._end and not self._whole:
            raise Malformed("the stream ended before the answer was complete")
        if self._end == "tool_calls" and not self._calls:
            raise Malformed("the finish_reason of the answer is tool_calls, but it has no calls")
        return Answer(
            text=self.told(),
            reasoning=self.told("reasoning"),
            refusal=self.told("refusal"),
            calls=[call.asked() for call in self._calls],
            end=_ENDS.get(self._end, "stop"),
            usage=counted(self._usage, _COUNTS),
            model=self._model,
        )

    def whole(self, response: Any) -> None:
        """See `Reader`."""
        self._usage, self._whole = got(response, "usage"), True
        choices = several(response, "choices")
        if not choices:
            raise Malformed("the response has no choices, so it has no answer")
        message = got(choices[0], "message")
        self._model = text(response, "model")
        self._said(message)
        for call in several(message, "tool_calls"):
            self._calls.append(_Call())
            self._piece(self._calls[-1], call)
        self._end = text(choices[0], "finish_reason")

    def used(self) -> Counted | None:
        """See `Reader`. Some servers report the usage so far with every chunk."""
        return counted(self._usage, _COUNTS) if self._end or self._whole else None

    def _delta(self, delta: Any) -> list[Delta]:
        pieces = self._said(delta)
        for call in several(delta, "tool_calls"):
            self._no_more_behind_the_end()
            piece = self._piece(self._called(call), call)
            if piece:
                pieces.append(Delta(piece, "arguments"))
        return pieces

    def _said(self, part: Any) -> list[Delta]:
        said, refused = text(part, "content"), text(part, "refusal")
        thought = next((found for name in _REASONING if (found := text(part, name))), "")
        if said or refused or thought:
            self._no_more_behind_the_end()
        self.tell(refused, "refusal")
        return [*self.tell(thought, "reasoning"), *self.tell(said)]

    def _called(self, call: Any) -> _Call:
        """Return the call that a piece belongs to."""
        index, calls = got(call, "index"), self._calls
        if index is None:
            # Some servers send no index, and send each call in one piece.
            index = len(calls) if got(call, "id") or not calls else len(calls) - 1
        if type(index) is not int or not 0 <= index <= len(calls):
            raise Malformed(
                f"a piece is of call {ascii(index)[:20]}, but only {len(calls)} calls have begun"
            )
        if index == len(calls):
            calls.append(_Call())
        return calls[index]

    def _piece(self, call: _Call, piece: Any) -> str:
        function = got(piece, "function")
        id, name = text(piece, "id"), text(function, "name")
        if (id and call.id and id != call.id) or (name and call.name and name != call.name):
            raise Malformed("the pieces of one call have different ids or names")
        call.id, call.name = call.id or id, call.name or name
        arguments = text(function, "arguments")
        call.arguments.append(arguments)
        return arguments

    def _finish(self, reason: str, usage: Any) -> None:
        if not reason:
            return
        # Some servers repeat the end in the chunk that reports the usage.
        if self._end and usage is None:
            raise Malformed("the answer ended twice")
        self._end = reason

    def _no_more_behind_the_end(self) -> None:
        if self._end:
            raise Malformed("the answer went on after its end")
