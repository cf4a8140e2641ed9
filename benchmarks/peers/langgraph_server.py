"""LangGraph's own server: milliseconds of a run of a graph of three nodes, asked for over HTTP.

`python -m peers.langgraph_server` starts it as its command does for development, with state in
memory, and prints one line of JSON. It runs in the contestant's own environment.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

REQUIRES = (
    "langgraph-api==0.16.7",
    "langgraph-cli==0.4.40",
    "langgraph-runtime-inmem==0.36.7",
    "langgraph==1.2.24",
)
RUNS, AT_ONCE = 10, 16
STARTING = 60.0
"""Seconds in which the server has to answer for the first time."""
GRAPH = """
from typing import TypedDict

from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    n: int


def step(state: State) -> State:
    return {"n": state["n"] + 1}


made = StateGraph(State)
for name in ("one", "two", "three"):
    made.add_node(name, step)
made.add_edge(START, "one")
made.add_edge("one", "two")
made.add_edge("two", "three")
made.add_edge("three", END)
graph = made.compile()
"""
CONFIGURATION = {"dependencies": ["."], "graphs": {"swe": "./graph.py:graph"}}


async def asked(port: int, path: str, body: object) -> bytes:
    """The answer to one request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    text = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
    )
    writer.write(head.encode() + text)
    said = await reader.read()
    writer.close()
    return said


async def run(port: int) -> None:
    """One run, from its request to its result."""
    said = await asked(port, "/runs/wait", {"assistant_id": "swe", "input": {"n": 1}})
    if b'{"n":4}' not in said:
        raise RuntimeError(f"the server answered {said[:200]!r}")


async def ready(port: int, server: subprocess.Popen[bytes]) -> None:
    """Return after the server's first answer."""
    deadline = time.monotonic() + STARTING
    while True:
        try:
            await run(port)
        except (OSError, RuntimeError):
            if time.monotonic() > deadline or server.poll() is not None:
                raise
            await asyncio.sleep(0.2)
        else:
            return


async def timed(work: Callable[[], Awaitable[object]], runs: int) -> float:
    """Milliseconds of one of the runs that the work makes."""
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) / runs * 1e3


async def measured(port: int, server: subprocess.Popen[bytes]) -> dict[str, float]:
    """Both figures of a server that starts."""
    await ready(port, server)

    async def one_by_one() -> None:
        for _ in range(RUNS):
            await run(port)

    async def at_once() -> None:
        await asyncio.gather(*(one_by_one() for _ in range(AT_ONCE)))

    alone = await timed(one_by_one, RUNS)
    return {"alone": alone, "at_once": await timed(at_once, RUNS * AT_ONCE)}


def main() -> None:
    """Start the server, measure, and end it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "graph.py").write_text(GRAPH)
        (folder / "langgraph.json").write_text(json.dumps(CONFIGURATION))
        words = ("dev", "--no-browser", "--no-reload", "--host", "127.0.0.1", "--port", str(port))
        server = subprocess.Popen(
            [Path(sys.executable).parent / "langgraph", *words, "--n-jobs-per-worker", "16"],
            cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            print(json.dumps(asyncio.run(measured(port, server))))
        finally:
            server.terminate()
            server.wait(timeout=30)


if __name__ == "__main__":
    main()
