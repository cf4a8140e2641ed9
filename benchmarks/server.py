"""The server: an execution of three steps, streams that are idle, and a replay of many events."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import psutil  # type: ignore[import-untyped]
from beside import Beside
from figure import Figure
from peers import langgraph_server
from peers.catalog import Contestant
from peers.environment import Absent, interpreter, told

from agentic_kernel import Dispatch, Kill, Task, apply
from agentic_kernel_file import FileStore
from agentic_kernel_server.executions.events import STEP_SUCCEEDED
from integration.serving_process import Serving

STREAMS = 2_000
EVENTS, BATCH = 100_000, 1_000
MARK = b"event: step.succeeded\n"
EXECUTIONS, ROUNDS = 20, 15
RULES = """version: 1
rules:
  - {name: all, priority: 1, effect: allow, match: {capability: "*"}}
"""
BARE = """
import asyncio

async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    stream = scope["path"].endswith("/stream")
    kind = b"text/event-stream" if stream else b"application/json"
    headers = [(b"content-type", kind)] + ([] if stream else [(b"content-length", b"2")])
    while not stream and (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if scope["path"] == "/many/stream":
        for _ in range(200):
            body = (b"event: step.succeeded\\ndata: " + b"x" * 250 + b"\\n\\n") * 500
            await send({"type": "http.response.body", "body": body, "more_body": True})
        return await send({"type": "http.response.body", "body": b""})
    while stream:
        await send({"type": "http.response.body", "body": b": beat\\n\\n", "more_body": True})
        await asyncio.sleep(15)
    await send({"type": "http.response.body", "body": b"{}"})
"""
"""A bare ASGI application: the limit. It answers, and keeps streams open."""


LANGGRAPH = Contestant("LangGraph", "langgraph_server", "", requires=langgraph_server.REQUIRES)


def measure() -> list[Figure | Beside]:
    """The figures of the server, on the memory file system if there is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with TemporaryDirectory(dir=memory) as name:
        folder = Path(name)
        (folder / "rules.yaml").write_text(RULES)
        (folder / "bare.py").write_text(BARE)
        return asyncio.run(_measured(folder))


async def _measured(folder: Path) -> list[Figure | Beside]:
    words = ("--max-streams", "10000", "--max-requests", "1000000", "--policy", "rules.yaml")
    serving = await asyncio.to_thread(Serving, folder, *words)
    bare = _bare(folder)
    assert bare.stderr is not None
    line = ""
    while "running on" not in line:
        line = await asyncio.to_thread(bare.stderr.readline)
    limit_url = line.split("running on ")[1].split()[0]
    try:
        found = [
            await _steps(serving.url, limit_url),
            await _idle(serving, limit_url, bare.pid),
        ]
        beside = await _beside(serving.url)
        await asyncio.to_thread(serving.stop)
        id = await _written(folder / "state")
        serving = await asyncio.to_thread(Serving, folder, *words)
        return [*found, await _replay(serving.url, limit_url, id), *beside]
    finally:
        bare.kill()
        bare.wait()
        with suppress(ProcessLookupError):
            serving.process.kill()
        serving.process.wait()


def _bare(folder: Path) -> subprocess.Popen[str]:
    words = ("bare:app", "--port", "0", "--http", "h11", "--lifespan", "off")
    return subprocess.Popen(
        [sys.executable, "-m", "uvicorn", *words],
        cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip


class _Wire:
    """One connection of a raw load generator."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, url: str) -> _Wire:
        """A connection."""
        host, _, port = url.removeprefix("http://").partition(":")
        return cls(*await asyncio.open_connection(host, int(port), limit=1 << 22))

    async def post(self, path: str, body: object) -> dict[str, object]:
        """Send a request and read its answer."""
        text = msgspec.json.encode(body)
        self.writer.write(
            b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%s"
            % (path.encode(), len(text), text)
        )
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert head[9:10] == b"2", head
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        found: dict[str, object] = msgspec.json.decode(await self.reader.readexactly(length))
        return found

    async def stream(self, path: str) -> None:
        """Open a stream."""
        self.writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert head.split()[1] == b"200", head

    async def event(self, kind: bytes) -> dict[str, str]:
        """The data of the next event of a kind."""
        while True:
            line = await self.reader.readline()
            if line == b"event: " + kind + b"\n":
                while not line.startswith(b"data:"):
                    line = await self.reader.readline()
                found: dict[str, str] = json.loads(line[5:])
                return found


async def _agent(url: str, agent_id: str) -> Callable[[], Awaitable[None]]:
    """An agent, and what has it work through one execution of three steps."""
    calls, pushed = await _Wire.to(url), await _Wire.to(url)
    await pushed.stream(f"/v0/agents/stream?agent_id={agent_id}&consumer_id=c")

    async def execution() -> None:
        await calls.post("/v0/executions", {"agent_id": agent_id, "input": {"n": 1}})
        given = await pushed.event(b"execution.assigned")
        held = {"execution_id": given["execution_id"], "session_id": given["session_id"]}
        for number in range(3):
            intent = {"type": "invoke_tool", "tool_id": "add", "arguments": {"n": number}}
            step = await calls.post("/v0/agents/intent", {**held, "intent": intent})
            result = {**held, "step_id": step["step_id"], "success": True, "data": number}
            await calls.post("/v0/agents/step-result", result)
        done = {"type": "complete", "output": 3}
        await calls.post("/v0/agents/intent", {**held, "intent": done})

    return execution


async def _steps(url: str, limit_url: str) -> Figure:
    execution, bare = await _agent(url, "swe"), await _Wire.to(limit_url)

    async def requests() -> None:
        for _ in range(8):
            await bare.post("/x", {"agent_id": "swe", "input": {"n": 1}})

    ours = limit = float("inf")
    for _ in range(ROUNDS):
        ours = min(ours, await _round(execution))
        limit = min(limit, await _round(requests))
    return Figure(
        "an execution with three local steps, at the owner, on files", ours * 1e3, "ms",
        limit * 1e3, "eight requests to a bare ASGI application", 10.0,
    )  # fmt: skip


async def _beside(url: str) -> list[Beside]:
    """An execution of three steps, beside a run of three nodes on LangGraph's own server."""
    runs, at_once = langgraph_server.RUNS, langgraph_server.AT_ONCE
    agents = [await _agent(url, f"swe{number}") for number in range(at_once)]

    async def one_by_one(execution: Callable[[], Awaitable[None]]) -> None:
        for _ in range(runs):
            await execution()

    ours = {
        "alone": await langgraph_server.timed(lambda: one_by_one(agents[0]), runs),
        "at_once": await langgraph_server.timed(
            lambda: asyncio.gather(*map(one_by_one, agents)), runs * at_once
        ),
    }
    theirs: dict[str, float] = {}
    absent = ""
    try:
        python = await asyncio.to_thread(interpreter, LANGGRAPH)
        words = (python, "-m", "peers.langgraph_server")
        theirs = json.loads(await asyncio.to_thread(told, *words))
    except Absent as reason:
        absent = str(reason)
    peer = f"LangGraph's server {LANGGRAPH.version}, which keeps state in memory"
    named = {
        "alone": "an execution of three steps, one after the other, on files",
        "at_once": f"an execution of three steps, {at_once} at once, on files",
    }
    return [
        Beside(said, ours[name], theirs.get(name), peer, "ms", absent)
        for name, said in named.items()
    ]


async def _round(work: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    for _ in range(EXECUTIONS):
        await work()
    return (time.perf_counter() - began) / EXECUTIONS


async def _idle(serving: Serving, limit_url: str, limit_pid: int) -> Figure:
    ours = await _memory(
        serving.url, serving.process.pid, "/v0/agents/stream?agent_id=i&consumer_id="
    )
    limit = await _memory(limit_url, limit_pid, "/stream?n=")
    return Figure(
        f"{STREAMS:,} idle streams of agents, each", ours, "KiB", limit,
        "a stream of a bare ASGI application", limit + 40.0,
    )  # fmt: skip


async def _memory(url: str, pid: int, path: str) -> float:
    """KiB of a process for each of many streams."""
    process = psutil.Process(pid)
    opened: list[_Wire] = []

    async def some(first: int, count: int) -> int:
        for number in range(first, first + count):
            wire = await _Wire.to(url)
            await wire.stream(f"{path}{number}")
            opened.append(wire)
        found: int = process.memory_full_info().uss
        return found

    before = await some(0, 100)
    after = await some(100, STREAMS)
    for wire in opened:
        wire.writer.close()
    return (after - before) / STREAMS / 1024


async def _written(state: Path) -> str:
    """The id of an execution with many events, written into the store directly."""
    with closing(FileStore(state)) as store:
        (record, *_) = [
            each for each in await store.find(kinds=["execution"]) if each.task.status.terminal
        ]
        now = datetime.now(UTC)
        task = Task.new(
            summary="many events", instructions="", runtime_kind="execution",
            agent_name=record.task.agent_name, at=now,
        )  # fmt: skip
        begun = record.changed(
            task=apply(task, Dispatch(), now), version=1, state=None, owner=None, step=0
        )
        await store.insert(begun)
        text = msgspec.json.encode(
            {
                "type": STEP_SUCCEEDED,
                "at": int(now.timestamp() * 1e6),
                "data": {"step_id": f"{task.id}.1", "payload": {"result": "x" * 20}},
            }
        )
        for _ in range(EVENTS // BATCH):
            after = begun.changed(version=begun.version + 1)
            await store.commit(begun, after, [text] * BATCH)
            begun = after
        ended = begun.changed(version=begun.version + 1, task=apply(begun.task, Kill(), now))
        await store.commit(begun, ended)
        return task.id


async def _replay(url: str, limit_url: str, id: str) -> Figure:
    async def read(url: str, path: str) -> float:
        wire = await _Wire.to(url)
        began = time.perf_counter()
        await wire.stream(path)
        came, carried = 0, b""
        while came < EVENTS and (text := await wire.reader.read(1 << 20)):
            came += (carried + text).count(MARK)
            carried = text[1 - len(MARK) :]
        assert came == EVENTS, came
        wire.writer.close()
        return EVENTS / (time.perf_counter() - began)

    ours = limit = 0.0
    for _ in range(3):
        ours = max(ours, await read(url, f"/v0/executions/{id}/stream"))
        limit = max(limit, await read(limit_url, "/many/stream"))
    return Figure(
        "a replay of 100,000 events", ours, "events/s", limit,
        "the same bytes from a bare ASGI application", 50_000, "higher",
    )  # fmt: skip
