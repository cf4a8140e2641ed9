"""A guard in front of an MCP server: over pipes, or over HTTP if an address is given."""

from __future__ import annotations

import asyncio
import secrets
import sys
from pathlib import Path

from agentic_kernel_engine import Principal
from agentic_kernel_guard import (
    CapabilityRequest,
    CapabilitySpec,
    DefaultPolicy,
    Denied,
    Guard,
    Key,
    Keyring,
    MemoryGuardStore,
    Principals,
    Query,
    Registry,
    SafetyClass,
    StaticRouter,
    ToolsDriver,
)
from agentic_kernel_mcp import HTTPServer, MCPTools, Server, StdioServer

# --8<-- [start:mcp]
SPECS = [
    CapabilitySpec("notes/read", "read all notes", "notes__read", safety=SafetyClass.READ),
    CapabilitySpec(
        "notes/delete", "delete a note", "notes__delete", safety=SafetyClass.DESTRUCTIVE
    ),
]


async def main(server: Server) -> None:
    ann, bob = Principal("ann", "acme"), Principal("bob", "acme", roles=frozenset({"admin"}))
    async with MCPTools({"notes": server}) as tools:
        driver = ToolsDriver(tools, source="notes")
        guard = Guard(
            Registry(SPECS),
            StaticRouter({spec.name: [driver] for spec in SPECS}),
            policy=DefaultPolicy(),
            store=MemoryGuardStore(),
            keys=Keyring([Key("k1", secrets.token_bytes(32))]),
            resolver=Principals([ann, bob]),
        )
        for found in await guard.request_capabilities("read the notes"):
            print(found.spec.name)
        token = await guard.grant_capability(CapabilityRequest("notes/read", {}), ann)
        frame = await guard.invoke(token, ann, {}, "summary")
        assert frame is not None
        print(frame.summary)
        assert frame.handle is not None
        print((await guard.expand(frame.handle, ann, Query(limit=1))).rows)
        asked = CapabilityRequest("notes/delete", {"name": "b"})
        try:
            await guard.grant_capability(asked, ann)
        except Denied as denied:
            print(denied)
        token = await guard.grant_capability(asked, bob, "the milk is bought now")
        await guard.invoke(token, bob, {"name": "b"})
        last = await guard.store.last()
        assert last is not None
        action = await guard.explain(last.entry["action"])
        print(action.outcome, [entry["kind"] for entry in action.entries])
        # --8<-- [end:mcp]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(HTTPServer(sys.argv[1])))
    else:
        program = str(Path(__file__).with_name("mcp") / "notes_server.py")
        asyncio.run(main(StdioServer(sys.executable, (program,))))
