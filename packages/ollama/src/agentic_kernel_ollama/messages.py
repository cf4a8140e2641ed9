"""Messages: a conversation in the form of ``/api/chat``.

See https://github.com/ollama/ollama/blob/main/docs/api.md.
"""

from __future__ import annotations

from typing import Any

from agentic_kernel_engine.loop import Context
from agentic_kernel_engine.providers import GO_ON, Heard, Message, Said, images_apart, wired

from .failures import IMPL

Wire = dict[str, Any]


def wire(told: str, context: Context) -> list[Wire]:
    """Return the messages of a request.

    Args:
        told: The system text; left out if empty.
    """
    messages: list[Wire] = [{"role": "system", "content": told}] if told else []
    messages += wired(context, IMPL, _form)
    if messages and messages[-1]["role"] == "assistant":
        messages.append(_heard(Heard(GO_ON)))  # Otherwise the model would continue that answer.
    return messages


def _form(message: Message) -> list[Wire]:
    made: list[Wire] = []
    for each in images_apart([message]):  # Some models ignore the images of a result.
        if isinstance(each, Heard):
            made.append(_heard(each))
        elif isinstance(each, Said):
            made.append(_said(each))
        else:
            made += ({"role": "tool", "content": a.text, "tool_name": a.name} for a in each)
    return made


def _heard(heard: Heard) -> Wire:
    """Return a user message; it tells the address of an image that has no content."""
    # The SDK takes a string as a path and would send that file, so it is given bytes only.
    contents = [content for image in heard.images if (content := image.content)]
    elsewhere = [image.url or "not valid" for image in heard.images if not image.content]
    text = f"{heard.text} (not here: {', '.join(elsewhere)})" if elsewhere else heard.text
    message: Wire = {"role": "user", "content": text}
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
