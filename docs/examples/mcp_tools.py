"""A Loop with the tools of an MCP server, which are pinned in a file."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agentic_kernel import Task
from agentic_kernel_engine import Host, Loop
from agentic_kernel_engine.loop import FinalAnswer, ToolCall
from agentic_kernel_engine.seams import BasicPolicy, ScriptedPlanner
from agentic_kernel_mcp import MCPTools, Pins, StdioServer

PROGRAM = str(Path(__file__).with_name("mcp") / "notes_server.py")


async def main() -> None:
    # --8<-- [start:tools]
    server = StdioServer(sys.executable, (PROGRAM,))
    async with MCPTools({"notes": server}, pins=Pins("pins.json")) as tools:
        for tool in tools.tools():
            print(tool.name, tool.effect)
        for held in tools.withheld:
            print(held.server, held.tool, held.reason)
        planner = ScriptedPlanner(ToolCall("notes__read", {}), FinalAnswer("read"))
        loop = Loop(planner, tools, policy=BasicPolicy())  # It asks before something changes.
        async with Host(loop) as host:
            task = Task.new(summary="Read", instructions="Read my notes.", runtime_kind="loop")
            print((await host.run(task)).result)
    # --8<-- [end:tools]


if __name__ == "__main__":
    asyncio.run(main())
