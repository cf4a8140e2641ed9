"""A process that runs Tasks on the real local model: ``python -m integration.streaming_worker …``.

Its arguments are the store (``file FOLDER`` or ``postgres PLACE SCHEMA``) and the job: ``run`` with
the id of a new Task, or ``recover`` with that of another one. It commits nothing while an answer
streams, so another process sees only what was flushed.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack, closing
from typing import Any

from agentic_kernel import Task
from agentic_kernel_file import FileStore
from agentic_kernel_local import LocalRuntime
from agentic_kernel_postgres import PostgresStore

CONTEXT = 2048
QUESTION = "List one hundred reasons to visit Paris, numbered."
TOKENS = 1500
"""The most tokens of an answer: it takes some ten seconds."""
LEASE = 8.0
"""Seconds; loading the model keeps a busy machine from renewing for some of them."""


async def opened(stack: AsyncExitStack, kind: str, *place: str) -> Any:
    """The store, closed at the end of the stack."""
    if kind == "file":
        return stack.enter_context(closing(FileStore(place[0])))
    return await stack.enter_async_context(PostgresStore(place[0], schema=place[1], lease=LEASE))


def asked(task_id: str) -> Task:
    """A Task with a long answer."""
    return Task.new(
        id=task_id,
        summary="",
        instructions=QUESTION,
        runtime_kind="local",
        metadata={"local/max_tokens": TOKENS},
    )


async def main(words: list[str]) -> None:
    """Do the job; say ``ready`` when the Task runs here."""
    places = {"file": 2, "postgres": 3}[words[0]]
    place, (job, task_id) = words[:places], words[places:]
    async with AsyncExitStack() as stack:
        store = await opened(stack, *place)
        runtime = await stack.enter_async_context(
            LocalRuntime(
                store=store,
                context_tokens=CONTEXT,
                slots=1,
                claims=False,
            )
        )
        if job == "run":
            await runtime.dispatch(asked(task_id))
        else:
            # A lease of another process may have to expire first; nothing tells of that.
            async with asyncio.timeout(60):
                while (await runtime.claim(task_id)).effect != "claimed":  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        print("ready", flush=True)
        await runtime.wait(task_id)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
