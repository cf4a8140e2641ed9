"""OpenAI's Chat Completions.

See https://platform.openai.com/docs/api-reference/chat-streaming.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .openai_errors import openai_error
from .wire import End, encoded, event

_ENDS: Final[dict[End, str]] = {
    "stop": "stop",
    "calls": "tool_calls",
    "length": "length",
    "filtered": "content_filter",
}
_DONE: Final = b"data: [DONE]\n\n"
_USAGE: Final = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


class Chat:
    """See `Wire`."""

    name = "chat"
    path = "/chat/completions"
    streamed = "text/event-stream"

    def text(self, model: str, pieces: Sequence[str], end: End = "stop") -> list[bytes]:
        return self._stream(model, [{"content": piece} for piece in pieces], end)

    def call(
        self,
        model: str,
        tool: str,
        arguments: Sequence[str],
        end: End = "calls",
        said: Sequence[str] = (),
    ) -> list[bytes]:
        function = {"name": tool, "arguments": ""}
        begin = {"index": 0, "id": "call_1", "type": "function", "function": function}
        deltas: list[dict[str, Any]] = [{"content": piece} for piece in said]
        deltas.append({"tool_calls": [begin]})
        for piece in arguments:
            deltas.append({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        return self._stream(model, deltas, end)

    def refusal(self, model: str, text: str) -> list[bytes]:
        return self._stream(model, [{"refusal": text}], "stop")

    def whole(self, model: str, text: str) -> bytes:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return encoded({**_head(model, ""), "choices": [choice], "usage": _USAGE})

    def error(self, status: int, message: str, code: str | None = None) -> bytes:
        return encoded(openai_error(status, message, code))

    def broken(self, message: str) -> list[bytes]:
        return [event(openai_error(500, message, None)), _DONE]

    def _stream(self, model: str, deltas: Sequence[dict[str, Any]], end: End) -> list[bytes]:
        head = _head(model, ".chunk")
        begin: dict[str, Any] = {"role": "assistant", "content": None}
        choices = [_choice(delta, None) for delta in (begin, *deltas)]
        events = [
            event({**head, "choices": [choice]}) for choice in (*choices, _choice({}, _ENDS[end]))
        ]
        return [*events, event({**head, "choices": [], "usage": _USAGE}), _DONE]


def _choice(delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": reason}


def _head(model: str, suffix: str) -> dict[str, Any]:
    kind = "chat.completion" + suffix
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": model}
