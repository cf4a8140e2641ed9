"""A process begins again after a lost lease, and a stop is a stop whatever the store does."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentic_kernel_engine import MemoryStore, Store, StoreError
from agentic_kernel_server import server as module
from agentic_kernel_server.serving import Options, listening
from agentic_kernel_server.serving.options import shown_address
from agentic_kernel_server.serving.process import run

from .fronts import Crowd
from .serving import QUICK

RULES = 'version: 1\nrules: [{{name: a, priority: 1, effect: {}, match: {{capability: "*"}}}}]\n'


class Lapsing(MemoryStore):
    """Its hosts can lose their leases, and it can be away."""

    def __init__(self) -> None:
        super().__init__()
        self.joined: list[str] = []
        self.away = ""
        """``fails`` or ``hangs``."""

    async def join(self, host: str) -> None:
        await super().join(host)
        self.joined.append(host)

    async def lapse(self) -> None:
        """Every host has lost its lease."""
        for host in self.joined:
            await super().leave(host)

    async def leave(self, host: str) -> None:
        if self.away == "hangs":
            await asyncio.Event().wait()
        if self.away == "fails":
            raise StoreError("the database is away")
        await super().leave(host)


class Process:
    """The process of a server, in the event loop of the test; each beginning opens the store."""

    def __init__(self, store: Lapsing, **given: Any) -> None:
        options = Options(listen="127.0.0.1:0", settings=QUICK, grace=0.1, **given)
        sockets = listening(options)
        self.url = shown_address(sockets[0])
        self.store = store
        self.beginnings = 0
        self.main = asyncio.ensure_future(run(options, self._opened, sockets))
        self._sockets = sockets

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Store]:
        self.beginnings += 1
        if self.store.away == "fails":
            raise StoreError("the database is away")
        yield self.store

    async def began(self, count: int, headers: dict[str, str] | None = None) -> None:
        """Wait until the process is ready for the count-th time."""
        async with asyncio.timeout(20), httpx.AsyncClient(base_url=self.url) as web:
            while self.beginnings < count or (await web.get("/v0/ready")).status_code != 200:
                assert not self.main.done(), self.main
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Send it SIGTERM, and wait for its end."""
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(20):
            await self.main
        for each in self._sockets:
            each.close()


@pytest.fixture(autouse=True)
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """The life of the Hosts is looked at often, and a store that hangs is not waited for long."""
    monkeypatch.setattr(module, "_ALIVE", 0.02)
    monkeypatch.setattr(module, "_LEAVING", 0.2)


async def decided(url: str) -> dict[str, Any]:
    """The answer to the call of a tool. (An agent of the client would take the signals.)"""
    async with httpx.AsyncClient(base_url=url) as web:
        await web.post("/v0/executions", json={"agent_id": "swe"})
        place = "/v0/agents/stream?agent_id=swe&consumer_id=c"
        async with web.stream("GET", place) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    break
            told = json.loads(line.removeprefix("data: "))
            answer = await web.post(
                "/v0/agents/intent",
                json={
                    "execution_id": told["execution_id"],
                    "session_id": told["session_id"],
                    "intent": {"type": "invoke_tool", "tool_id": "t", "arguments": {}},
                },
            )
    return dict(answer.json())


@pytest.mark.parametrize(
    "now",
    [
        pytest.param("rules: [", id="damaged"),
        pytest.param(RULES.format("deny"), id="changed", marks=pytest.mark.torture),
    ],
)
async def test_a_new_beginning_is_no_reload_of_the_policy(tmp_path: Path, now: str) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES.format("allow"))
    process = Process(Lapsing(), policy=rules)
    await process.began(1)
    rules.write_text(now)
    await process.store.lapse()
    await process.began(2)
    assert (await decided(process.url))["accepted"]
    await process.stop()


async def test_a_new_beginning_keeps_the_keys_of_a_file_that_was_damaged(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path)
    name, _, value = crowd.key("ann", "client").partition(": ")
    process = Process(Lapsing(), keys=tmp_path / "keys.json")
    await process.began(1)
    (tmp_path / "keys.json").write_text("{")
    await process.store.lapse()
    await process.began(2)
    async with httpx.AsyncClient(base_url=process.url, headers={name: value}) as web:
        assert (await web.get("/v0/executions")).status_code == 200
    await process.stop()


@pytest.mark.parametrize("beginnings", [pytest.param(1, marks=pytest.mark.torture), 2])
@pytest.mark.parametrize("away", ["fails", "hangs"])
async def test_a_stop_while_the_store_is_away_is_a_stop(away: str, beginnings: int) -> None:
    process = Process(Lapsing())
    await process.began(1)
    if beginnings == 2:
        await process.store.lapse()
        await process.began(2)
    process.store.away = away
    await process.stop()
    assert process.beginnings == beginnings


async def test_a_stop_ends_the_wait_for_a_store_that_cannot_be_opened_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    process = Process(Lapsing())
    await process.began(1)
    process.store.away = "fails"
    await process.store.lapse()
    async with asyncio.timeout(20):
        while process.beginnings < 3:  # The next pause is 1.5 s.
            await asyncio.sleep(0.01)
    await asyncio.wait_for(process.stop(), 1.0)
    assert "cannot be opened again yet" in caplog.text


async def test_a_stopping_process_lets_no_client_keep_its_connection() -> None:
    process = Process(Lapsing(), notice=0.3)
    await process.began(1)
    async with httpx.AsyncClient(base_url=process.url) as web:
        assert "connection" not in (await web.get("/v0/health")).headers
        stopping = asyncio.ensure_future(process.stop())
        while (await web.get("/v0/ready")).status_code == 200:
            await asyncio.sleep(0.005)
        assert (await web.get("/v0/health")).headers["connection"] == "close"
        await stopping
