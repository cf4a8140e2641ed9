"""Builds the messages of Chat Completions from a conversation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentic_kernel_engine.providers import Heard, Message, Said, images_apart

from .documents import chat_file


def messages_of(told: str, messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return the messages of a conversation.

    Args:
        told: The instructions before the conversation; left out if empty.
    """
    chat: list[dict[str, Any]] = [{"role": "system", "content": told}] if told else []
    for message in images_apart(messages):
        if isinstance(message, Said):
            chat.append(_said(message))
        elif isinstance(message, Heard):
            _hear(chat, message)
        else:
            for result in message:
                chat.append({"role": "tool", "tool_call_id": result.id, "content": result.text})
    return chat


def _hear(chat: list[dict[str, Any]], heard: Heard) -> None:
    """Add a message of the user; some servers refuse two in a row, so it continues the last one."""
    images = [{"type": "image_url", "image_url": {"url": each.address}} for each in heard.images]
    files = map(chat_file, heard.documents)
    parts = [*files, {"type": "text", "text": heard.text}, *images]
    if chat and chat[-1]["role"] == "user":
        chat[-1]["content"] += parts
    else:
        content = parts if len(parts) > 1 else heard.text
        chat.append({"role": "user", "content": content})


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
