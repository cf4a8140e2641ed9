"""Anthropic's Messages.

See https://docs.anthropic.com/en/api/messages-streaming and https://docs.anthropic.com/en/api/errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .wire import End, encoded, event

_ENDS: Final[dict[End, str]] = {
    "stop": "end_turn",
    "calls": "tool_use",
    "length": "max_tokens",
    "filtered": "refusal",
}
_KINDS: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_USAGE: Final = {"input_tokens": 7, "output_tokens": 3}


class Messages:
    """See `Wire`."""

    name = "messages"
    path = "/messages"
    streamed = "text/event-stream"

    def text(self, model: str, pieces: Sequence[str], end: End = "stop") -> list[bytes]:
        return _stream(model, [_text(pieces)], end)

    def call(
        self,
        model: str,
        tool: str,
        arguments: Sequence[str],
        end: End = "calls",
        said: Sequence[str] = (),
    ) -> list[bytes]:
        block = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in arguments]
        return _stream(model, [*([_text(said)] if said else []), (block, deltas)], end)

    def refusal(self, model: str, text: str) -> list[bytes]:
        # What there is of an answer is not to be used; why is in the details, if anywhere.
        details = {"type": "refusal", "category": None, "explanation": text}
        return _stream(model, [_text([])], "filtered", stop_details=details)

    def whole(self, model: str, text: str) -> bytes:
        content = [{"type": "text", "text": text}]
        return encoded({**_message(model), "content": content, "stop_reason": "end_turn"})

    def error(self, status: int, message: str, code: str | None = None) -> bytes:
        # It documents no codes of their own for these: the message says which it is.
        if code == "context_length":
            message = f"prompt is too long: 210000 tokens > 200000 maximum. {message}"
        elif code == "quota":
            message = f"Your credit balance is too low to access the Anthropic API. {message}"
        elif code == "model":
            message = f"model: {message}"
        return encoded(_error(_KINDS.get(status, "invalid_request_error"), message))

    def broken(self, message: str) -> list[bytes]:
        return [_event(_error("overloaded_error", message), "error")]


_Block = tuple[dict[str, Any], Sequence[dict[str, Any]]]
"""A block of the content as it begins, and the deltas that make it whole."""


def _text(pieces: Sequence[str]) -> _Block:
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": each} for each in pieces]


def _stream(model: str, blocks: Sequence[_Block], end: End, **ended: Any) -> list[bytes]:
    ended = {"stop_reason": _ENDS[end], "stop_sequence": None, **ended}
    between: list[dict[str, Any]] = []
    for index, (block, deltas) in enumerate(blocks):
        place = {"index": index}
        between.append({"type": "content_block_start", **place, "content_block": block})
        between += [{"type": "content_block_delta", **place, "delta": each} for each in deltas]
        between.append({"type": "content_block_stop", **place})
    return [
        _event({"type": "message_start", "message": _message(model)}),
        *map(_event, between),
        _event({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 3}}),
        _event({"type": "message_stop"}),
    ]


def _message(model: str) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _USAGE,
    }


def _error(kind: str, message: str) -> dict[str, Any]:
    error = {"type": kind, "message": message}
    return {"type": "error", "error": error, "request_id": "req_peer"}


def _event(value: dict[str, Any], name: str | None = None) -> bytes:
    return event(value, name or str(value["type"]))
