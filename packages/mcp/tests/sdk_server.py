"""A server made with the SDK, for the tests: `python sdk_server.py --log FILE [--http PORT]`.

It writes a line to the log for each thing that it does.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Annotated, Any

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp_types import ImageContent, ToolAnnotations
from pydantic import BaseModel

given = argparse.ArgumentParser()
given.add_argument("--http", type=int, default=0)
given.add_argument("--log", type=Path)
options = given.parse_args()
server = MCPServer("acting")
READS = ToolAnnotations(read_only_hint=True)
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False)


def log(text: str) -> None:
    with options.log.open("a") as file:
        file.write(text + "\n")


class Account(BaseModel):
    account: str


class Trip(BaseModel):
    city: str
    nights: int


@server.tool(annotations=READS)
def add(a: int, b: int) -> int:
    return a + b


@server.tool(annotations=ADDS)
def note(text: str) -> str:
    log(f"note {text}")
    return "noted"


@server.tool()
def wipe() -> str:
    log("wipe")
    return "wiped"


@server.tool(annotations=READS)
def fail() -> str:
    raise ValueError("on purpose")


@server.tool(annotations=READS)
def image() -> ImageContent:
    return ImageContent(type="image", data="aGk=", mime_type="image/png")


@server.tool(annotations=READS)
async def steps(context: Context[Any, Any]) -> str:
    for step in range(3):
        await context.report_progress(step, 3, f"step {step}")
    return "done"


@server.tool(annotations=ADDS)
async def die(after: bool = True) -> str:
    """End the process in the middle of the call."""
    if after:
        log("died")
    sys.stderr.write("dying\n")
    sys.stderr.flush()
    os._exit(3)


def ask_account(amount: int) -> Elicit[Account]:
    return Elicit(f"Which account pays {amount}?", Account)


def ask_trip() -> Elicit[Trip]:
    return Elicit("Where to?", Trip)


@server.tool()
def pay(amount: int, said: Annotated[ElicitationResult[Account], Resolve(ask_account)]) -> str:
    """Pay, from the account that the user names."""
    if not isinstance(said, AcceptedElicitation):
        return f"not paid: {said.action}"
    log(f"paid {amount} from {said.data.account}")
    return f"paid from {said.data.account}"


@server.tool(annotations=ADDS)
def book(said: Annotated[ElicitationResult[Trip], Resolve(ask_trip)]) -> str:
    if not isinstance(said, AcceptedElicitation):
        return f"not booked: {said.action}"
    log(f"booked {said.data.city} {said.data.nights + 1}")
    return said.data.city


@server.tool(annotations=READS)
async def grow(context: Context[Any, Any]) -> str:
    """Add a tool."""

    def later() -> str:
        return "later"

    server.add_tool(later)
    await context.session.send_tool_list_changed()
    await context.notify_tools_changed()
    return "grown"


if options.http:
    server.run("streamable-http", port=options.http)
else:
    server.run()
