"""Counting: the tokens of a prompt, counted by the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .connector import messages_api

_COUNTED: Final = (
    "messages", "system", "tools", "tool_choice", "thinking", "output_config", "mcp_servers",
    "betas",
)  # fmt: skip
"""The fields of a request that its counter takes."""


async def counted(client: Any, model: str, request: Mapping[str, Any]) -> int:
    """Return the tokens of a request's prompt, which the vendor counts without charge."""
    asked = {name: request[name] for name in _COUNTED if name in request}
    told = await messages_api(client, request).count_tokens(model=model, **asked)
    tokens: int = told.input_tokens
    return tokens
