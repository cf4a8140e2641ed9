"""Approvals: an application shows what waits for a decision, wherever it was asked."""

import asyncio
import tempfile

from agentic_kernel import Task
from agentic_kernel_engine import Host, Loop, tool
from agentic_kernel_engine.loop import (
    ALLOW,
    Action,
    Context,
    Decision,
    FinalAnswer,
    ToolCall,
    require_approval,
)
from agentic_kernel_engine.seams import InMemoryApprovals, ScriptedPlanner
from agentic_kernel_file import FileStore


@tool(effect="write")
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


class AskBeforePaying:
    """A policy: a person looks at every payment."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        if isinstance(action, ToolCall) and action.tool == "pay":
            return require_approval("money leaves the house")
        return ALLOW


async def desk(state: str) -> None:
    """The work of another process: it runs no Task, and sees the requests in the folder."""
    approvals = InMemoryApprovals()
    async with Host(store=FileStore(state), approvals=approvals) as host:
        await host.find()
        request = await approvals.next()
        print(request.reason, "-", dict(request.action["arguments"]))
        await host.approve(request.task_id, request.digest, by="ann")


async def main(state: str) -> None:
    cashier = Host(
        Loop(
            ScriptedPlanner(ToolCall("pay", {"amount": 40}), FinalAnswer("the bill is paid")),
            [pay],
            AskBeforePaying(),
        ),
        FileStore(state),
        runtime_kinds=["cashier"],
    )
    tools = [cashier.as_tool(name="cashier", description="Pays bills.")]
    ask = ToolCall("cashier", {"instructions": "Pay the bill."})
    butler = Loop(ScriptedPlanner(ask, FinalAnswer("all done")), tools)
    async with cashier, Host(butler, FileStore(state), runtime_kinds=["butler"]) as host:
        task = Task.new(summary="Bill", instructions="See to the bill.", runtime_kind="butler")
        await host.dispatch(task)
        await desk(state)
        print((await host.wait(task.id)).result)


with tempfile.TemporaryDirectory() as state:
    asyncio.run(main(state))
