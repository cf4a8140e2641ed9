"""The server on Postgres: executions whose intents reach another process, and remote steps."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import postgres_server
import rebuno
from beside import Beside
from figure import Figure
from rebuno.runner import Runner
from server import BARE

ROOT = Path(__file__).parents[1]
EXECUTIONS = 60
STEPS = 800
AT_ONCE = 16
CLIENT_STEPS = 10
"""Of each execution of the real client."""
SERVE_BARE = (
    BARE
    + """
import socket, sys, uvicorn
listener = socket.socket(proto=socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
running = uvicorn.Server(config)

async def main():
    serving = asyncio.ensure_future(running.serve([listener]))
    await asyncio.to_thread(sys.stdin.read)
    running.should_exit = True
    await serving

asyncio.run(main())
"""
)


def measure() -> list[Figure | Beside]:
    """The figures, on the memory file system if there is one."""
    return asyncio.run(_measure())


async def _measure() -> list[Figure | Beside]:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        bare, _ = await enter(process("-c", SERVE_BARE))
        limit = await _eight_requests(bare)
        url = stack.enter_context(postgres_server.server())
        words = ("-m", "integration.server_worker", f"postgres:bench:{url}", "30", "3600")
        one, _ = await enter(process(*words))
        two, _ = await enter(process(*words))
        elsewhere = await _local_steps(one, two)
        remote = await _remote_steps(one)
        client = await _steps_of_the_client(f"http://127.0.0.1:{one}")
    return [
        Figure(
            "an execution with three local steps, intents through another process",
            elsewhere * 1e3, "ms", limit * 1e3, "8 requests to a bare ASGI application", 25.0,
        ),
        Figure(
            f"remote steps, {AT_ONCE} executions and {AT_ONCE} runners at once", remote, "steps/s",
            8 / limit, "requests one by one to a bare ASGI application", 300.0, "higher",
        ),
        Beside(
            f"remote steps, {AT_ONCE} executions and {AT_ONCE} runners at once", remote,
            client, f"the client rebuno {version('rebuno')}, its agent and runners in one process",
            "steps/s",
        ),
    ]  # fmt: skip


class Wire:
    """One connection that is kept: requests one after the other, or a stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Wire:
        """Connect."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def post(self, path: str, body: Any) -> Any:
        """The JSON of the answer."""
        text = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(text)}\r\n\r\n"
        self._writer.write(head.encode() + text)
        said = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(said.split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
        return json.loads(await self._reader.readexactly(length))

    async def stream(self, path: str) -> AsyncIterator[tuple[str, Any]]:
        """The events of a stream, each a type and its data."""
        self._writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        kind = ""
        while line := await self._reader.readline():
            if line.startswith(b"event: "):
                kind = line[7:].decode().strip()
            elif line.startswith(b"data: "):
                yield kind, json.loads(line[6:])


@asynccontextmanager
async def process(*words: str) -> AsyncIterator[tuple[int, asyncio.subprocess.Process]]:
    """A server process and its port."""
    made = await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=ROOT, stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert made.stdout is not None
    assert made.stdin is not None
    try:
        yield int(await made.stdout.readline()), made
    finally:
        made.stdin.close()
        await made.wait()


async def following(told: AsyncIterator[tuple[str, Any]], wanted: str) -> Any:
    """The data of the next event of a type."""
    async for kind, data in told:
        if kind == wanted:
            return data
    raise RuntimeError(f"the stream ended before {wanted}")


async def _eight_requests(port: int) -> float:
    """Seconds; the median."""
    wire = await Wire.open(port)
    times = []
    for _ in range(EXECUTIONS):
        began = time.perf_counter()
        for n in range(8):
            await wire.post("/", {"execution_id": "x" * 36, "step_id": "y" * 38, "n": n})
        times.append(time.perf_counter() - began)
    return statistics.median(times)


async def _local_steps(streams: int, intents: int) -> float:
    """Seconds of an execution, from its creation to the answer to its end; the median."""
    client = await Wire.open(intents)
    agent = await Wire.open(streams)
    wire = await Wire.open(intents)
    told = agent.stream("/v0/agents/stream?agent_id=bench&consumer_id=c")
    times = []
    for n in range(EXECUTIONS):
        began = time.perf_counter()
        await client.post("/v0/executions", {"agent_id": "bench", "input": {"n": n}})
        ids = ids_of(await following(told, "execution.assigned"))
        for step in range(3):
            intent = {"type": "invoke_tool", "tool_id": "add", "arguments": {"a": step}}
            answer = await wire.post("/v0/agents/intent", {**ids, "intent": intent})
            result = {**ids, "step_id": answer["step_id"], "success": True, "data": step}
            await wire.post("/v0/agents/step-result", result)
        await wire.post("/v0/agents/intent", {**ids, "intent": {"type": "complete"}})
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def ids_of(assigned: Any) -> dict[str, str]:
    return {key: assigned[key] for key in ("execution_id", "session_id")}


async def _remote_steps(port: int) -> float:
    """Steps per second, each answered by a runner before its execution calls the next one."""
    left = STEPS

    async def runs(n: int) -> None:
        wire, stream = await Wire.open(port), await Wire.open(port)
        path = f"/v0/runners/stream?runner_id=r{n}&consumer_id=c&capabilities=far.*"
        async for kind, job in stream.stream(path):
            if kind == "job.assigned":
                done = {"job_id": job["id"], "success": True, "data": 1}
                done |= {key: job[key] for key in ("execution_id", "step_id")}
                await wire.post(f"/v0/runners/r{n}/results", done)

    async def acts(n: int) -> None:
        nonlocal left
        wire, stream = await Wire.open(port), await Wire.open(port)
        told = stream.stream(f"/v0/agents/stream?agent_id=far{n}&consumer_id=c")
        await wire.post("/v0/executions", {"agent_id": f"far{n}", "input": n})
        ids = ids_of(await following(told, "execution.assigned"))
        while left > 0:
            left -= 1
            intent = {"type": "invoke_tool", "tool_id": "far.add", "remote": True}
            await wire.post("/v0/agents/intent", {**ids, "intent": {**intent, "arguments": left}})
            await following(told, "tool.result")

    runners = [asyncio.ensure_future(runs(n)) for n in range(AT_ONCE)]
    await asyncio.sleep(1.0)
    began = time.perf_counter()
    await asyncio.gather(*(acts(n) for n in range(AT_ONCE)))
    took = time.perf_counter() - began
    for each in runners:
        each.cancel()
    await asyncio.wait(runners)
    return STEPS / took


@rebuno.tool("client.add", remote=True)
async def _add(n: int) -> Any: ...


async def _steps_of_the_client(url: str) -> float:
    """Remote steps per second of the client as its users have it."""

    @rebuno.tool("client.add")
    def added(n: int) -> int:
        return n + 1

    async def handler(n: int) -> Any:
        for _ in range(CLIENT_STEPS):
            n = await _add(n)
        return n

    runners = [Runner(f"client{n}", kernel_url=url, tools=[added]) for n in range(AT_ONCE)]
    agent = rebuno.Agent("client", kernel_url=url)
    async with rebuno.Client(url) as client:
        working = [asyncio.ensure_future(each.run_async()) for each in runners]
        working.append(asyncio.ensure_future(agent.run_async(handler)))
        await asyncio.sleep(1.0)
        began = time.perf_counter()
        made = [await client.create("client", {"n": 0}) for _ in range(AT_ONCE)]
        await asyncio.gather(*(_ended(client, each.id) for each in made))
        took = time.perf_counter() - began
        for each in working:
            each.cancel()
        await asyncio.wait(working)
    return AT_ONCE * CLIENT_STEPS / took


async def _ended(client: rebuno.Client, id: str) -> None:
    async for event in client.events(id):
        if event.type == "execution.completed":
            return
    raise RuntimeError(f"the execution {id} did not complete")
