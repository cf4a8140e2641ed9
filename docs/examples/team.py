"""Two agents under one budget: an editor asks a writer, and both spend from the same limits."""

import asyncio

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Done, Limits
from agentic_kernel_file import FileStore
from agentic_kernel_openai import OpenAIRuntime


async def main() -> None:
    store = FileStore("state")
    writer = OpenAIRuntime(
        "gpt-6-luna", store=store, runtime_kind="writer", system="Write one sentence."
    )
    ask = writer.as_tool(name="writer", description="Writes about anything.")
    editor = OpenAIRuntime("gpt-6-luna", store=store, runtime_kind="editor", tools=[ask])
    budget = Limits(max_total_tokens=50_000, max_iterations=12)
    async with writer, editor:
        page = await editor.run(editor.task("Make today's page."), limits=budget)
        print(Done(page, page.result).unwrap())
        for task in await editor.find(TaskStatus.SUCCESS):  # in the order of their ids
            used = (await editor.outcome(task.id)).usage
            print(task.runtime_kind, used.input_tokens + used.output_tokens, "tokens")


asyncio.run(main())
