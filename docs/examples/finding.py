"""Find Tasks page by page, the newest first."""

# --8<-- [start:finding]
import asyncio

from agentic_kernel import Task
from agentic_kernel_engine import Host, Job


class Echo:
    async def execute(self, job: Job) -> str:
        return job.task.instructions


async def main() -> None:
    async with Host(Echo()) as host:
        for number in range(5):
            given = {"label/team": "red"}
            task = Task.new(
                summary="", instructions=str(number), runtime_kind="echo", metadata=given
            )
            await host.run(task)

        after = None
        while True:
            page = await host.store.find(newest=True, labels={"team": "red"}, after=after, limit=2)
            for record in page:
                print(record.task.id, record.task.status, record.task.result)
            if len(page) < 2:
                break  # A page shorter than its limit is the last one.
            after = page[-1].task.created_at, page[-1].task.id


asyncio.run(main())
# --8<-- [end:finding]
