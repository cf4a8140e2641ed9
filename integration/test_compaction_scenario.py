"""A model with a hard context length does a hundred steps with a compactor, and fails without."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Loop, tool
from agentic_kernel_engine.loop import (
    Action,
    Context,
    Entry,
    FinalAnswer,
    PlannerError,
    ToolCall,
    Turn,
)
from agentic_kernel_engine.seams import Compactor, WindowCompactor
from agentic_kernel_file import FileStore

LENGTH = 6_000
"""How many characters the model takes in."""
PAGES = 100
ASKED = "Read the book to its end."


@tool(effect="read")
def turn_to(page: int) -> str:
    """Read a page of the book."""
    return f"page {page}: " + "it was a dark and stormy night; " * 5


class ShortSighted:
    """Reads page by page. All that it knows is its prompt, and one that is too long is refused."""

    def __init__(self) -> None:
        self.longest = 0
        self.half_way = asyncio.Event()

    async def plan(self, context: Context) -> Action:
        prompt = "\n".join(rendered(entry) for entry in context.transcript)
        if len(prompt) > LENGTH:
            raise PlannerError(
                "acme/context_length", f"the prompt has {len(prompt)} characters, over {LENGTH}"
            )
        self.longest = max(self.longest, len(prompt))
        read = max((int(page) for page in re.findall(r"page (\d+):", prompt)), default=0)
        if read == PAGES // 2:
            self.half_way.set()
        return FinalAnswer(read) if read == PAGES else ToolCall("turn_to", {"page": read + 1})


def rendered(entry: Entry) -> str:
    """An entry as an adapter might send it to a provider."""
    if not isinstance(entry, Turn):
        return entry.text
    return "\n".join(
        f"{action} {observation.output}"
        for action, observation in zip(entry.plan.actions, entry.observations, strict=True)
    )


async def read_the_book(folder: Path, compactor: Compactor | None) -> tuple[Task, ShortSighted]:
    """The Task when it has ended. Half-way through, another Host takes it over."""
    task = Task.new(summary="Read", instructions=ASKED, runtime_kind="loop")
    model = ShortSighted()
    loop = Loop(model, [turn_to], compactor=compactor)
    async with Host(loop, FileStore(folder)) as host:
        await host.dispatch(task)
        reading = asyncio.ensure_future(host.wait(task.id))
        half = asyncio.ensure_future(model.half_way.wait())
        await asyncio.wait({reading, half}, return_when=asyncio.FIRST_COMPLETED)
        for waiting in (reading, half):
            waiting.cancel()
        await asyncio.gather(reading, half, return_exceptions=True)
    async with asyncio.timeout(60), Host(loop, FileStore(folder)) as host:
        return await host.wait(task.id), model


async def test_with_a_compactor_the_work_is_done(tmp_path: Path) -> None:
    compactor = WindowCompactor(max_bytes=5_000, keep=8, summary=1_000)
    done, model = await read_the_book(tmp_path, compactor)
    assert done.result == PAGES
    assert model.longest <= LENGTH
    async with Host(store=FileStore(tmp_path)) as host:
        events = (await host.outcome(done.id)).events
    assert sum(event.type == "run.compacted" for event in events) > 5
    assert sum(event.type == "step.observed" for event in events) == PAGES + 1


async def test_without_one_the_model_refuses_sooner_or_later(tmp_path: Path) -> None:
    done, _ = await read_the_book(tmp_path, None)
    assert done.status is TaskStatus.FAILURE
    assert done.failure is not None
    assert done.failure.code == "acme/context_length"
