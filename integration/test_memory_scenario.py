"""Two Tasks of one session: the second succeeds only by what the first one left in memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentic_kernel import Task
from agentic_kernel_engine import Host, Loop, MemoryStore, Store, tool
from agentic_kernel_engine.loop import (
    Action,
    Context,
    FinalAnswer,
    Principal,
    Stop,
    ToolCall,
    Turn,
)
from agentic_kernel_engine.loop.continuation import SESSION
from agentic_kernel_engine.seams import (
    Memory,
    Query,
    RuleBasedPlanner,
    Scope,
    SessionMemoryGovernor,
    Tool,
)
from agentic_kernel_engine.seams.memories import (
    Embedder,
    EmbeddingMemory,
    HashingEmbedder,
    InMemoryMemory,
    NoMemory,
)
from agentic_kernel_file import FileMemory, FileStore

PASSENGER = Scope("acme", "ann", "trip")
BOOK = "Book a seat to Lyon."
CANCEL = "Cancel the seat to Lyon."
REFERENCE = re.compile(r"LYS-\d{4}")


class Railway:
    """Seats, each under a reference that nobody can guess."""

    def __init__(self) -> None:
        self.seats: dict[str, str] = {}

    def tools(self) -> list[Tool]:
        @tool(effect="write")
        async def book(city: str) -> str:
            """Book a seat."""
            reference = f"LYS-{4711 + len(self.seats)}"
            self.seats[reference] = city
            return f"The seat to {city} has the reference {reference}."

        @tool(effect="write")
        async def cancel(reference: str) -> str:
            """Cancel a seat."""
            return f"The seat to {self.seats.pop(reference)} is cancelled."

        return [book, cancel]


def books(context: Context) -> Action | None:
    """A new Task to book: book."""
    if context.step == 0 and context.task.instructions == BOOK:
        return ToolCall("book", {"city": "Lyon"})
    return None


def cancels(context: Context) -> Action | None:
    """A new Task to cancel: cancel what is remembered, if anything is."""
    if context.step == 0 and context.task.instructions == CANCEL:
        for memory in context.memories:
            found = REFERENCE.search(memory)
            if found:
                return ToolCall("cancel", {"reference": found[0]})
        return Stop("which seat? no reference is known")
    return None


def reports(context: Context) -> Action | None:
    """Once a tool has answered, that is the answer."""
    last = context.transcript[-1]
    return FinalAnswer(last.observations[0].output) if isinstance(last, Turn) else None


async def serve(
    railway: Railway, memory: Memory, instructions: str, store: Store, session: str = "trip"
) -> Task:
    """One Task on a Host of its own, which is closed before the next one is opened."""
    loop = Loop(
        RuleBasedPlanner(books, cancels, reports),
        railway.tools(),
        memory=memory,
        governor=SessionMemoryGovernor(),
        principal=Principal(PASSENGER.principal, PASSENGER.tenant),
    )
    task = Task.new(
        summary="", instructions=instructions, runtime_kind="loop", metadata={SESSION: session}
    )
    async with Host(loop, store) as host:
        return await host.run(task)


@pytest.mark.parametrize(
    "memory", [InMemoryMemory(), EmbeddingMemory(HashingEmbedder())], ids=["words", "vectors"]
)
async def test_the_second_task_finds_in_memory_what_the_first_one_was_told(
    memory: Memory, tmp_path: Path
) -> None:
    railway, store = Railway(), FileStore(tmp_path / "state")
    booked = await serve(railway, memory, BOOK, store)
    assert booked.result == "The seat to Lyon has the reference LYS-4711."
    cancelled = await serve(railway, memory, CANCEL, store)
    assert cancelled.result == "The seat to Lyon is cancelled."
    assert railway.seats == {}
    (hit, *_) = await memory.recall(Query(PASSENGER, "reference of the seat to Lyon"))
    known = await memory.explain(PASSENGER, hit.item.id)
    assert known.origin.task in (booked.id, cancelled.id)


@pytest.mark.parametrize("embedder", [None, HashingEmbedder()], ids=["words", "vectors"])
async def test_the_second_task_finds_it_in_a_folder_that_is_opened_again(
    embedder: Embedder | None, tmp_path: Path
) -> None:
    """Tasks and memory in two folders; each Task has a memory of its own, as in a new process."""
    railway = Railway()
    for instructions, result in (
        (BOOK, "The seat to Lyon has the reference LYS-4711."),
        (CANCEL, "The seat to Lyon is cancelled."),
    ):
        store = FileStore(tmp_path / "state")
        memory = FileMemory(tmp_path / "memory", embedder=embedder)
        assert (await serve(railway, memory, instructions, store)).result == result
        memory.close()
        store.close()
    assert railway.seats == {}


@pytest.mark.parametrize(
    ("memory", "session"), [(NoMemory(), "trip"), (InMemoryMemory(), "another trip")]
)
async def test_without_a_memory_of_its_session_the_second_task_fails(
    memory: Memory, session: str
) -> None:
    railway, store = Railway(), MemoryStore()
    booked = await serve(railway, memory, BOOK, store)
    assert booked.status == "success"
    failed = await serve(railway, memory, CANCEL, store, session)
    assert failed.failure is not None
    assert failed.failure.code == "engine/stopped"
    assert "no reference is known" in failed.failure.message
    assert railway.seats == {"LYS-4711": "Lyon"}


async def test_a_memory_that_was_exported_serves_another_process(tmp_path: Path) -> None:
    """What a host does that keeps memories of its own: as JSON, between two processes."""
    railway, store, first = Railway(), FileStore(tmp_path / "state"), InMemoryMemory()
    await serve(railway, first, BOOK, store)
    second = EmbeddingMemory(HashingEmbedder())
    assert await second.restore(PASSENGER, await first.export(PASSENGER)) == 2
    cancelled = await serve(railway, second, CANCEL, store)
    assert cancelled.result == "The seat to Lyon is cancelled."
