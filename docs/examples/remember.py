"""A conversation over two Tasks, and a memory that a third Task has in another process."""

import asyncio

from agentic_kernel_engine import Done
from agentic_kernel_engine.loop import Principal, continued
from agentic_kernel_engine.seams import SessionMemoryGovernor
from agentic_kernel_file import FileMemory, FileStore
from agentic_kernel_openai import OpenAIRuntime

ANN = Principal("ann", tenant="acme")


def runtime() -> OpenAIRuntime:
    return OpenAIRuntime(
        "gpt-6-luna",
        store=FileStore("state"),
        memory=FileMemory("memory"),
        governor=SessionMemoryGovernor(max_items=50),
        principal=ANN,
    )


async def monday() -> None:
    async with runtime() as assistant:
        first = await assistant.run(assistant.task("My invoice is no. 0417.", id="monday"))
        # The same session: the model sees what was said.
        second = await assistant.run(continued(first, "Which invoice is mine?"))
        print(Done(second, second.result).unwrap())


async def tuesday() -> None:
    async with runtime() as assistant:
        # Another Task of the session: the model is shown what the memory knows.
        task = assistant.task("Which invoice was it?", metadata={"engine/session": "monday"})
        ended = await assistant.run(task)
        print(Done(ended, ended.result).unwrap())


asyncio.run(monday())
asyncio.run(tuesday())
