"""Memory: a second Task knows what the first one was told; and the seam swapped for another."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from agentic_kernel import Task
from agentic_kernel_engine import Host, Loop
from agentic_kernel_engine.loop import Action, Context, FinalAnswer, Principal
from agentic_kernel_engine.seams import (
    Item,
    Memory,
    Query,
    RuleBasedPlanner,
    Scope,
    SessionMemoryGovernor,
)
from agentic_kernel_engine.seams.memories import (
    EmbeddingMemory,
    HashingEmbedder,
    InMemoryMemory,
    NoMemory,
)
from agentic_kernel_file import FileMemory

ANN = Principal("ann", tenant="acme")
SESSION = Scope(ANN.tenant, ANN.name, "monday")


def recite(context: Context) -> Action:
    """A planner: what is remembered is the answer. A model would be shown the same."""
    return FinalAnswer(list(context.memories))


def new_task(instructions: str) -> Task:
    return Task.new(
        summary="Example",
        instructions=instructions,
        runtime_kind="loop",
        metadata={"engine/session": SESSION.session},
    )


async def main(memory: Memory) -> None:
    loop = Loop(
        RuleBasedPlanner(recite),
        memory=memory,  # this line alone is what is swapped
        governor=SessionMemoryGovernor(max_items=50),
        seed_memory=["Amounts are in euros."],
        principal=ANN,
    )
    await memory.propose(Item("host:invoice", SESSION, "The invoice is no. 0417.", key="invoice"))
    async with Host(loop) as host:
        for question in ("Which invoice is it?", "What was said about it?"):
            done = await host.run(new_task(question))
            print(type(memory).__name__, done.result)
    for hit in await memory.recall(Query(SESSION, "which invoice", limit=1)):
        print(f"{hit.item.id}: {hit.item.text} ({hit.reason})")


for memory in (NoMemory(), InMemoryMemory(), EmbeddingMemory(HashingEmbedder())):
    asyncio.run(main(memory))

with TemporaryDirectory() as folder:
    kept = FileMemory(Path(folder) / "memory", embedder=HashingEmbedder())  # outlives the process
    asyncio.run(main(kept))
    again = FileMemory(kept.folder)  # as another process opens it
    print(asyncio.run(again.recall(Query(SESSION, "invoice", limit=1)))[0].item.text)
