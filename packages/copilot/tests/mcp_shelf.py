"""An MCP server over standard input and output, as a user would write one. Run as a file."""

from __future__ import annotations

from pathlib import Path

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("shelf")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look(name: str) -> str:
    """Say what a file has in it."""
    return Path(name).read_text(encoding="utf-8")


@server.tool()
def put(name: str, text: str) -> str:
    """Write a file."""
    Path(name).write_text(text, encoding="utf-8")
    return f"{len(text)} characters"


if __name__ == "__main__":
    server.run()
