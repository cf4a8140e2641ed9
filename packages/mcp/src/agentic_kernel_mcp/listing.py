"""Listing: all tools of a server, page by page, within bounds."""

from __future__ import annotations

from typing import Final

import mcp
import mcp_types as types

MOST_PAGES: Final = 100
"""The most pages of one listing."""
MOST_TOOLS: Final = 2_000
"""The most tools of one server."""
MAX_LISTING: Final = 8 * 1024 * 1024
"""The longest listing of one server, in characters of JSON."""


async def listing(client: mcp.Client) -> list[types.Tool]:
    """The tools of a server.

    Raises:
        ValueError: They are too many, or too long.
    """
    if client.server_capabilities.tools is None:
        return []
    found: list[types.Tool] = []
    cursor: str | None = None
    length = 0
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        length += sum(len(each.model_dump_json()) for each in page.tools)
        cursor = page.next_cursor
        if len(found) > MOST_TOOLS or length > MAX_LISTING:
            break
        if cursor is None:
            return found
    raise ValueError(
        f"it lists more than {MOST_TOOLS:,} tools, {MOST_PAGES} pages or {MAX_LISTING:,} characters"
    )
