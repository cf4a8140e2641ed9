"""An agent under test: no model, no network, and the same answer each time."""

import asyncio

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Limits, Loop, MemoryStore, tool
from agentic_kernel_engine.loop import FinalAnswer, ToolCall
from agentic_kernel_engine.seams import ScriptedPlanner

paid: list[int] = []


@tool(effect="write")
def pay(euros: int) -> str:
    """Pay an amount."""
    if euros > 100:
        raise ValueError("the limit is 100 euros")
    paid.append(euros)
    return "paid"


async def run(*plan: ToolCall | FinalAnswer) -> Task:
    """Play a plan that a model might make against the real Loop, Host, tools and limits."""
    loop = Loop(ScriptedPlanner(*plan), [pay], limits=Limits(max_failures=2))
    async with Host(loop, MemoryStore()) as host:
        return await host.run(Task.new(summary="Pay", instructions="Pay.", runtime_kind="loop"))


async def main() -> None:
    done = await run(ToolCall("pay", {"euros": 80}), FinalAnswer("paid"))
    assert (done.status, done.result, paid) == (TaskStatus.SUCCESS, "paid", [80])

    wrong = await run(*[ToolCall("pay", {"euros": "a lot"})] * 2)
    assert wrong.failure is not None
    assert paid == [80]  # wrong arguments never reach the tool
    print(wrong.failure.code, "-", wrong.failure.message)


asyncio.run(main())
