"""Builds the messages of Chat Completions from a conversation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentic_kernel_engine.providers import Heard, Image, Message, Result, Said

from .documents import chat_file


def messages_of(told: str, messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return the messages of a conversation.

    In this API a tool's result cannot hold images, so they follow in a message of the user.

    Args:
        told: The instructions before the conversation; left out if empty.
    """
    chat: list[dict[str, Any]] = [{"role": "system", "content": told}] if told else []
    shown: list[Any] = []
    for message in messages:
        if isinstance(message, Heard):
            before = [*shown, *map(chat_file, message.documents)]
            parts = [*before, *_parts(message.text, message.images)] if before else None
            content = parts or _content(message.text, message.images)
            chat.append({"role": "user", "content": content})
            shown = []
            continue
        if shown:
            chat.append({"role": "user", "content": shown})
            shown = []
        if isinstance(message, Said):
            chat.append(_said(message))
        else:
            for result in message:
                chat.append({"role": "tool", "tool_call_id": result.id, "content": result.text})
                shown += _shown(result)
    if shown:
        chat.append({"role": "user", "content": shown})
    return chat


def _said(said: Said) -> dict[str, Any]:
    for kept in said.items or ():
        if [each["id"] for each in kept["tool_calls"]] == [call.id for call in said.calls]:
            return dict(kept)
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    if said.calls:
        message["tool_calls"] = [call_form(call.id, call.name, call.json) for call in said.calls]
    return message


def call_form(id: str, name: str, arguments: str) -> dict[str, Any]:
    """Return a call in the form of the API."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _shown(result: Result) -> list[Any]:
    if not result.images:
        return []
    return _parts(f"What {result.name} ({result.id}) returned:", result.images)


def _content(text: str, images: Iterable[Image]) -> Any:
    parts = _parts(text, images)
    return parts if len(parts) > 1 else text


def _parts(text: str, images: Iterable[Image]) -> list[Any]:
    shown = [{"type": "image_url", "image_url": {"url": image.address}} for image in images]
    return [{"type": "text", "text": text}, *shown]
