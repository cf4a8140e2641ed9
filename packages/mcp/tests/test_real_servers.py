"""The reference servers, in the Node of the test environment: pipes and streamable HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from agentic_kernel_mcp import HTTPServer, MCPTools, Server, StdioServer
from integration.peers.node import installed, node

from .conftest import call, hosted, new_task, question, run

SCOPE = Path("node_modules") / "@modelcontextprotocol"


def program(name: str) -> str:
    return str(installed("mcp-servers") / SCOPE / f"server-{name}" / "dist" / "index.js")


@pytest.fixture(scope="session")
def everything_by_http() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [str(node()), program("everything"), "streamableHttp"],
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = monotonic() + 60
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            assert monotonic() < until, "the server does not start"
            sleep(0.02)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(params=["pipes", pytest.param("http", marks=pytest.mark.torture)])
def everything(request: pytest.FixtureRequest) -> Server:
    if request.param == "http":
        return HTTPServer(request.getfixturevalue("everything_by_http"))
    return StdioServer(str(node()), (program("everything"), "stdio"))


async def test_everything(everything: Server) -> None:
    async with MCPTools({"it": everything}) as tools:
        assert tools.withheld == ()
        shown = {each.name: each.effect for each in tools.tools()}
        assert shown["it__echo"] == "read"
        (echo, total, image, sky) = await run(
            tools,
            [
                call("echo", message="hello"),
                call("get-sum", a=2, b=40),
                call("get-tiny-image"),
                call("get-structured-content", location="Chicago"),
            ],
        )
    assert echo == "Echo: hello"
    assert "42" in total
    assert [each["media_type"] for each in image if isinstance(each, dict)] == ["image/png"]
    assert set(sky) == {"conditions", "humidity", "temperature"}


async def test_everything_asks_a_person(everything: Server) -> None:
    asks = call("trigger-elicitation-request")
    async with MCPTools({"it": everything}) as tools, hosted(tools, asks) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        asked = await question(host, id, "MCP server it asks")
        assert "takes effect twice" in asked, "the server says that the call may change something"
        await host.answer(id, json.dumps({"name": "Eva", "check": True}))
        async with asyncio.timeout(60):
            ended: Any = (await host.wait(id)).result
    assert "Eva" in json.dumps(ended)


@pytest.mark.parametrize("refuses", [False, True], ids=["asks", "refuses first"])
async def test_everything_sends_a_person_to_a_page(everything: Server, refuses: bool) -> None:
    page = "https://example.com/consent"
    asks = call("trigger-url-elicitation", url=page, errorPath=refuses)
    async with MCPTools({"it": everything}) as tools, hosted(tools, asks) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        asked = await question(host, id, "asks you to open https://")
        await host.answer(id, "done")
        if refuses:
            assert page not in asked.split(), "another page comes first"
            await question(host, id, f"open {page}\n")
            await host.answer(id, "done")
        async with asyncio.timeout(60):
            ended: Any = (await host.wait(id)).result
    assert "accept" in json.dumps(ended).lower()


async def test_files_are_read_and_written(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.txt").write_text("hello")
    server = StdioServer(str(node()), (program("filesystem"), str(folder)))
    async with MCPTools({"it": server}) as tools:
        effects = {each.name: each.effect for each in tools.tools()}
        found = await run(
            tools,
            [
                call("read_text_file", path=str(folder / "a.txt")),
                call("write_file", path=str(folder / "b.txt"), content="new"),
                call("read_text_file", path=str(folder / "c.txt")),
                call("read_text_file", path="/etc/hostname"),
            ],
        )
    assert (effects["it__read_text_file"], effects["it__write_file"]) == ("read", "destructive")
    assert found[0] == {"content": "hello"}
    assert (folder / "b.txt").read_text() == "new"
    assert found[2:] == ["mcp/failed", "mcp/failed"]
