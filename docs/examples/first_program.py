"""A text in, a typed answer out: the same program on every runtime that takes tools."""

import asyncio

from pydantic import BaseModel, Field

from agentic_kernel_openai import OpenAIRuntime


class Advice(BaseModel):
    city: str
    umbrella: bool
    layers: int = Field(ge=0)


async def main() -> None:
    async with OpenAIRuntime("gpt-6-luna") as runtime:

        @runtime.tool(effect="read")
        def weather(city: str) -> str:
            """Tell the weather in a city."""
            return f"It rains in {city}."

        done = await runtime.run("Do I need an umbrella in Bonn?", output_type=Advice)
        print(done.unwrap().umbrella)

        async for piece in runtime.stream_text("Why is the sky blue?"):
            print(piece, end="")
        print()

        # The Task is an object like all others: it has a history, and can be watched and killed.
        print(done.task.status, len((await runtime.outcome(done.task.id)).events))


asyncio.run(main())
