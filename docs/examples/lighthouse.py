"""A Task that outlives its process: kill this program at any moment, and run it again."""

import asyncio

from agentic_kernel import TaskNotFound
from agentic_kernel_file import FileStore
from agentic_kernel_local import LocalRuntime


async def main() -> None:
    async with LocalRuntime(store=FileStore("state")) as runtime:
        print("taken up:", await runtime.recover())
        try:
            task = await runtime.wait("facts")
        except TaskNotFound:
            text = "List ten facts about lighthouses."
            task = await runtime.run(runtime.task(text, id="facts"))
        print(task.status, task.result)


asyncio.run(main())
