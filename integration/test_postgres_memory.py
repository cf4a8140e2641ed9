"""A memory in Postgres: shared by processes, by Tasks of a session, and across a crash."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from agentic_kernel_engine.seams.memory import Item, Query, Remembered
from agentic_kernel_postgres import PostgresMemory, PostgresStore

from .memory_worker import KEY, ROUNDS, SHARED
from .minilm import minilm
from .postgres_server import Server
from .postgres_server import schema as schema
from .postgres_server import server as server
from .test_memory_scenario import BOOK, CANCEL, PASSENGER, Railway, serve
from .test_sqlite_processes import ROOT, Worker

pytestmark = pytest.mark.slow


@contextmanager
def worker(place: str, schema: str, name: str) -> Iterator[Worker]:
    """A process that is killed when the block ends."""
    started = Worker.__new__(Worker)
    started.name = name
    started.process = subprocess.Popen(
        [sys.executable, "-m", "integration.memory_worker", place, schema, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield started
    finally:
        started.kill()


@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.torture)])
async def test_of_processes_that_say_the_same_at_once_one_takes_the_others_place(
    count: int, server: str, schema: str
) -> None:
    """And of what they all say, one is told that it is new. Nothing is lost of either."""
    async with PostgresMemory(server, schema=schema) as memory:
        await memory.propose(Item("first", SHARED, "as it was", KEY))
        with ExitStack() as stack:
            workers = [stack.enter_context(worker(server, schema, f"{n}")) for n in range(count)]
            for one in workers:
                assert await asyncio.to_thread(one.said) == "ready"
            for one in workers:
                one.go()
            told = [await asyncio.to_thread(one.said) for one in workers]
        assert sum(each["new"] for each in told) == ROUNDS
        assert sum(each["beaten"] for each in told) >= count - 1  # all begin with the first item
        # A chain from the first to the one that is live, with every item in it.
        chain = [await memory.explain(SHARED, "first")]
        while not chain[-1].live:
            chain.append(await memory.explain(SHARED, chain[-1].successor))
        ids = [each.id for each in chain]
        assert [each.predecessor for each in chain[1:]] == ids[:-1]
        assert sorted(ids) == sorted(
            ["first", *(f"{one.name}/{n}" for one in workers for n in range(ROUNDS))]
        )
        live = await memory.recall(Query(SHARED, limit=1_000))
        assert [hit.item.id for hit in live if hit.item.key == KEY] == ids[-1:]
        assert len(live) == ROUNDS + 1


@pytest.mark.parametrize("embeds", [False, True], ids=["words", "model"])
async def test_the_second_task_finds_what_the_first_one_was_told(
    embeds: bool, server: str, schema: str
) -> None:
    """Each on a Host and a memory of its own; Tasks and memory lie in one schema."""
    railway = Railway()
    embedder = minilm() if embeds else None
    for instructions, result in (
        (BOOK, "The seat to Lyon has the reference LYS-4711."),
        (CANCEL, "The seat to Lyon is cancelled."),
    ):
        async with (
            PostgresStore(server, schema=schema) as store,
            PostgresMemory(server, schema=schema, embedder=embedder) as memory,
        ):
            assert (await serve(railway, memory, instructions, store)).result == result
            question = "which seat was reserved in France" if embeds else "the seat to Lyon"
            (hit, *_) = await memory.recall(Query(PASSENGER, question))
            assert "Lyon" in hit.item.text
            known: Remembered = await memory.explain(PASSENGER, hit.item.id)
            assert known.origin.task
    assert railway.seats == {}


async def test_what_was_remembered_survives_the_server() -> None:
    """Killed and started again, under a memory that is open and goes on."""
    with Server() as server:
        async with PostgresMemory(server.place) as memory:
            for n in range(20):
                await memory.propose(Item(f"{n}", SHARED, f"item {n}"))
            exported = await memory.export(SHARED)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            assert await memory.export(SHARED) == exported
            assert not await memory.propose(Item("0", SHARED, "item 0"))
            assert await memory.propose(Item("20", SHARED, "item 20"))
