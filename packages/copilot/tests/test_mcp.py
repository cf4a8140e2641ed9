"""MCP servers: the CLI starts them and calls their tools, and the policy decides."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_copilot import CopilotRuntime
from agentic_kernel_engine.loop import ALLOW, Decision, deny
from agentic_kernel_engine.seams import BasicPolicy
from integration.peers.aimock import Aimock

from .conftest import Recorded, asked
from .scripts import after, calls, says

pytestmark = pytest.mark.torture

LOOK = calls(("shelf-look", {"name": "note.txt"}))
PUT = calls(("shelf-put", {"name": "made.txt", "text": "made"}))


@pytest.fixture
def shelf(scripted: Mapping[str, Any], tmp_path: Path) -> Mapping[str, Any]:
    """Keywords for a runtime with an MCP server, which works where the CLI does."""
    (tmp_path / "note.txt").write_text("milk", encoding="utf-8")
    program = str(Path(__file__).with_name("mcp_shelf.py"))
    server = {
        "type": "stdio",
        "command": sys.executable,
        "args": [program],
        "tools": ["*"],
        "working_directory": str(tmp_path),
    }
    return {**scripted, "mcp_servers": {"shelf": server}}


@pytest.mark.parametrize(
    ("decision", "heard", "error"),
    [(ALLOW, "milk", ""), (deny("not here"), "not here", "policy_denied")],
    ids=["allow", "deny"],
)
async def test_a_call_of_its_tool_is_decided_by_the_policy(
    shelf: Mapping[str, Any], aimock: Aimock, decision: Decision, heard: str, error: str
) -> None:
    policy = Recorded(decision)
    aimock.load([after(0, LOOK), after(1, says("I see."))])
    async with CopilotRuntime(**shelf, allowed_tools=["shelf-look"], policy=policy) as runtime:
        task = await runtime.run(asked("What is in the note?"))
        events = (await runtime.outcome(task.id)).events
    assert task.result == "I see."
    assert policy.asked == [("shelf-look", "write")], "its word that it only reads is not enough"
    told = aimock.requests()
    assert [each["function"]["name"] for each in told[0].body["tools"]] == ["shelf-look"]
    assert heard in told[1].body["messages"][-1]["content"]
    step = next(event for event in events if event.type == "step.observed")
    assert step.data["observations"][0].get("error", "") == error


async def test_a_call_that_writes_waits_for_a_person(
    shelf: Mapping[str, Any], aimock: Aimock, tmp_path: Path
) -> None:
    aimock.load([after(0, PUT), after(1, says("It is there."))])
    given = {**shelf, "allowed_tools": ["mcp:*"], "policy": BasicPolicy()}
    async with CopilotRuntime(**given) as runtime:
        task = (await runtime.dispatch(asked("Write a file."))).snapshot
        paused = await runtime.wait(task.id, TaskStatus.PAUSED)
        (request,) = paused.metadata["engine/waiting_for"]["requests"]
        assert not (tmp_path / "made.txt").exists()
        await runtime.approve(task.id, request["digest"], by="somebody")
        done = await runtime.wait(task.id)
        events = [event.type for event in (await runtime.outcome(task.id)).events]
    assert done.result == "It is there."
    assert (tmp_path / "made.txt").read_text(encoding="utf-8") == "made"
    assert events.count("effects.prepared") == 1


async def test_its_tools_are_not_there_unless_they_are_allowed(
    shelf: Mapping[str, Any], aimock: Aimock
) -> None:
    aimock.load([after(0, says("hello"))])
    async with CopilotRuntime(**shelf) as runtime:
        await runtime.run(asked("Hello."))
    assert not aimock.requests()[0].body.get("tools")
