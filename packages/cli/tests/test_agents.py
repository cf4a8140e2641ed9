"""The real model with the command's own tools, in real processes."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_cli.agents import AgentHost
from agentic_kernel_cli.grants import grant_of
from agentic_kernel_cli.user import process_user
from agentic_kernel_engine import Host, InMemoryObserver, Job, MemoryStore

from .terminals import Terminals


@pytest.mark.slow
def test_the_calculator_is_called_and_the_answer_comes(terminals: Terminals) -> None:
    words = ["--tools", "calculator", "What is 12 * 34?", "--json"]
    *events, task = terminals.call("run", *words).lines
    assert "408" in task["result"]
    assert task["metadata"]["cli/tools"] == ["calculator"]
    assert task["metadata"]["engine/stop_reason"] == "final"
    observed = [line["data"] for line in events if line["type"] == "step.observed"]
    assert observed[0]["observations"] == [
        {"output": "408", "tool": "calculator", "call": "call_0_1"}
    ]
    made = [line["data"] for line in events if line["type"] == "plan.made"]
    assert all(plan["usage"]["input_tokens"] > plan["usage"]["output_tokens"] > 0 for plan in made)
    assert any(line["data"].get("channel") == "arguments" for line in events)
    answer = [line["data"] for line in events if line["type"] == "run.delta"]
    assert "".join(each["text"] for each in answer if "channel" not in each) == task["result"]


@pytest.mark.slow
@pytest.mark.torture
def test_a_conversation_goes_on_in_another_process(terminals: Terminals) -> None:
    """The model reads what was said before; what a small one makes of it is its own affair."""
    words = ["run", "--tools", "calculator", "--json", "What is 12 * 34?"]
    *told, first = terminals.call(*words).lines
    *again, second = terminals.call(*words, "--session", first["id"]).lines
    assert second["metadata"]["engine/session"] == first["id"]
    (came,) = [line["data"] for line in again if line["type"] == "run.continued"]
    assert came["task"] == first["id"]
    assert "408" in str(came["entries"])
    alone, after = (
        next(line["data"]["usage"]["input_tokens"] for line in lines if line["type"] == "plan.made")
        for lines in (told, again)
    )
    assert after > alone + 20


@pytest.mark.slow
def test_a_write_waits_for_an_approval_from_another_process(
    terminals: Terminals, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    words = ["--tools", "write", "--workspace", str(workspace), "--id", "it"]
    asked = terminals.call("run", *words, "Write hello to the file note.txt.", code=3)
    assert "waits for approval of " in asked.err
    assert "note.txt" in asked.err
    assert list(workspace.iterdir()) == []
    proposed = shlex.split(asked.err.splitlines()[-1].partition("go on with: ")[2])
    assert proposed[3:5] == ["approve", "it"]
    refused = terminals.call("approve", "it", proposed[5], code=5)
    assert "--tools write --workspace " in refused.err
    assert list(workspace.iterdir()) == []
    done = terminals.call(*proposed[3:], "--by", "ada", "--json")
    assert (workspace / "note.txt").read_text()
    given = [line["data"]["by"] for line in done.lines if line.get("type") == "approval.given"]
    assert given == [f"ada (claimed by {process_user()})"]
    shown = terminals.call("show", "it").out
    assert f"decided: approved by ada (claimed by {process_user()})" in shown
    assert done.lines[-1]["status"] == "success"


class Sleeper:
    """Leaves a Task behind."""

    async def execute(self, job: Job) -> None:
        while True:
            await job.checkpoint(None)
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("tools", "granted", "model", "why"),
    [
        ("write", True, None, "it asks for the tools write, writing in /gone"),
        ("calculator", False, None, "this command was not told to run it"),
        ("calculator", True, "none.gguf", "not a file"),
    ],
)
async def test_what_is_missing_where_it_goes_on_pauses_the_task(
    tools: str, granted: bool, model: str | None, why: str, tmp_path: Path
) -> None:
    store = MemoryStore()
    task = Task.new(
        summary="",
        instructions="",
        runtime_kind="local-tools",
        metadata={"cli/tools": [tools], "cli/workspace": "/gone", "cli/yes": True},
    )
    async with Host(Sleeper(), store) as before:
        await before.dispatch(task)
        await before.drain()
    path = None if model is None else str(tmp_path / model)
    grant = grant_of(model=path, tools="calculator,write", workspace=tmp_path)
    grants = {task.id: grant} if granted else {}
    async with AgentHost(store, grants, InMemoryObserver()) as host:
        assert (await host.claim(task.id)).effect == "claimed"
        assert (await host.wait(task.id, TaskStatus.PAUSED)).status is TaskStatus.PAUSED
        events = (await host.outcome(task.id)).events
    [paused] = [event for event in events if event.type == "task.paused"]
    assert why in paused.data["reason"]
