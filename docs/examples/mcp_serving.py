"""A registry of tools as an MCP server over HTTP, and a client that calls it."""

from __future__ import annotations

import asyncio

import mcp

from agentic_kernel_engine import Principal
from agentic_kernel_engine.seams import Tools, tool
from agentic_kernel_mcp.serving import Listener, ToolServer, serve_http


# --8<-- [start:serving]
@tool(effect="read")
def orders(customer: str) -> dict[str, list[int]]:
    """The orders of a customer."""
    return {customer: [1, 2, 3]}


async def main() -> None:
    server = ToolServer(Tools(orders), name="shop", principal=Principal("robot"))
    async with serve_http(server, Listener()) as url, mcp.Client(url) as client:
        found = await client.call_tool("orders", {"customer": "Eva"})
        print(found.structured_content)
        # --8<-- [end:serving]


if __name__ == "__main__":
    asyncio.run(main())
