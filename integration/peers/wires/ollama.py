"""Ollama's chat.

See https://github.com/ollama/ollama/blob/main/docs/api.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .wire import End, encoded


class Ollama:
    """See `Wire`."""

    name = "ollama"
    path = "/api/chat"
    streamed = "application/x-ndjson"

    def text(self, model: str, pieces: Sequence[str], end: End = "stop") -> list[bytes]:
        said = [_line(model, {"role": "assistant", "content": piece}) for piece in pieces]
        return [*said, _last(model, end)]

    def call(
        self,
        model: str,
        tool: str,
        arguments: Sequence[str],
        end: End = "calls",
        said: Sequence[str] = (),
    ) -> list[bytes]:
        # Arguments are an object here, not a text, and come in one piece.
        function = {"name": tool, "arguments": None}
        message = {"role": "assistant", "content": "", "tool_calls": [{"function": function}]}
        given = '"arguments": ' + "".join(arguments)
        line = _line(model, message).replace(b'"arguments": null', given.encode())
        before = [_line(model, {"role": "assistant", "content": piece}) for piece in said]
        return [*before, line, _last(model, end)]

    def refusal(self, model: str, text: str) -> list[bytes]:
        return self.text(model, [text])  # It has no other form for it.

    def whole(self, model: str, text: str) -> bytes:
        message = {"role": "assistant", "content": text}
        return encoded({**json.loads(_last(model, "stop")), "message": message})

    def error(self, status: int, message: str, code: str | None = None) -> bytes:
        if code == "context_length":
            message = "the input length exceeds the context length"
        elif code == "model":
            message = f"model '{message}' not found"
        return encoded({"error": message})

    def broken(self, message: str) -> list[bytes]:
        return [encoded({"error": message}) + b"\n"]


def _line(model: str, message: dict[str, Any], **beside: Any) -> bytes:
    head = {"model": model, "created_at": "2026-01-01T00:00:00Z"}
    return encoded({**head, "message": message, "done": False, **beside}) + b"\n"


def _last(model: str, end: End) -> bytes:
    counts = {"total_duration": 1, "prompt_eval_count": 7, "eval_count": 3}
    reason = "length" if end == "length" else "stop"
    message = {"role": "assistant", "content": ""}
    return _line(model, message, done=True, done_reason=reason, **counts)
