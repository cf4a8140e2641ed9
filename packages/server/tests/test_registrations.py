"""A person ends the record of a stream or of a process that is still there."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Host, MemoryStore, Record, Store
from agentic_kernel_server.forwarding import addresses, forwarder
from agentic_kernel_server.runners import registry

from .clients import runner, streams
from .serving import serving
from .test_sessions import squares


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made again soon."""
    monkeypatch.setattr(registry, "_AGAIN", 0.02)
    monkeypatch.setattr(forwarder, "_AGAIN", 0.02)


async def living(store: Store, kind: str, *others: Record, **labels: str) -> Record:
    """The living record of a kind that is none of the others."""
    known = {each.task.id for each in others}
    async with asyncio.timeout(10):
        while True:
            for found in await store.find(kinds=[kind], status=TaskStatus.RUNNING, labels=labels):
                if found.task.id not in known:
                    return found
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("verb", ["pause", pytest.param("kill", marks=pytest.mark.torture)])
async def test_a_stream_whose_registration_a_person_ends_is_registered_anew(verb: str) -> None:
    store = MemoryStore()
    async with (
        serving(store) as (url, server),
        Host(store=store) as person,
        runner(url, "r", squares([])),
        httpx.AsyncClient(base_url=url) as web,
    ):
        await streams(server, 1, "runners")
        first = await living(store, registry.KIND, **{"label/part": "stream"})
        await getattr(person, verb)(first.task.id)
        second = await living(store, registry.KIND, first, **{"label/part": "stream"})
        offered = await web.post("/v0/runners/r/capabilities", json={"tools": ["square"]})
        assert offered.json() == {"accepted": True}
    assert (await store.load(second.task.id)).task.status is TaskStatus.SUCCESS


async def test_a_runner_that_is_withdrawn_is_not_registered_anew() -> None:
    store = MemoryStore()
    async with serving(store) as (url, server), httpx.AsyncClient(base_url=url) as web:
        place = "/v0/runners/stream?runner_id=r&consumer_id=c&capabilities=x"
        async with web.stream("GET", place):
            await streams(server, 1, "runners")
            await living(store, registry.KIND, **{"label/part": "stream"})
            assert (await web.delete("/v0/runners/r")).status_code == 200
            while server.counts()["runner_streams"]:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert not await store.find(kinds=[registry.KIND], status=TaskStatus.RUNNING)


@pytest.mark.parametrize("verb", ["kill", pytest.param("pause", marks=pytest.mark.torture)])
async def test_a_process_whose_record_a_person_ends_makes_another_one(verb: str) -> None:
    store = MemoryStore()
    async with serving(store), Host(store=store) as person:
        first = await living(store, addresses.KIND)
        await getattr(person, verb)(first.task.id)
        second = await living(store, addresses.KIND, first)
        assert second.task.instructions == first.task.instructions
    assert second.task.metadata == first.task.metadata
    assert (await store.load(second.task.id)).task.status is not TaskStatus.RUNNING
