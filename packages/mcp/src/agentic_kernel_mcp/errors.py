"""Errors: why the tools of an MCP server cannot be used."""

from __future__ import annotations

from typing import Final

UNAVAILABLE: Final = "mcp/unavailable"
"""The server cannot be reached, and the call was not sent."""
REFUSED: Final = "mcp/refused"
"""The server answered the call with a protocol error."""
FAILED: Final = "mcp/failed"
"""The tool answered that it failed."""
CHANGED: Final = "mcp/changed"
"""The server describes the tool in another way than a person accepted; it was not called."""


class MCPError(Exception):
    """An MCP server could not be used.

    Attributes:
        server: The server's name.
        reason: Why, without the name.
    """

    def __init__(self, server: str, message: str) -> None:
        self.server = server
        self.reason = message
        super().__init__(f"MCP server {server}: {message}")


class Unavailable(MCPError):
    """The server did not start, could not be reached, or does not speak the protocol."""


class BadPins(Exception):
    """The file of the pins cannot be read."""
