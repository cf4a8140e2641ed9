"""Five thousand connections of one tenant: its bound holds, and another tenant goes on."""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from pathlib import Path

import httpx
import psutil  # type: ignore[import-untyped]
import pytest

from agentic_kernel_server.security import KeyFile

from .serving_process import Serving

MANY = 5_000
BOUND = 2_000


@pytest.mark.torture
@pytest.mark.timeout(600)
async def test_five_thousand_streams_of_one_tenant_leave_the_other_tenants_alone(
    tmp_path: Path,
) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard > MANY + 500, f"raise the limit of open files, which is {hard}"
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    keys = KeyFile(tmp_path / "keys.json")
    red, _ = keys.make("ann", ["agent"], tenant="red")
    blue, _ = keys.make("bob", ["client"], tenant="blue")
    serving = await asyncio.to_thread(
        Serving, tmp_path, "--keys", "keys.json", "--max-streams", str(BOUND)
    )
    host, _, port = serving.url.removeprefix("http://").partition(":")
    opened: list[asyncio.StreamWriter] = []
    gate = asyncio.Semaphore(100)

    async def stream(number: int) -> str:
        async with gate:
            reader, writer = await asyncio.open_connection(host, int(port))
            opened.append(writer)
            path = f"/v0/agents/stream?agent_id=swe&consumer_id=c{number}"
            lines = (
                f"GET {path} HTTP/1.1",
                f"Host: {host}",
                f"Authorization: Bearer {red}",
                "",
                "",
            )
            writer.write("\r\n".join(lines).encode())
            await writer.drain()
            return (await reader.readline()).decode().split()[1]

    try:
        answers = Counter(await asyncio.gather(*(stream(number) for number in range(MANY))))
        assert answers == {"200": BOUND, "429": MANY - BOUND}
        headers = {"authorization": f"Bearer {blue}"}
        async with httpx.AsyncClient(base_url=serving.url, headers=headers, timeout=60) as other:
            made = await other.post("/v0/executions", json={"agent_id": "qa"})
            assert made.status_code == 201
            there = f"/v0/executions/{made.json()['id']}"
            async with other.stream("GET", f"{there}/stream") as events:
                assert (await other.post(f"{there}/cancel")).status_code == 200
                lines = [line async for line in events.aiter_lines()]
            assert "event: execution.cancelled" in lines
        used = psutil.Process(serving.process.pid).memory_info().rss
        assert used < 1024**3, f"{used:,} bytes"
    finally:
        for writer in opened:
            writer.close()
        await asyncio.to_thread(serving.stop)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
