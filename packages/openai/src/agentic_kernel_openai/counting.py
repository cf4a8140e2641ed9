"""Counting: the tokens of a prompt, counted by the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentic_kernel_engine.providers.reading import got

from .caching import is_own

_OF_RESPONSES: Final = frozenset(
    "model instructions tools tool_choice parallel_tool_calls text reasoning".split()
)
"""The fields of a request that the counter of the Responses API takes, beside the input."""
_OF_CHAT: Final = ("model", "tools", "tool_choice")


async def counted_responses(client: Any, model: str, request: Mapping[str, Any]) -> Any:
    """Return the tokens of a prompt by the counter of the Responses API."""
    asked = {name: request[name] for name in _OF_RESPONSES & request.keys()}
    said = {"input": request["extra_body"]["input"]}
    return got(await client.responses.input_tokens.count(**asked, extra_body=said), "input_tokens")


async def counted_chat(client: Any, model: str, request: Mapping[str, Any]) -> Any:
    """Return the tokens of a prompt by the counter that llama.cpp has; OpenAI has none for chat."""
    if is_own(client):
        return None
    asked = {name: request[name] for name in _OF_CHAT if name in request}
    body = {**asked, "messages": request["extra_body"]["messages"]}
    told = await client.post("/chat/completions/input_tokens", cast_to=object, body=body)
    return got(told, "input_tokens")
