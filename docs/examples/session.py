"""A conversation over two Tasks: the second one starts from the transcript of the first."""

import asyncio

from agentic_kernel import Task
from agentic_kernel_engine import Host, Loop
from agentic_kernel_engine.loop import Action, Context, FinalAnswer, UserMessage, continued
from agentic_kernel_engine.seams import RuleBasedPlanner


def decide(context: Context) -> Action:
    """Answers with what the user said so far."""
    said = [entry.text for entry in context.transcript if isinstance(entry, UserMessage)]
    return FinalAnswer(" ".join(said))


async def main() -> None:
    first = Task.new(summary="Ann", instructions="My name is Ann.", runtime_kind="loop")
    async with Host(Loop(RuleBasedPlanner(decide))) as host:
        ended = await host.run(first)
        alone = await host.run(Task.new(summary="?", instructions="Who am I?", runtime_kind="loop"))
        second = await host.run(continued(ended, "Who am I?"))
    print(alone.result)
    print(second.result, "-", second.metadata["engine/session"] == first.id)


asyncio.run(main())
