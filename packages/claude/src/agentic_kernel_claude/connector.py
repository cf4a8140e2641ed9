"""Connector: MCP servers that Anthropic calls, which only the beta of its API has.

See platform.claude.com/docs/en/agents-and-tools/mcp-connector. The API has two lists: the servers,
and their sets of tools. A user gives the fields of both at once, in ``hosted={"mcp": …}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine.providers import check_address, check_key

BETA: Final = "mcp-client-2025-11-20"
"""The version of the API that a request with such a server asks for."""
TOOLSET: Final = "mcp_toolset"
"""The type of a server's set of tools."""
_OF_SERVER: Final = ("name", "url", "authorization_token")
"""The fields of a server; all others are those of its set of tools."""


def connected(tools: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the tools of a request, and the arguments of the SDK's method for their MCP servers.

    Args:
        tools: The vendor's tools; a set of tools with a ``url`` also has the fields of its server.

    Raises:
        InvalidValue: A field of a server is not valid, or two servers have the same name.
    """
    kept: list[Any] = []
    servers: dict[str, dict[str, Any]] = {}
    for tool in tools:
        if isinstance(tool, Mapping) and tool.get("type") == TOOLSET and "url" in tool:
            server = {name: tool[name] for name in _OF_SERVER if name in tool}
            _check(server, servers)
            servers[server["name"]] = {"type": "url", **server}
            own = {name: value for name, value in tool.items() if name not in _OF_SERVER}
            kept.append({**own, "mcp_server_name": server["name"]})
        else:
            kept.append(tool)
    return kept, {"mcp_servers": [*servers.values()], "betas": [BETA]} if servers else {}


def messages_api(client: Any, request: Mapping[str, Any]) -> Any:
    """Return the part of the SDK's client that takes a request: the beta if it has MCP servers."""
    return client.beta.messages if "betas" in request else client.messages


def _check(server: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    name, url = server.get("name"), server["url"]
    if not isinstance(name, str) or not name:
        raise InvalidValue("hosted.mcp.name", "must be a non-empty string")
    if name in others:
        raise InvalidValue("hosted.mcp.name", f"is {name!a:.80} twice; give each server its own")
    check_address(url, "hosted.mcp.url")
    if not url.startswith("https://"):
        raise InvalidValue("hosted.mcp.url", "must begin with https://: Anthropic calls no other")
    if "authorization_token" in server:
        check_key(server["authorization_token"], "hosted.mcp.authorization_token")
