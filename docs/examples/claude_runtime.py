"""A Task with a tool, streamed, on a model behind the Messages API."""

import asyncio
import os
import sys

from agentic_kernel import Task
from agentic_kernel_claude import ClaudeRuntime
from agentic_kernel_engine import Event, Limits, tool


@tool(effect="read")
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It rains in {city}."


class Printer:
    """Prints an answer as it comes."""

    def observe(self, task_id: str, event: Event) -> None:
        if event.type == "run.delta" and "channel" not in event.data:
            print(event.data["text"], end="", flush=True)


async def main() -> None:
    """Ask for the weather."""
    async with ClaudeRuntime(
        os.environ.get("ANTHROPIC_MODEL", "claude-opus-5-5"),
        tools=[weather],
        limits=Limits(max_iterations=5, max_output_tokens=2_000),
        observer=Printer(),
    ) as runtime:
        task = Task.new(
            summary="Weather",
            instructions="Do I need an umbrella in Bergen?",
            runtime_kind="claude",
        )
        done = await runtime.run(task)
    print()
    if done.failure is not None:
        sys.exit(f"{done.failure.code}: {done.failure.message}")


asyncio.run(main())
