"""Capabilities: one Loop, two Agents; what each may do is the list of names that it has."""

import asyncio

from agentic_kernel import Agent, Capability, Task
from agentic_kernel_engine import Host, Loop, tool
from agentic_kernel_engine.loop import Context, FinalAnswer, ToolCall, Turn
from agentic_kernel_engine.seams import InMemoryCapabilities, Repertoire, ScriptedPlanner

SHELF = {"tea": 3}


@tool(effect="read")
def count(item: str) -> int:
    """How many there are."""
    return SHELF.get(item, 0)


@tool(effect="write", idempotent=True)
def stock(item: str, amount: int) -> str:
    """Say how many there are from now on."""
    SHELF[item] = amount
    return f"{item}: {amount}"


CAPABILITIES = InMemoryCapabilities(
    [
        Agent("shop/guest", (Capability("shop/look"),)),
        Agent("shop/clerk", (Capability("shop/look"), Capability("shop/fill"))),
    ],
    {
        "shop/look": Repertoire("Count before you promise.", [count]),
        "shop/fill": Repertoire("Never fill up beyond ten.", [stock]),
    },
)


def report(context: Context) -> FinalAnswer:
    """The instructions of the planner, and the result of its call."""
    last = context.transcript[-1]
    assert isinstance(last, Turn)
    observation = last.observations[0]
    return FinalAnswer([*context.instructions, observation.error or observation.output])


async def main() -> None:
    planner = ScriptedPlanner(ToolCall("stock", {"item": "tea", "amount": 10}), report)
    async with Host(Loop(planner, capabilities=CAPABILITIES)) as host:
        for agent in ("shop/guest", "shop/clerk"):
            task = Task.new(
                summary="Fill up", instructions="Fill up the tea.", runtime_kind="loop",
                agent_name=agent,
            )  # fmt: skip
            print(agent, (await host.run(task)).result, SHELF)


asyncio.run(main())
