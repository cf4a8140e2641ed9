"""Hosting: the tools that OpenAI runs for the Responses API, and the sources that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentic_kernel_engine.providers import Citations
from agentic_kernel_engine.providers.reading import got, several

HOSTING: Final[Mapping[str, Mapping[str, Any]]] = {
    "web_search": {"type": "web_search"},
    "code": {"type": "code_interpreter", "container": {"type": "auto"}},
    "file_search": {"type": "file_search"},
    "mcp": {"type": "mcp", "require_approval": "always"},
}
"""By word: the tool. A person approves each call of an MCP server unless a field says otherwise."""
NEEDS: Final[Mapping[str, Sequence[str]]] = {
    "file_search": ("vector_store_ids",),
    "mcp": ("server_label",),
}


def cited(output: Sequence[Any]) -> Citations:
    """Return the sources that the messages of an answer name."""
    found = Citations()
    for item in output:
        if got(item, "type") != "message":
            continue
        for part in several(item, "content"):
            for each in several(part, "annotations"):
                title = got(each, "title") or got(each, "filename")
                found.add(got(each, "url"), title)
    return found
