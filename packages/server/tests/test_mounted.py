"""The application mounted into another one, which enters the server in its own lifespan."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import fastapi
import httpx
import rebuno
import uvicorn

from agentic_kernel_engine import MemoryStore
from agentic_kernel_server import Server

from .clients import agent
from .serving import QUICK, Running, allow_all


@asynccontextmanager
async def mounted(server: Server) -> AsyncIterator[str]:
    """A FastAPI application with a page of its own, and the server below ``/agents``."""

    @asynccontextmanager
    async def lifespan(app: fastapi.FastAPI) -> AsyncIterator[None]:
        async with server:
            yield

    app = fastapi.FastAPI(lifespan=lifespan)

    @app.get("/own")
    async def own() -> dict[str, str]:
        return {"said": "hello"}

    app.mount("/agents", server.app)
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    running = Running(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
    main = asyncio.ensure_future(running.serve([listener]))
    while not running.started:
        await asyncio.sleep(0.005)
        assert not main.done(), main
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        await server.drain(timeout=2.0)
        running.should_exit = True
        await main
        listener.close()


async def test_the_client_works_against_a_server_mounted_into_fastapi() -> None:
    @rebuno.tool("calc.double")
    def double(n: int) -> int:
        return 2 * n

    async def handler(n: int) -> Any:
        return await double(n)

    server = Server(MemoryStore(), settings=QUICK, decide=allow_all)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(mounted(server))
        web = await stack.enter_async_context(httpx.AsyncClient(base_url=url))
        client = await stack.enter_async_context(rebuno.Client(f"{url}/agents"))
        await stack.enter_async_context(agent(f"{url}/agents", "swe", handler))
        ended = await client.run_until_complete("swe", {"n": 21})
        own = await web.get("/own")
        unknown = await web.get("/agents/v0/executions/nothing")
        foreign = await web.get("/v0/executions")
    assert ended.output == 42
    assert own.json() == {"said": "hello"}
    assert (unknown.status_code, unknown.json()["code"]) == (404, "NOT_FOUND")
    assert foreign.status_code == 404
    assert foreign.json() == {"detail": "Not Found"}


async def test_health_readiness_and_the_document_are_there_without_the_command() -> None:
    server = Server(MemoryStore(), settings=QUICK)
    async with mounted(server) as url, httpx.AsyncClient(base_url=f"{url}/agents") as web:
        ready = await web.get("/v0/ready")
        health = await web.get("/v0/health")
        document = await web.get("/v0/openapi.json")
        server.stop()
        stopping = await web.get("/v0/ready")
    assert (ready.json(), health.json()) == ({"status": "ready"}, {"status": "ok"})
    assert "/v0/agents/stream" in document.json()["paths"]
    assert stopping.status_code == 503


async def test_uvicorn_with_a_bound_of_its_own_stops_while_a_stream_is_open() -> None:
    server = Server(MemoryStore(), settings=QUICK)
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    running = Running(uvicorn.Config(server.app, log_level="critical", timeout_graceful_shutdown=1))
    main = asyncio.ensure_future(running.serve([listener]))
    while not running.started:
        await asyncio.sleep(0.005)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v0/agents/stream"
    query = {"agent_id": "swe", "consumer_id": "c"}
    async with httpx.AsyncClient() as web, web.stream("GET", url, params=query) as response:
        assert response.status_code == 200
        running.should_exit = True
        async with asyncio.timeout(20):
            await main
    listener.close()
    assert not server.ready
