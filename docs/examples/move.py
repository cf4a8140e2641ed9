"""The same program on files and on Postgres; the place is all that changes."""

import asyncio

from agentic_kernel_engine import Store
from agentic_kernel_file import FileStore
from agentic_kernel_openai import OpenAIRuntime
from agentic_kernel_postgres import PostgresStore


async def main(store: Store) -> None:
    async with OpenAIRuntime("gpt-6-luna", store=store) as runtime:
        done = await runtime.run("Why is the sky blue?")
        print(type(store).__name__, done.unwrap())
        print([event.type async for event in runtime.stream(done.task.id)])


async def on_postgres() -> None:
    async with PostgresStore() as store:  # of DATABASE_URL, or a server out of a wheel
        await main(store)


asyncio.run(main(FileStore("state")))
asyncio.run(on_postgres())
