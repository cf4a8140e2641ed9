"""Counting: the tokens of a prompt, counted by the server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

_BESIDE: Final = ("systemInstruction", "tools")
"""Parts of a prompt that the counter of the Gemini API does not take beside contents."""


async def counted(client: Any, model: str, request: Mapping[str, Any]) -> Any:
    """Return the tokens of a request's prompt, which the vendor counts without charge.

    The instructions, the functions and the form of the answer are counted as a text with their
    JSON.
    """
    beside = [request[name] for name in _BESIDE if name in request]
    beside += [each for each in (request["generationConfig"].get("responseJsonSchema"),) if each]
    contents = [*request["contents"]]
    if beside:
        text = json.dumps(beside, ensure_ascii=False)
        contents.append({"role": "user", "parts": [{"text": text}]})
    options = {"extra_body": {"contents": contents}, "retry_options": {"attempts": 1}}
    config = {"http_options": options}
    told = await client.aio.models.count_tokens(model=model, contents="-", config=config)
    return told.total_tokens
