"""Executions, agents, runners and policy over HTTP and server-sent events, on any store."""

from .caller import SCOPES, Authenticate, Caller, anonymous
from .errors import Refused
from .ports import Bounds, Decide, Measure, Ruling, Silent, ToolCall, Unbounded, deny_all
from .server import Server
from .settings import Settings

__all__ = [
    "SCOPES",
    "Authenticate",
    "Bounds",
    "Caller",
    "Decide",
    "Measure",
    "Refused",
    "Ruling",
    "Server",
    "Settings",
    "Silent",
    "ToolCall",
    "Unbounded",
    "anonymous",
    "deny_all",
]
