"""What Chat Completions answers, streamed or whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from agentic_kernel_engine.loop import Delta, Usage
from agentic_kernel_engine.providers import Asked, Malformed

from .answer import Answer, End
from .reading import count, got, several, text

_ENDS: Final[dict[str, End]] = {"length": "length", "content_filter": "filter"}
_REASONING: Final = ("reasoning_content", "reasoning")
"""Where compatible servers put what a model thinks; the API itself has no place for it."""


class _Call:
    """A call that is being put together."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []

    def asked(self) -> Asked:
        return Asked(self.id, self.name, "".join(self.arguments))


class ChatReader:
    """Reads a stream of chunks.

    Each piece of a call says which call it belongs to; a piece that cannot belong there, and one
    that comes behind the end, show that something went wrong on the way.
    """

    def __init__(self) -> None:
        self.done = False
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_Call] = []
        self._end = ""
        self._usage: Any = None
        self._model = ""

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
        if not self._end:
            raise Malformed("the stream ended before the answer")
        return self._answer()

    def whole(self, completion: Any) -> Answer:
        """The answer in a completion that was not streamed; raises as `answer`."""
        choices = several(completion, "choices")
        if not choices:
            raise Malformed("the answer has no choice")
        message = got(choices[0], "message")
        self._model = text(completion, "model")
        self._usage = got(completion, "usage")
        self._said(message)
        for call in several(message, "tool_calls"):
            self._calls.append(_Call())
            self._piece(self._calls[-1], call)
        self._end = text(choices[0], "finish_reason")
        return self._answer()

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
        self._text.append(said)
        self._refusal.append(refused)
        self._reasoning.append(thought)
        pieces = [Delta(thought, "reasoning")] if thought else []
        if said:
            pieces.append(Delta(said))
        return pieces

    def _called(self, call: Any) -> _Call:
        """The call that a piece belongs to."""
        index, calls = got(call, "index"), self._calls
        if index is None:
            # Some servers do not count, and send each call in one piece.
            index = len(calls) if got(call, "id") or not calls else len(calls) - 1
        if type(index) is not int or not 0 <= index <= len(calls):
            raise Malformed(
                f"a piece of call {ascii(index)[:20]} came where {len(calls)} are known"
            )
        if index == len(calls):
            calls.append(_Call())
        return calls[index]

    def _piece(self, call: _Call, piece: Any) -> str:
        function = got(piece, "function")
        id, name = text(piece, "id"), text(function, "name")
        if (id and call.id and id != call.id) or (name and call.name and name != call.name):
            raise Malformed("the pieces of a call name two calls")
        call.id, call.name = call.id or id, call.name or name
        arguments = text(function, "arguments")
        call.arguments.append(arguments)
        return arguments

    def _finish(self, reason: str, usage: Any) -> None:
        if not reason:
            return
        # Some servers repeat the end where they say what was used up.
        if self._end and usage is None:
            raise Malformed("the answer ended twice")
        self._end = reason

    def _no_more_behind_the_end(self) -> None:
        if self._end:
            raise Malformed("the answer went on behind its end")

    def _answer(self) -> Answer:
        if self._end == "tool_calls" and not self._calls:
            raise Malformed("the answer says that it has calls, and has none")
        answer = Answer(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            refusal="".join(self._refusal),
            calls=[call.asked() for call in self._calls],
            end=_ENDS.get(self._end, "stop"),
            model=self._model,
        )
        usage = self._usage
        if usage is not None:
            read = got(usage, "prompt_tokens_details")
            wrote = got(usage, "completion_tokens_details")
            answer.written = count(read, "cache_write_tokens")
            answer.usage = Usage(
                count(usage, "prompt_tokens"),
                count(usage, "completion_tokens"),
                count(read, "cached_tokens"),
                count(wrote, "reasoning_tokens"),
            )
        return answer
