"""Replies: the bytes of Chat Completions, with every deviation that a server is known for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

ANSWER: Final = "It is 3."
USAGE: Final = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
_HEAD: Final = {"id": "chatcmpl-1", "created": 1, "model": "m"}


@dataclass(frozen=True, slots=True)
class Reply:
    """One response of a server."""

    body: bytes
    status: int = 200
    kind: str = "application/json"
    headers: tuple[tuple[str, bytes], ...] = ()


def chunk(reason: str | None = None, *, beside: Any = None, **delta: Any) -> dict[str, Any]:
    """One event of a stream; ``beside`` are fields of its choice."""
    choice = {"index": 0, "delta": delta, "finish_reason": reason, **(beside or {})}
    return {**_HEAD, "object": "chat.completion.chunk", "choices": [choice]}


def call(arguments: Any, *, index: Any = 0, id: Any = "call_1", name: Any = "add") -> Any:
    """A call of a tool, or a piece of one; a part that is None is left out."""
    told = {"name": name, "arguments": arguments}
    function = {key: value for key, value in told.items() if value is not None}
    parts = {"index": index, "id": id, "type": "function", "function": function}
    return {key: value for key, value in parts.items() if value is not None}


def calling(*calls: Any, reason: str | None = "tool_calls", **beside: Any) -> list[Any]:
    """The events of an answer that calls tools, a call or a piece of one in each."""
    return [*(chunk(tool_calls=[each], **beside) for each in calls), chunk(reason)]


def saying(*, reason: str | None = "stop") -> list[Any]:
    """The events of the final answer."""
    return [chunk(role="assistant", content="It is "), chunk(content="3."), chunk(reason)]


def stream(
    *events: Any,
    begins: bytes = b"",
    line: bytes = b"data: %s\n\n",
    ends: bytes = b"data: [DONE]\n\n",
) -> Reply:
    """A stream of events.

    Args:
        begins: Stands before the events.
        line: The form of an event.
        ends: Stands after the events.
    """
    told = b"".join(line % json.dumps(event).encode() for event in events)
    return Reply(begins + told + ends, kind="text/event-stream")


def whole(reason: str | None, *, beside: Any = None, top: Any = None, **message: Any) -> Reply:
    """An answer that is not streamed; ``beside`` are fields of its choice, ``top`` of all."""
    said = {"role": "assistant", **message}
    choice = {"index": 0, "message": said, "finish_reason": reason, **(beside or {})}
    body = {**_HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}
    return Reply(json.dumps({**body, **(top or {})}).encode())


def refused(status: int, body: Any, **headers: str) -> Reply:
    """A refusal; the body is JSON, or bytes as they are."""
    told = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "text/plain" if isinstance(body, bytes) else "application/json"
    named = tuple((name.replace("_", "-"), value.encode()) for name, value in headers.items())
    return Reply(told, status, kind, named)


def error(message: str, **parts: Any) -> Mapping[str, Any]:
    """A body of OpenAI's form."""
    return {"error": {"message": message, "param": None, **parts}}


USED: Final = {**_HEAD, "object": "chat.completion.chunk", "choices": [], "usage": USAGE}
"""The event that reports the usage."""
DONE: Final = stream(*saying(), USED)
"""The final answer, as OpenAI streams it."""
CALLED: Final = stream(*calling(call('{"a": 1, "b": 2}')), USED)
"""The call of a tool, as OpenAI streams it."""
