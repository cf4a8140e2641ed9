"""Messages: a conversation in the form of ``/api/chat``.

See https://github.com/ollama/ollama/blob/main/docs/api.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from agentic_kernel import InvalidValue, Task
from agentic_kernel_engine.providers import IMAGES, Heard, Image, Message, Result, Said, images_of

GO_ON: Final = "Go on."
"""User message after an answer at the end: otherwise the model would continue that answer."""

Wire = dict[str, Any]


def check_images(task: Task) -> None:
    """Refuse a Task whose images cannot be sent.

    Raises:
        InvalidValue: An image is an address, or not valid Base64.
    """
    _contents(images_of(task))


def wire(told: str, conversation: Sequence[Message]) -> list[Wire]:
    """Return the messages of a request.

    Args:
        told: The system text; left out if empty.
        conversation: The messages to convert.

    Raises:
        InvalidValue: See `check_images`.
    """
    messages: list[Wire] = [{"role": "system", "content": told}] if told else []
    for message in conversation:
        if isinstance(message, Heard):
            messages.append(_heard(message.text, _contents(message.images)))
        elif isinstance(message, Said):
            messages.append(_said(message))
        else:
            for result in message:
                messages.append({"role": "tool", "content": result.text, "tool_name": result.name})
            messages += [_shown(result) for result in message if result.images]
    if messages and messages[-1]["role"] == "assistant":
        messages.append(_heard(GO_ON, ()))
    return messages


def _contents(images: Sequence[Image]) -> list[bytes]:
    # The SDK takes a string as a path and would send that file, so it is given bytes only.
    contents = [data for image in images if (data := image.content)]
    if len(contents) < len(images):
        raise InvalidValue(
            f"Task.metadata[{IMAGES!r}]",
            "must have the content of each image as Base64; Ollama takes no addresses",
        )
    return contents


def _heard(text: str, images: Sequence[bytes]) -> Wire:
    message: Wire = {"role": "user", "content": text}
    return {**message, "images": list(images)} if images else message


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
    return _heard(text, [data for image in result.images if (data := image.content)])
