"""Messages: a conversation in the form of ``/api/chat``.

See https://github.com/ollama/ollama/blob/main/docs/api.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentic_kernel_engine.providers import GO_ON, Heard, Image, Message, Result, Said

Wire = dict[str, Any]


def wire(told: str, conversation: Sequence[Message]) -> list[Wire]:
    """Return the messages of a request.

    Args:
        told: The system text; left out if empty.
        conversation: The messages to convert.
    """
    messages: list[Wire] = [{"role": "system", "content": told}] if told else []
    for message in conversation:
        if isinstance(message, Heard):
            messages.append(_heard(message.text, message.images))
        elif isinstance(message, Said):
            messages.append(_said(message))
        else:
            for result in message:
                messages.append({"role": "tool", "content": result.text, "tool_name": result.name})
            messages += [_shown(result) for result in message if result.images]
    if messages and messages[-1]["role"] == "assistant":
        messages.append(_heard(GO_ON, ()))  # Otherwise the model would continue that answer.
    return messages


def _heard(text: str, images: Sequence[Image]) -> Wire:
    message: Wire = {"role": "user", "content": text}
    # The SDK takes a string as a path and would send that file, so it is given bytes only.
    contents = [content for image in images if (content := image.content)]
    return {**message, "images": contents} if contents else message


def _said(said: Said) -> Wire:
    message: Wire = {"role": "assistant", "content": said.text}
    if said.items:
        message["thinking"] = said.items[0]["thinking"]
    if said.calls:
        message["tool_calls"] = [
            {"function": {"name": call.name, "arguments": dict(call.arguments)}}
            for call in said.calls
        ]
    return message


def _shown(result: Result) -> Wire:
    """Return a user message with a tool's images: some models ignore those of a tool's message."""
    elsewhere = [image.url or "not valid" for image in result.images if not image.content]
    text = f"Images from {result.name}"
    if elsewhere:
        text += f" (not here: {', '.join(elsewhere)})"
    return _heard(text, result.images)
