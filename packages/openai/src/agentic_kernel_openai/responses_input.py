"""Builds the input items of the Responses API from a conversation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from agentic_kernel_engine.providers import Document, Heard, Image, Message, Said

WISH: Final = "mcp_approval_request"
YES: Final = ("yes", "approve", "approved")
"""The answers of a person that approve a call of a hosted MCP server."""


def items_of(messages: Iterable[Message]) -> list[Any]:
    """Return the items of a conversation.

    The original items of an answer are sent back unchanged if their calls are exactly the calls
    that have results. Otherwise the answer is rebuilt, because the API refuses a call without a
    result.
    """
    items: list[Any] = []
    wished: list[str] = []
    for message in messages:
        if wished:
            items += [_approval(id, message) for id in wished]
            wished = []
            if isinstance(message, Heard) and not message.images and not message.documents:
                continue
        if isinstance(message, Heard):
            items.append({"role": "user", "content": _heard(message)})
        elif isinstance(message, Said):
            kept = message.kept(_called)
            items += kept or _said(message)
            wished = [each["id"] for each in kept if each.get("type") == WISH]
        else:
            for result in message:
                output = _content(result.text, result.images)
                items.append(
                    {"type": "function_call_output", "call_id": result.id, "output": output}
                )
    return items


def _called(item: dict[str, Any]) -> str | None:
    return item["call_id"] if item.get("type") == "function_call" else None


def _approval(id: str, answer: Message) -> dict[str, Any]:
    """Return the answer to a request of a hosted MCP server; all but a yes is a refusal."""
    said = answer.text.strip() if isinstance(answer, Heard) else "other calls went first; ask again"
    approved = said.casefold().rstrip(".!") in YES
    form = {"type": "mcp_approval_response", "approval_request_id": id, "approve": approved}
    return form if approved else {**form, "reason": said}


def _said(said: Said) -> list[Any]:
    items: list[Any] = []
    if said.text:
        content = [{"type": "output_text", "text": said.text}]
        items.append({"type": "message", "role": "assistant", "content": content})
    for call in said.calls:
        form = {"call_id": call.id, "name": call.name, "arguments": call.json}
        items.append({"type": "function_call", **form})
    return items


def _heard(message: Heard) -> Any:
    if not message.documents:
        return _content(message.text, message.images)
    parts = _content(message.text, message.images)
    text = [{"type": "input_text", "text": parts}] if isinstance(parts, str) else parts
    return [*map(_file, message.documents), *text]


def _file(document: Document) -> dict[str, Any]:
    if document.url:
        return {"type": "input_file", "file_url": document.url}
    return {"type": "input_file", "filename": document.name, "file_data": document.address}


def _content(text: str, images: Iterable[Image]) -> Any:
    shown = [
        {"type": "input_image", "image_url": image.address, "detail": "auto"} for image in images
    ]
    return [{"type": "input_text", "text": text}, *shown] if shown else text
