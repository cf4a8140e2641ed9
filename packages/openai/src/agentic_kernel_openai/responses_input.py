"""Builds the input items of the Responses API from a conversation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentic_kernel_engine.providers import Document, Heard, Image, Message, Said
from agentic_kernel_engine.providers.reading import stored

from .documents import response_file
from .hosting import WISH, approval


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
            items += [approval(id, message) for id in wished]
            wished = []
            if isinstance(message, Heard) and not message.shown:
                continue
        if isinstance(message, Heard):
            items.append({"role": "user", "content": _content(*message)})
        elif isinstance(message, Said):
            kept = message.kept(_called)
            items += kept or _said(message)
            wished = [stored(each, "id") for each in kept if each.get("type") == WISH]
        else:
            for result in message:
                form = {"type": "function_call_output", "call_id": result.id}
                items.append({**form, "output": _content(result.text, result.images)})
    return items


def _called(item: dict[str, Any]) -> str | None:
    return item["call_id"] if item.get("type") == "function_call" else None


def _said(said: Said) -> list[Any]:
    items: list[Any] = []
    if said.text:
        content = [{"type": "output_text", "text": said.text}]
        items.append({"type": "message", "role": "assistant", "content": content})
    for call in said.calls:
        form = {"call_id": call.id, "name": call.name, "arguments": call.json}
        items.append({"type": "function_call", **form})
    return items


def _content(text: str, images: Iterable[Image], documents: Iterable[Document] = ()) -> Any:
    files = [response_file(document) for document in documents]
    shown = [
        {"type": "input_image", "image_url": image.address, "detail": "auto"} for image in images
    ]
    return [*files, {"type": "input_text", "text": text}, *shown] if files or shown else text
