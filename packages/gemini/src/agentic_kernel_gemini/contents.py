"""Contents: a conversation in the form of the API; see ai.google.dev/api/caching#Content."""

from __future__ import annotations

from collections.abc import Sequence
from mimetypes import guess_type
from typing import Any, Final

from agentic_kernel_engine.providers import Document, Heard, Image, Message, Result, Said, present

UNSIGNED: Final = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""``skip_thought_signature_validator``: the signature of a call that another model made, by
ai.google.dev/gemini-api/docs/thought-signatures. The API refuses a first call without one."""


def contents(conversation: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the contents of a request."""
    made: list[dict[str, Any]] = []
    ids: set[str | None] = set()
    for message in conversation:
        if isinstance(message, Said):
            kept = message.kept(_called)
            ids = {_called(each) for each in kept}
            made.append({"role": "model", "parts": kept or _rebuilt(message)})
        elif isinstance(message, Heard):
            parts = [{"text": message.text}, *map(_shown, message.shown)]
            made.append({"role": "user", "parts": parts})
        else:
            made.append({"role": "user", "parts": [_result(each, ids) for each in message]})
    return made


def _called(part: dict[str, Any]) -> str | None:
    call: dict[str, Any] = part.get("functionCall", {})
    return call.get("id") or call.get("name")


def _rebuilt(said: Said) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = [
        {"functionCall": {"name": each.name, "args": dict(each.arguments)}} for each in said.calls
    ]
    if calls:
        calls[0]["thoughtSignature"] = UNSIGNED
    return [{"text": said.text or "(nothing)"}, *calls] if said.text or not calls else calls


def _result(result: Result, ids: set[str | None]) -> dict[str, Any]:
    """Return the result of a call; it has an id if the API gave one to the call."""
    response = {"error" if result.failed else "output": result.text}
    id = result.id if result.id in ids else None
    parts = [_shown(each) for each in result.images] or None
    return {"functionResponse": present(name=result.name, response=response, id=id, parts=parts)}


def _shown(shown: Image | Document) -> dict[str, Any]:
    if not shown.url:
        return {"inlineData": {"mimeType": shown.media_type, "data": shown.data}}
    kind = shown.media_type or guess_type(shown.url)[0]
    return {"fileData": present(fileUri=shown.url, mimeType=kind)}
