"""OpenAI's Responses.

See https://platform.openai.com/docs/api-reference/responses-streaming.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .openai_errors import openai_error
from .wire import End, encoded, event

_USAGE: Final = {
    "input_tokens": 7,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 3,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 10,
}
_CUT: Final[dict[End, str]] = {"length": "max_output_tokens", "filtered": "content_filter"}


class Responses:
    """See `Wire`."""

    name = "responses"
    path = "/responses"
    streamed = "text/event-stream"

    def text(self, model: str, pieces: Sequence[str], end: End = "stop") -> list[bytes]:
        return _stream(model, [_said("output_text", "text", pieces)], end)

    def refusal(self, model: str, text: str) -> list[bytes]:
        return _stream(model, [_said("refusal", "refusal", [text])], "stop")

    def call(
        self,
        model: str,
        tool: str,
        arguments: Sequence[str],
        end: End = "calls",
        said: Sequence[str] = (),
    ) -> list[bytes]:
        before = [_said("output_text", "text", said)] if said else []
        return _stream(model, [*before, _called(len(before), tool, arguments)], end)

    def whole(self, model: str, text: str) -> bytes:
        return encoded(
            _response(model, "completed", [_message([_part("output_text", "text", text)])])
        )

    def error(self, status: int, message: str, code: str | None = None) -> bytes:
        return encoded(openai_error(status, message, code))

    def broken(self, message: str) -> list[bytes]:
        error = {"type": "error", "code": "server_error", "message": message, "param": None}
        return [event({**error, "sequence_number": 99}, "error")]


_Item = tuple[dict[str, Any], Sequence[dict[str, Any]], dict[str, Any]]
"""An item of the output as it begins, the events that make it whole, and the whole item."""


def _said(kind: str, field: str, pieces: Sequence[str]) -> _Item:
    """A message with one part of this kind, whose text is in this field; it is the first item."""
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    said = "".join(pieces)
    whole = _part(kind, field, said)
    more: dict[str, Any] = {"logprobs": []} if kind == "output_text" else {}
    between: list[dict[str, Any]] = [
        {"type": "response.content_part.added", **place, "part": _part(kind, field, "")},
        *({"type": f"response.{kind}.delta", **place, "delta": each, **more} for each in pieces),
        {"type": f"response.{kind}.done", **place, field: said, **more},
        {"type": "response.content_part.done", **place, "part": whole},
    ]
    return _message([]), between, _message([whole])


def _called(index: int, tool: str, arguments: Sequence[str]) -> _Item:
    """A call of a tool, at this place of the output."""
    kind = "response.function_call_arguments"
    place = {"item_id": "fc_1", "output_index": index}
    between: list[dict[str, Any]] = [
        {"type": f"{kind}.delta", **place, "delta": piece} for piece in arguments
    ]
    whole = "".join(arguments)
    between.append({"type": f"{kind}.done", **place, "name": tool, "arguments": whole})
    return _call(tool, ""), between, _call(tool, whole)


def _stream(model: str, items: Sequence[_Item], end: End) -> list[bytes]:
    """The stream of an answer; the end of the answer is that of its last item."""
    cut = _CUT.get(end)
    output = [{**done, "status": "completed"} for _, _, done in items]
    output[-1]["status"] = "incomplete" if cut else "completed"
    last = _response(model, output[-1]["status"], output)
    if cut:
        last["incomplete_details"] = {"reason": cut}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": _response(model, "in_progress", [])},
        {"type": "response.in_progress", "response": _response(model, "in_progress", [])},
    ]
    for index, (begun, between, _) in enumerate(items):
        place = {"output_index": index}
        events.append({"type": "response.output_item.added", **place, "item": begun})
        events += between
        events.append({"type": "response.output_item.done", **place, "item": output[index]})
    events.append({"type": f"response.{last['status']}", "response": last})
    return [
        event({**each, "sequence_number": number}, each["type"])
        for number, each in enumerate(events)
    ]


def _response(model: str, status: str, output: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": list(output),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": _USAGE if status != "in_progress" else None,
    }


def _message(content: Sequence[dict[str, Any]]) -> dict[str, Any]:
    status = "completed" if content else "in_progress"
    form = {"id": "msg_1", "type": "message", "role": "assistant"}
    return {**form, "status": status, "content": list(content)}


def _part(kind: str, field: str, text: str) -> dict[str, Any]:
    more: dict[str, Any] = {"annotations": [], "logprobs": []} if kind == "output_text" else {}
    return {"type": kind, field: text, **more}


def _call(tool: str, arguments: str) -> dict[str, Any]:
    form = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": tool}
    return {**form, "status": "in_progress", "arguments": arguments}
