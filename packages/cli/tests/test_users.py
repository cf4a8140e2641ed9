"""The command acts for the user of its process, and runs nobody else's Tasks (R19)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agentic_kernel import Task, TaskStatus
from agentic_kernel_cli.user import myself
from agentic_kernel_engine import Host, Job, Principal
from agentic_kernel_engine.terms import decoded
from agentic_kernel_file import FileStore

from .terminals import Terminals

OTHER = Principal("somebody else")


class Leaves:
    """Leaves its Tasks running without an owner, or paused."""

    async def execute(self, job: Job) -> Any:
        if job.task.metadata.get("test/pauses"):
            await job.pause(None)
        while True:
            await job.checkpoint(None)
            await asyncio.sleep(0)


def a_task(id: str, *, pauses: bool) -> Task:
    return Task.new(
        summary="", instructions="Say hi.", runtime_kind="local", id=id,
        metadata={"test/pauses": pauses},
    )  # fmt: skip


async def leave(state: Path, principal: Principal) -> None:
    async with Host(Leaves(), FileStore(state)) as host:
        await host.dispatch(a_task("running", pauses=False), principal=principal)
        await host.dispatch(a_task("paused", pauses=True), principal=principal)
        await host.wait("paused", TaskStatus.PAUSED)
        await host.drain()


def test_a_task_of_somebody_else_is_left_alone(terminals: Terminals) -> None:
    asyncio.run(leave(terminals.state, OTHER))
    before = asyncio.run(versions(terminals.state))
    said = "acts for 'somebody else', and this command runs as"
    for words in (["recover"], ["recover", "running"], ["resume", "paused"]):
        command = terminals.start(*words)
        assert command.end() == 5
        assert said in command.err
    assert asyncio.run(versions(terminals.state)) == before
    terminals.call("kill", "running")
    assert terminals.task("running")["status"] == "cancelled"


def test_a_new_task_acts_for_the_user_of_the_process(terminals: Terminals) -> None:
    terminals.call("run", "Say hi.", "--id", "mine", "--max-tokens", "60")

    async def named() -> str:
        return decoded((await FileStore(terminals.state).load("mine")).terms).name

    assert asyncio.run(named()) == myself().name


async def versions(state: Path) -> dict[str, int]:
    found = await FileStore(state).load_many(["running", "paused"])
    return {task_id: record.version for task_id, record in found.items()}
