"""Ten lines: a substrate of your own, run by a Host."""

# --8<-- [start:host]
import asyncio

from agentic_kernel import Task
from agentic_kernel_engine import Host, Job


class Count:
    async def execute(self, job: Job) -> int:
        total = job.state or 0  # what the last checkpoint left, after a pause or a crash as well
        while total < 3:
            total += 1
            await job.checkpoint(total)  # durable; a pause or a drain takes effect here
        return total


async def main() -> None:
    async with Host(Count()) as host:
        task = Task.new(summary="Count", instructions="Count to three.", runtime_kind="count")
        print((await host.run(task)).result)


asyncio.run(main())
# --8<-- [end:host]
