"""A person decides about a payment that a small model in this process asks for, without a key."""

import asyncio
from contextlib import suppress

from agentic_kernel import TaskExists, TaskStatus
from agentic_kernel_engine import Done, tool, waiting_for
from agentic_kernel_engine.loop import ToolCall
from agentic_kernel_engine.seams import BasicPolicy
from agentic_kernel_file import FileStore
from agentic_kernel_local import Example, LocalRuntime

BAKER = Example(
    "Pay the baker 20 euros.",
    ToolCall("pay", {"to": "the baker", "euros": 20}),
    "paid",
    "The baker is paid.",
)


@tool(effect="write")
def pay(to: str, euros: int) -> str:
    """Pay an amount."""
    return f"paid {euros} euros to {to}"


def cashier() -> LocalRuntime:
    return LocalRuntime(
        store=FileStore("state"),
        tools=[pay],
        policy=BasicPolicy(allow=["read"]),
        examples=[BAKER],
    )


async def ask() -> None:
    """The first process: the Task is paused when the model calls `pay`."""
    async with cashier() as runtime:
        await runtime.recover()
        with suppress(TaskExists):  # From an earlier run of this program.
            await runtime.dispatch(runtime.task("Pay the plumber 80 euros.", id="plumber"))
        print((await runtime.wait("plumber", TaskStatus.PAUSED)).status)


async def decide() -> None:
    """The second process: it shows the call, approves exactly this call, and goes on."""
    async with cashier() as runtime:
        waiting = waiting_for(await runtime.get("plumber"))
        if waiting is not None:  # Else an earlier run of this program has decided.
            [request] = waiting["requests"]
            print(request["action"]["tool"], dict(request["action"]["arguments"]))
            await runtime.approve("plumber", request["digest"], by="ann")
        task = await runtime.wait("plumber")
        print(Done(task, task.result).unwrap())


if __name__ == "__main__":
    asyncio.run(ask())
    asyncio.run(decide())
