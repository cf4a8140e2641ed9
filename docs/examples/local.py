"""A real language model in this process, with its state in a folder."""

import asyncio
import tempfile

from agentic_kernel import Task
from agentic_kernel_file import FileStore
from agentic_kernel_local import LocalRuntime


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with LocalRuntime(store=FileStore(folder)) as runtime:
            task = Task.new(
                summary="Sea",
                instructions="Write one short sentence about the sea.",
                runtime_kind="local",
            )
            done = await runtime.run(task)
            print(done.status, done.result)


asyncio.run(main())
