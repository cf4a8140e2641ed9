"""An MCP server made with the SDK: notes, over pipes, or over HTTP with a port."""

from __future__ import annotations

import sys

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("notes", log_level="ERROR")
notes = {"a": "call eva@example.com", "b": "buy milk"}


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def read() -> list[dict[str, str]]:
    """All notes."""
    return [{"name": name, "text": text} for name, text in notes.items()]


@server.tool()
def delete(name: str) -> str:
    """Delete a note."""
    return notes.pop(name)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
