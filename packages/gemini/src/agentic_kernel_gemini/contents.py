"""Contents: a conversation in the form of the API; see ai.google.dev/api/caching#Content."""

from __future__ import annotations

from collections.abc import Sequence
from mimetypes import guess_type
from typing import Any, Final

from agentic_kernel_engine.providers import Heard, Image, Message, Result, Said

EMPTY: Final = "(nothing)"
"""Replaces an empty text."""
GO_ON: Final = "Go on."
"""User message between two answers, and after the last one: the API requires one there."""
UNSIGNED: Final = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""``skip_thought_signature_validator``: the signature of a call that another model made, by
ai.google.dev/gemini-api/docs/thought-signatures. The API refuses a first call without one."""

Part = dict[str, Any]


def contents(conversation: Sequence[Message]) -> list[Part]:
    """Return the contents of a request."""
    made: list[Part] = []
    ids: set[str] = set()
    for message in conversation:
        if isinstance(message, Said):
            _go_on(made)
            kept = _kept(message)
            ids = {each["functionCall"].get("id") for each in kept if "functionCall" in each}
            made.append({"role": "model", "parts": kept or _rebuilt(message)})
        elif isinstance(message, Heard):
            parts = [{"text": message.text or EMPTY}, *map(_image, message.images)]
            made.append({"role": "user", "parts": parts})
        else:
            made.append({"role": "user", "parts": [_result(each, ids) for each in message]})
    _go_on(made)
    return made


def _go_on(made: list[Part]) -> None:
    if made and made[-1]["role"] == "model":
        made.append({"role": "user", "parts": [{"text": GO_ON}]})


def _kept(said: Said) -> list[Part]:
    """Return the original parts of an answer if their calls are exactly those with results."""
    items = list(said.items or ())
    calls = [each["functionCall"] for each in items if "functionCall" in each]
    same = len(calls) == len(said.calls) and all(
        (call["name"], call.get("id", want.id)) == (want.name, want.id)
        for call, want in zip(calls, said.calls, strict=True)
    )
    return items if same else []


def _rebuilt(said: Said) -> list[Part]:
    parts: list[Part] = [{"text": said.text or EMPTY}] if said.text or not said.calls else []
    calls: list[Part] = [
        {"functionCall": {"name": each.name, "args": dict(each.arguments)}} for each in said.calls
    ]
    if calls:
        calls[0]["thoughtSignature"] = UNSIGNED
    return parts + calls


def _result(result: Result, ids: set[str]) -> Part:
    """Return the result of a call; it has an id if the API gave one to the call."""
    response = {"error" if result.failed else "output": result.text}
    made: Part = {"name": result.name, "response": response}
    if result.id in ids:
        made["id"] = result.id
    if result.images:
        made["parts"] = [_image(each) for each in result.images]
    return {"functionResponse": made}


def _image(image: Image) -> Part:
    if not image.url:
        return {"inlineData": {"mimeType": image.media_type, "data": image.data}}
    kind, _ = guess_type(image.url)
    return {"fileData": {"fileUri": image.url, **({"mimeType": kind} if kind else {})}}
