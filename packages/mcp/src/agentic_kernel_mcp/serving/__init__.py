"""Serving: a registry of tools as an MCP server, over standard streams or over HTTP."""

from .http import Listener, serve_http
from .server import ToolServer
from .stdio import serve_stdio

__all__ = ["Listener", "ToolServer", "serve_http", "serve_stdio"]
