"""Scripts: what the scripted provider answers, turn by turn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Fixture = Mapping[str, Any]


def calls(*wanted: tuple[str, Mapping[str, Any]], text: str = "") -> dict[str, Any]:
    """A turn that calls tools."""
    made = [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in wanted]
    return {"toolCalls": made} | ({"content": text} if text else {})


def says(text: str) -> dict[str, Any]:
    """A turn that answers."""
    return {"content": text}


def after(turn: int, response: Mapping[str, Any], **beside: Any) -> Fixture:
    """The response to a conversation in which the model answered so many times."""
    return {"match": {"turnIndex": turn}, "response": dict(response), **beside}


def story(pieces: int = 400, latency: int = 50) -> Fixture:
    """An answer that takes ``pieces`` times ``latency`` milliseconds."""
    return after(0, says("word " * pieces), latency=latency, chunkSize=5)
