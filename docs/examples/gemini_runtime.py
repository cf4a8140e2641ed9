"""A Task that Gemini works on with a tool, within limits."""

import asyncio

from agentic_kernel import Task
from agentic_kernel_engine import Limits, tool
from agentic_kernel_gemini import GeminiRuntime


@tool(effect="read")
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It rains in {city}."


async def main() -> None:
    limits = Limits(max_iterations=10, max_cost=0.50)
    async with GeminiRuntime("gemini-3.8-flash", tools=[weather], limits=limits) as runtime:
        task = Task.new(
            summary="Weather in Graz",
            instructions="Do I need an umbrella in Graz?",
            runtime_kind="gemini",
        )
        done = await runtime.run(task)
        outcome = await runtime.outcome(task.id)
    print(done.result if done.failure is None else done.failure.message)
    print(f"{outcome.usage.input_tokens} tokens read, ${outcome.usage.cost:.6f}")


asyncio.run(main())
