"""A Task that outlives its process: kill this program at any moment, and run it again."""

import asyncio

from pydantic import BaseModel, Field

from agentic_kernel import TaskNotFound
from agentic_kernel_engine import Done
from agentic_kernel_file import FileStore
from agentic_kernel_openai import OpenAIRuntime


class Advice(BaseModel):
    city: str
    umbrella: bool
    layers: int = Field(ge=0)


async def main() -> None:
    store = FileStore("state")
    async with OpenAIRuntime("gpt-6-luna", store=store) as runtime:

        @runtime.tool(effect="read")
        def weather(city: str) -> str:
            """Tell the weather in a city."""
            return f"It rains in {city}."

        await runtime.recover()
        try:
            task = await runtime.wait("umbrella-in-bonn")
        except TaskNotFound:
            text = "Do I need an umbrella in Bonn?"
            task = await runtime.run(runtime.task(text, output_type=Advice, id="umbrella-in-bonn"))
        result = Done(task, task.result).unwrap()  # Raises if the Task failed, and says why.
        print(Advice.model_validate(result).umbrella)


asyncio.run(main())
