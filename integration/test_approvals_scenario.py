"""Approvals: a payment three agents deep is decided about at a desk of its own, and paid once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
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
from agentic_kernel_engine.seams import InMemoryApprovals, ScriptedPlanner, Tool
from agentic_kernel_file import FileStore

LEVELS = ("butler", "steward", "cashier")


class AskBeforePaying:
    """A policy: a person looks at every payment."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        if isinstance(action, ToolCall) and action.tool == "pay":
            return require_approval("money leaves the house")
        return ALLOW


def till(book: Path) -> Tool:
    """A tool that is not to be called twice."""

    @tool(effect="write")
    def pay(amount: int) -> str:
        """Pay an amount."""
        with book.open("a", encoding="utf-8") as lines:
            lines.write(f"{amount}\n")
        return f"paid {amount}"

    return pay


def passed_on(context: Context) -> FinalAnswer:
    last: Any = context.transcript[-1]
    observation = last.observations[0]
    return FinalAnswer(observation.error or observation.output)


@asynccontextmanager
async def household(state: Path, book: Path) -> AsyncIterator[Host]:
    """One process: each of them a Host over the same folder, and a tool of the one above."""
    async with AsyncExitStack() as stack:
        call, tools = ToolCall("pay", {"amount": 40}), [till(book)]
        hosts: list[Host] = []
        for name in reversed(LEVELS):
            loop = Loop(ScriptedPlanner(call, passed_on), tools, AskBeforePaying())
            made = Host(loop, FileStore(state), runtime_kinds=[name], interval=0.02)
            hosts.append(await stack.enter_async_context(made))
            tools = [made.as_tool(name=name, description="")]
            call = ToolCall(name, {"instructions": "Pay the bill."})
        yield hosts[-1]


def bill() -> Task:
    return Task.new(summary="", instructions="See to the bill.", runtime_kind="butler", id="bill")


async def waiting(host: Host) -> Task:
    """The Task, once it waits for people."""
    task = await host.wait("bill", TaskStatus.PAUSED)
    assert task.status is TaskStatus.PAUSED, task
    return task


@pytest.mark.parametrize("granted", [True, False])
async def test_three_deep_across_processes_and_paid_once(tmp_path: Path, granted: bool) -> None:
    """Nobody runs it while it is decided about; the desk saw none of the pauses happen."""
    state, book = tmp_path / "state", tmp_path / "book"
    async with household(state, book) as host:
        await host.dispatch(bill())
        await waiting(host)
    approvals = InMemoryApprovals()
    async with Host(store=FileStore(state), approvals=approvals) as desk:
        await desk.find()
        request = await approvals.next()
        assert request.task_id == "bill", "all three are there, and the outermost decides"
        assert request.action["arguments"] == {"amount": 40}
        assert (await desk.get(request.origin)).runtime_kind == "cashier"
        decide = desk.approve if granted else desk.deny
        await decide(request.task_id, request.digest, by="ann")
    async with household(state, book) as host:
        done = await host.wait("bill")
    assert done.result == ("paid 40" if granted else "policy_denied")
    assert book.exists() is granted
    if granted:
        assert book.read_text(encoding="utf-8") == "40\n"


async def test_without_the_transport_nobody_is_told(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with household(state, tmp_path / "book") as host:
        await host.dispatch(bill())
        await waiting(host)
    approvals = InMemoryApprovals()
    async with Host(store=FileStore(state)) as desk:
        await desk.find()
        assert (await desk.get("bill")).status is TaskStatus.PAUSED
    assert approvals.open == []


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["approve", "deny"])
async def test_the_command_line_decides_at_the_root(tmp_path: Path, verb: str) -> None:
    state, book = tmp_path / "state", tmp_path / "book"
    async with household(state, book) as host:
        await host.dispatch(bill())
        note: Any = (await waiting(host)).metadata["engine/waiting_for"]
        words = ["bill", note["requests"][0]["digest"]]
        words += [] if verb == "approve" else ["--reason", "too much"]
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "agentic_kernel_cli", "--state", str(state), verb, *words],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert (await host.wait("bill")).result == (
            "paid 40" if verb == "approve" else "policy_denied"
        )
    assert book.exists() is (verb == "approve")
