"""Hosting: the tools that Anthropic runs, and the sources that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentic_kernel_engine.providers import Citations

from .connector import TOOLSET

HOSTING: Final[Mapping[str, Mapping[str, Any]]] = {
    "web_search": {"type": "web_search_20260318", "name": "web_search"},
    "code": {"type": "code_execution_20260521", "name": "code_execution"},
    "mcp": {"type": TOOLSET},
}
"""By word: the tool, in its version of the SDK's API."""
NEEDS: Final[Mapping[str, Sequence[str]]] = {"mcp": ("name", "url")}
READ: Final[Mapping[str, str]] = {
    "mcp_tool_use": "id name server_name", "tool_use": "id name", "tool_result": "tool_use_id"
}  # fmt: skip
"""See `kind_of`."""


def cite(found: Citations, blocks: Sequence[Mapping[str, Any]]) -> None:
    """Add the sources that the texts of an answer name."""
    for block in blocks:
        for each in block.get("citations") or ():
            if isinstance(each, Mapping):
                title = each.get("title") or each.get("document_title")
                found.add(each.get("url"), title, each.get("cited_text"))
