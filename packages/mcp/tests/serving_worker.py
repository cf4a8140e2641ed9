"""Tools of a Loop as an MCP server: `python serving_worker.py [--log FILE] [--http]`.

Over HTTP it prints its address. SIGTERM ends it, as the end of its input does over pipes.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from agentic_kernel_engine import Principal
from agentic_kernel_engine.seams import ToolContext, ToolError, Tools, tool
from agentic_kernel_mcp.serving import Listener, ToolServer, serve_http, serve_stdio


def made_for(file: Path | None) -> Tools:
    """The tools; they write to the file what they do."""

    def log(text: str) -> None:
        assert file is not None
        with file.open("a") as opened:
            opened.write(text + "\n")

    @tool(effect="read")
    def add(a: int, b: int) -> dict[str, int]:
        """Add two numbers."""
        print("this is no message of the protocol")
        return {"sum": a + b}

    @tool(effect="none")
    def say(text: str) -> str:
        return text

    @tool(effect="read")
    def picture() -> list[object]:
        return [{"n": 1}, {"type": "image", "media_type": "image/png", "data": "aGk="}]

    @tool(effect="write")
    async def fails(how: str) -> None:
        if how == "told":
            raise ToolError("there is no such customer", "unknown_customer")
        raise KeyError("a secret path /root/x")

    @tool(effect="read")
    async def steps(context: ToolContext) -> str:
        for step in range(3):
            context.progress({"progress": step, "total": 3, "message": f"step {step}"})
        context.progress("words")
        context.progress({"anything": 1})
        return "done"

    @tool(effect="write")
    async def hang() -> str:
        log("hangs")
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            log("cancelled")
            raise
        return ""

    @tool(effect="destructive")
    async def ask(context: ToolContext) -> str:
        who = context.ask("Who?")
        why = context.ask("Why?")
        log(f"asked {who} {why} for {context.principal.name}")
        return f"{who}: {why}"

    return Tools(add, say, picture, fails, steps, hang, ask)


async def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("--log", type=Path)
    given.add_argument("--http", action="store_true")
    given.add_argument("--credential", default="")
    given.add_argument("--most-calls", type=int, default=8)
    given.add_argument("--timeout", type=float, default=60.0)
    options = given.parse_args()
    server = ToolServer(
        made_for(options.log), name="tools", principal=Principal("ann"), timeout=options.timeout,
        most_calls=options.most_calls,
    )  # fmt: skip
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    waiting = asyncio.create_task(ended.wait())
    if options.http:
        async with AsyncExitStack() as stack:
            where = serve_http(server, Listener(credential=options.credential))
            print(await stack.enter_async_context(where), flush=True)
            await waiting
            return
    serving = asyncio.create_task(serve_stdio(server))
    await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        waiting.cancel()
        await serving
    else:
        serving.cancel()
        await asyncio.wait([serving])


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}")
