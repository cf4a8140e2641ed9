"""Google's ``generateContent`` and ``streamGenerateContent``.

See https://ai.google.dev/api/generate-content and
https://ai.google.dev/gemini-api/docs/troubleshooting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .wire import End, encoded, event

_ENDS: Final[dict[End, str]] = {
    "stop": "STOP",
    "calls": "STOP",
    "length": "MAX_TOKENS",
    "filtered": "SAFETY",
}
_STATUS: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_PER_DAY: Final = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}],
}


class Gemini:
    """See `Wire`."""

    name = "gemini"
    path = "GenerateContent"
    streamed = "text/event-stream"

    def text(self, model: str, pieces: Sequence[str], end: End = "stop") -> list[bytes]:
        return [*(_event(model, {"text": piece}) for piece in pieces), _last(model, end)]

    def call(
        self,
        model: str,
        tool: str,
        arguments: Sequence[str],
        end: End = "calls",
        said: Sequence[str] = (),
    ) -> list[bytes]:
        # Arguments are an object here, not a text, and come in one piece.
        part = {"functionCall": {"id": "call_1", "name": tool, "args": None}}
        given = b'"args": ' + "".join(arguments).encode()
        called = _event(model, part).replace(b'"args": null', given)
        before = [_event(model, {"text": piece}) for piece in said]
        return [*before, called, _last(model, end)]

    def refusal(self, model: str, text: str) -> list[bytes]:
        return self.text(model, [text])  # It has no other form for it.

    def whole(self, model: str, text: str) -> bytes:
        return encoded(_response(model, [{"text": text}], "stop"))

    def error(self, status: int, message: str, code: str | None = None) -> bytes:
        details = []
        if code == "context_length":
            message = f"The input token count exceeds the maximum number of tokens. {message}"
        elif code == "model":
            message = f"models/{message} is not found for API version v1"
        elif code == "quota":
            details = [_PER_DAY]
        return encoded(_error(status, message, details))

    def broken(self, message: str) -> list[bytes]:
        return [event(_error(503, message, []))]


def _event(model: str, part: dict[str, Any]) -> bytes:
    return event(_response(model, [part], None))


def _last(model: str, end: End) -> bytes:
    return event(_response(model, [{"text": ""}], end))


def _response(model: str, parts: list[dict[str, Any]], end: End | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    usage = {"promptTokenCount": 7, "totalTokenCount": 7}
    if end is not None:
        candidate["finishReason"] = _ENDS[end]
        usage = {"promptTokenCount": 7, "candidatesTokenCount": 3, "totalTokenCount": 10}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model}


def _error(status: int, message: str, details: list[Any]) -> dict[str, Any]:
    named = _STATUS.get(status, "UNKNOWN")
    return {"error": {"code": status, "message": message, "status": named, "details": details}}
