"""The server in a FastAPI application, with keys, rules, bounds and figures.

``uvicorn --factory mounted:application --timeout-graceful-shutdown 5`` runs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from fastapi import FastAPI

# --8<-- [start:application]
from agentic_kernel_file import FileStore
from agentic_kernel_server import Server
from agentic_kernel_server.observing.metrics import Metrics, routes
from agentic_kernel_server.policy import Gate, Rates
from agentic_kernel_server.security import (
    KeyCredentials,
    KeyFile,
    Keys,
    Most,
    Revocable,
    Sized,
    Sizes,
    TenantBounds,
)
from agentic_kernel_server.serving.composition import unfinished


def application() -> FastAPI:
    store = FileStore("state")
    keys, rates, metrics = Keys("keys.json"), Rates(store), Metrics()
    authenticate = KeyCredentials(keys)
    server = Server(
        store,
        authenticate=authenticate,
        decide=Gate("rules.yaml", rates),
        bounds=TenantBounds(Most(executions=1_000), unfinished(store)),
        measure=metrics,
        routes=routes(metrics, authenticate),  # The path /metrics.
    )
    agents = Revocable(Sized(server.app, Sizes()), keys)

    async def upkeep() -> None:
        while True:
            agents.look()  # Cuts the streams of revoked keys.
            await asyncio.sleep(5)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with server:
            await rates.sweep()  # Ends the old counters of rate limits.
            keeping = asyncio.create_task(upkeep())
            yield
            keeping.cancel()

    app = FastAPI(lifespan=lifespan)
    app.mount("/agents", agents)
    return app


# --8<-- [end:application]
RULES = """
version: 1
rules:
  - {name: reading, priority: 1, effect: allow, match: {capability: "web.*"}}
"""


async def main() -> None:
    key, _ = KeyFile("keys.json").make("ann", ["client", "metrics"])
    app = application()
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/agents"
        ) as web,
    ):
        body = {"agent_id": "swe", "input": {"invoice": 7}}
        print((await web.post("/v0/executions", json=body)).json()["code"])
        web.headers["authorization"] = f"Bearer {key}"
        print((await web.post("/v0/executions", json=body)).json()["status"])
        print("executions_created_total 1.0" in (await web.get("/metrics")).text)


if __name__ == "__main__":
    Path("rules.yaml").write_text(RULES)
    asyncio.run(main())
