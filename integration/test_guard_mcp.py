"""The five methods of the guard on MCP servers: the example over HTTP, and the reference server."""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import pytest

from agentic_kernel_engine import Principal
from agentic_kernel_guard import (
    CapabilityRequest,
    CapabilitySpec,
    DefaultPolicy,
    Denied,
    Guard,
    Indeterminate,
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
from agentic_kernel_mcp import MCPTools, StdioServer

from .peers.node import installed, node

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
PLAIN = str(Path(__file__).parent / "peers" / "plain_mcp.py")
ANN = Principal("ann", "acme")
BOB = Principal("bob", "acme", roles=frozenset({"admin"}))


def guarded(tools: MCPTools, *specs: CapabilitySpec) -> Guard:
    driver = ToolsDriver(tools, source="mcp")
    return Guard(
        Registry(specs),
        StaticRouter({spec.name: [driver] for spec in specs}),
        policy=DefaultPolicy(),
        store=MemoryGuardStore(),
        keys=Keyring([Key("k1", secrets.token_bytes(32))]),
        resolver=Principals([ANN, BOB]),
    )


async def last_action(guard: Guard) -> str:
    last = await guard.store.last()
    assert last is not None
    return str(last.entry["action"])


@pytest.mark.torture
def test_the_example_works_over_http() -> None:
    """Over pipes, it is run with the other examples."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "mcp" / "notes_server.py"), str(port)]
    )
    try:
        until = monotonic() + 60
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            assert monotonic() < until, "the server does not start"
            sleep(0.02)
        program = [sys.executable, "-W", "error", str(EXAMPLES / "guard_mcp.py")]
        address = f"http://127.0.0.1:{port}/mcp"
        said = subprocess.check_output([*program, address], text=True, timeout=100)
    finally:
        server.kill()
        server.wait()
    assert "call [mail]" in said
    assert "needs the role admin" in said
    assert "succeeded ['began', 'ended']" in said


async def test_a_foreign_server_of_files_behind_the_guard(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.txt").write_text("write to eva@example.com")
    package = installed("mcp-servers") / "node_modules" / "@modelcontextprotocol"
    program = str(package / "server-filesystem" / "dist" / "index.js")
    specs = (
        CapabilitySpec(
            "files/read", "read a file", "files__read_text_file", safety=SafetyClass.READ
        ),
        CapabilitySpec(
            "files/write", "write a file", "files__write_file", safety=SafetyClass.DESTRUCTIVE
        ),
    )
    server = StdioServer(str(node()), (program, str(folder)))
    async with MCPTools({"files": server}) as tools:
        guard = guarded(tools, *specs)
        (found, *_) = await guard.request_capabilities("read a file")
        assert found.spec.name == "files/read"
        arguments = {"path": str(folder / "a.txt")}
        token = await guard.grant_capability(CapabilityRequest("files/read", arguments), ANN)
        frame = await guard.invoke(token, ANN, arguments, "table")
        assert frame is not None
        assert "eva@example.com" not in str(frame)
        assert frame.handle is not None
        page = await guard.expand(frame.handle, ANN, Query(limit=1))
        assert "eva@example.com" not in str(page)
        new = {"path": str(folder / "b.txt"), "content": "hello"}
        with pytest.raises(Denied):
            await guard.grant_capability(CapabilityRequest("files/write", new), ANN)
        assert not (folder / "b.txt").exists()
        asked = CapabilityRequest("files/write", new)
        token = await guard.grant_capability(asked, BOB, "the report of this month")
        await guard.invoke(token, BOB, new)
        assert (folder / "b.txt").read_text() == "hello"
        assert (await guard.explain(await last_action(guard))).outcome == "succeeded"


async def test_a_server_that_dies_in_a_call_leaves_the_action_unknown(tmp_path: Path) -> None:
    server = StdioServer(sys.executable, ("-IS", PLAIN, str(tmp_path / "log")))
    spec = CapabilitySpec("it/die", "die", "it__die", safety=SafetyClass.DESTRUCTIVE)
    async with MCPTools({"it": server}) as tools:
        guard = guarded(tools, spec)
        token = await guard.grant_capability(
            CapabilityRequest("it/die", {}), BOB, "to see what happens then"
        )
        with pytest.raises(Indeterminate):
            await guard.invoke(token, BOB, {})
        assert (await guard.explain(await last_action(guard))).outcome == "indeterminate"
