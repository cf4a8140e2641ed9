"""A compactor in a few lines: it says how much was done, and keeps the latest three entries."""

import asyncio

from agentic_kernel import Task
from agentic_kernel_engine import Host, Loop, tool
from agentic_kernel_engine.loop import Action, Context, FinalAnswer, Remaining, ToolCall, Transcript
from agentic_kernel_engine.seams import Compaction, Compactor, RuleBasedPlanner, WindowCompactor


class Tally:
    def compact(self, transcript: Transcript, remaining: Remaining) -> Compaction | None:
        count = len(transcript) - 3
        if count < 5:
            return None
        return Compaction(count, f"(earlier work; {remaining.iterations} more steps may be done)")


@tool(effect="none")
def square(n: int) -> int:
    """Multiply a number by itself."""
    return n * n


def decide(context: Context) -> Action:
    if context.step < 50:
        return ToolCall("square", {"n": context.step})
    return FinalAnswer(
        f"shown {len(context.transcript)} entries, the first: {context.transcript[0]}"
    )


async def main(compactor: Compactor | None) -> None:
    task = Task.new(summary="Squares", instructions="Square 0 to 49.", runtime_kind="loop")
    async with Host(Loop(RuleBasedPlanner(decide), [square], compactor=compactor)) as host:
        print((await host.run(task)).result)


for compactor in (None, Tally(), WindowCompactor(max_entries=20, keep=5)):
    asyncio.run(main(compactor))
