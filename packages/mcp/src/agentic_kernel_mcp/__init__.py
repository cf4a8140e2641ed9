"""MCP servers for AgenticKernel: their tools for a Loop, and a Loop's tools as such a server."""

from .describing import effect_of, output_of, tool_name
from .errors import CHANGED, FAILED, REFUSED, UNAVAILABLE, BadPins, MCPError, Unavailable
from .pins import Pins
from .servers import HTTPServer, Server, ServerFile, StdioServer, read_servers
from .tools import MCPTools, Withheld

__all__ = [
    "CHANGED", "FAILED", "REFUSED", "UNAVAILABLE", "BadPins", "HTTPServer", "MCPError", "MCPTools",
    "Pins", "Server", "ServerFile", "StdioServer", "Unavailable", "Withheld", "effect_of",
    "output_of", "read_servers", "tool_name",
]  # fmt: skip
