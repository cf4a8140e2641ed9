"""The bounded loop without a model: two tools, and a write that a person approves elsewhere."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any, Literal, cast

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Limits, Loop, tool
from agentic_kernel_engine.loop import (
    ALLOW,
    Action,
    Context,
    Decision,
    FinalAnswer,
    ToolCall,
    Turn,
    require_approval,
)
from agentic_kernel_engine.seams import ScriptedPlanner, Tool
from agentic_kernel_file import FileStore


@tool(effect="none")
def calculate(left: float, operator: Literal["+", "-", "*", "/"], right: float) -> float:
    """Apply one operator to two numbers."""
    results = {"+": left + right, "-": left - right, "*": left * right}
    return left / right if operator == "/" else results[operator]


def writer(folder: Path) -> Tool:
    """A tool that writes into one folder and nowhere else."""

    @tool(effect="write", idempotent=True)  # the same text again changes nothing more
    def write(name: str, text: str) -> str:
        """Write a text file."""
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise ValueError(f"{name} is outside of the folder")
        path.write_text(text, encoding="utf-8")
        return f"{name}: {len(text)} characters"

    return write


class AskBeforeWriting:
    """A policy: a person looks at every write."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        if isinstance(action, ToolCall) and action.tool == "write":
            return require_approval("it writes a file")
        return ALLOW


def write_result(name: str) -> Any:
    """An answer that depends on what the first tool returned."""

    def answer(context: Context) -> Action:
        first = next(entry for entry in context.transcript if isinstance(entry, Turn))
        return ToolCall("write", {"name": name, "text": str(first.observations[0].output)})

    return answer


PLANNER = ScriptedPlanner(  # one answer for every step; a model would give these
    ToolCall("calculate", {"left": 6, "operator": "*", "right": 7}),
    write_result("../result.txt"),
    write_result("result.txt"),
    FinalAnswer("The result is in result.txt."),
)


async def approve(state: Path, task_id: str) -> None:
    """The work of a second terminal: look at the requests, and approve one."""
    async with Host(store=FileStore(state)) as other:
        task = await other.get(task_id)
        waiting = cast("dict[str, Any]", task.metadata["engine/waiting_for"])
        for request in waiting["requests"]:
            print("approved:", request["reason"], dict(request["action"]["arguments"]))
            await other.approve(task_id, request["digest"], by="ann")


async def main(state: Path, folder: Path) -> None:
    tools = [calculate, writer(folder)]
    loop = Loop(PLANNER, tools, AskBeforeWriting(), limits=Limits(max_iterations=10))
    async with Host(loop, FileStore(state)) as host:
        task = Task.new(
            summary="Multiply", instructions="Write 6 * 7 to a file.", runtime_kind="loop"
        )
        await host.dispatch(task)
        for _ in range(2):
            await host.wait(task.id, TaskStatus.PAUSED)
            await approve(state, task.id)
        await host.wait(task.id)
        done = await host.outcome(task.id)
    for event in done.events:
        print(event.type, *event.data.get("observations", ()))
    print(done.reason, done.answer)


with tempfile.TemporaryDirectory() as state, tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(state), Path(folder)))
    print(Path(folder, "result.txt").read_text(encoding="utf-8"))
