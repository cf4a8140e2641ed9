"""Shown: what the model is shown of a conversation, in one form for all wires.

Of a peer's requests it is read in the form of Chat Completions, into which aimock brings every
wire; of the reference, from the conversation that the engine makes of a step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentic_kernel_engine.loop import Context
from agentic_kernel_engine.providers import Heard, Image, Said, conversation, instructions

from ..peers.aimock import Received
from ..peers.exchange import Request

Line = tuple[str, str]
"""Who says what; the name of a call is left out, since not every wire has one."""


def meant(context: Context) -> list[Line]:
    """What a model should be shown at a step."""
    told = instructions(context, None)
    lines: list[Line] = [("system", told)] if told else []
    for message in conversation(context, "reference"):
        if isinstance(message, Heard):
            lines.append(("user", message.text))
        elif isinstance(message, Said):
            lines += [("assistant", message.text)] if message.text else []
            lines += [_call(call.name, call.arguments) for call in message.calls]
        else:
            lines += [("tool", result.text) for result in message]
    return lines


def pictured(context: Context) -> list[Line]:
    """The pictures that a model should be shown at a step."""
    images: list[Image] = []
    for message in conversation(context, "reference"):
        if isinstance(message, Heard):
            images += message.images
        elif not isinstance(message, Said):
            images += [image for result in message for image in result.images]
    return [("picture", image.data) for image in images]


def pictures(request: Request, picture: str) -> list[Line]:
    """The pictures in a request, whatever its wire: each of them is this one."""
    # Google's SDK writes Base64 for URLs.
    body = request.body.decode().replace("-", "+").replace("_", "/")
    return [("picture", picture)] * body.count(picture)


def received(request: Received) -> list[Line]:
    """What a model was shown by a request."""
    lines: list[Line] = []
    for message in request.body["messages"]:
        if text := _text(message.get("content")):
            lines.append((message["role"], _told(text) if message["role"] == "tool" else text))
        for call in message.get("tool_calls") or ():
            function = call["function"]
            lines.append(_call(function["name"], json.loads(function["arguments"])))
    return _results_first(lines)


def _call(name: str, arguments: Mapping[str, Any]) -> Line:
    return "call", f"{name} {json.dumps(dict(arguments), sort_keys=True)}"


def _text(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    return "".join(part.get("text", "") for part in content)


def _told(text: str) -> str:
    """The text of a result, which Google's wire wraps into an object."""
    for wrapped in ('{"output":', '{"error":'):
        if text.startswith(wrapped):
            return str(json.loads(text[len(wrapped) : -1]))
    return text


def _results_first(lines: Sequence[Line]) -> list[Line]:
    """Results in front of what the user says with them: in one message, aimock turns them round."""
    ordered: list[Line] = []
    for line in lines:
        at = len(ordered)
        while line[0] == "tool" and at and ordered[at - 1][0] == "user":
            at -= 1
        ordered.insert(at, line)
    return ordered
