"""The CLI's own tools: it asks, the policy decides, a person where the policy wants one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_copilot import CopilotRuntime
from agentic_kernel_engine import Host, MemoryStore
from agentic_kernel_engine.loop import ALLOW, Action, Context, Decision, deny, stop
from agentic_kernel_engine.seams import BasicPolicy
from integration.peers.aimock import Aimock

from .conftest import HeldWrite, Recorded, asked
from .scripts import after, calls, says

TOUCH = ("bash", {"command": "touch made.txt", "description": "make a file"})

pytestmark = pytest.mark.torture


@pytest.mark.parametrize(
    ("decision", "made", "error"),
    [(ALLOW, True, ""), (deny("not here"), False, "policy_denied")],
    ids=["allow", "deny"],
)
async def test_the_policy_decides_what_the_cli_may_do(
    scripted: Mapping[str, Any],
    aimock: Aimock,
    tmp_path: Path,
    decision: Decision,
    made: bool,
    error: str,
) -> None:
    policy = Recorded(decision)
    aimock.load([after(0, calls(TOUCH)), after(1, says("so be it"))])
    async with CopilotRuntime(**scripted, allowed_tools=["bash"], policy=policy) as runtime:
        task = await runtime.run(asked("Make a file."))
        events = (await runtime.outcome(task.id)).events
    assert task.result == "so be it"
    assert policy.asked == [("bash", "destructive")]
    assert (tmp_path / "made.txt").exists() is made
    assert [event.type for event in events].count("effects.prepared") == int(made)
    step = next(event for event in events if event.type == "step.observed")
    assert step.data["observations"][0].get("error", "") == error


async def test_a_policy_can_stop_the_run(
    scripted: Mapping[str, Any], aimock: Aimock, tmp_path: Path
) -> None:
    policy = Recorded(stop("enough"))
    aimock.load([after(0, calls(TOUCH)), after(1, says("never said"))])
    async with CopilotRuntime(**scripted, allowed_tools=["bash"], policy=policy) as runtime:
        task = await runtime.run(asked("Make a file."))
    assert task.failure is not None
    assert (task.failure.code, task.failure.message) == ("engine/stopped", "enough")
    assert not (tmp_path / "made.txt").exists()


async def test_a_policy_with_a_bug_has_denied_and_the_log_says_so(
    scripted: Mapping[str, Any], aimock: Aimock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        async def authorize(self, action: Action, context: Context) -> Decision:
            raise ValueError("a bug")

    aimock.load([after(0, calls(TOUCH)), after(1, says("so be it"))])
    with caplog.at_level(logging.ERROR, "agentic_kernel_engine"):
        async with CopilotRuntime(**scripted, allowed_tools=["bash"], policy=Broken()) as runtime:
            task = await runtime.run(asked("Make a file."))
            events = (await runtime.outcome(task.id)).events
    assert not (tmp_path / "made.txt").exists()
    step = next(event for event in events if event.type == "step.observed")
    assert step.data["observations"][0]["message"] == "the policy failed: ValueError"
    (record,) = caplog.records
    assert record.getMessage() == f"task {task.id!r}, step 0: the policy Broken failed"


async def test_no_tool_is_there_that_was_not_allowed(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    aimock.load([after(0, says("hello"))])
    async with CopilotRuntime(**scripted) as runtime:
        await runtime.run(asked("Hello."))
    assert not aimock.requests()[0].body.get("tools")


async def test_the_users_consent_to_everything_is_not_ours(
    scripted: Mapping[str, Any],
    aimock: Aimock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COPILOT_ALLOW_ALL", "true")
    policy = Recorded(deny("no"))
    aimock.load([after(0, calls(TOUCH)), after(1, says("so be it"))])
    async with CopilotRuntime(**scripted, allowed_tools=["bash"], policy=policy) as runtime:
        await runtime.run(asked("Make a file."))
    assert policy.asked
    assert not (tmp_path / "made.txt").exists()


@pytest.mark.parametrize("granted", [True, False], ids=["approved", "refused"])
async def test_a_person_decides_elsewhere_after_the_host_is_gone(
    scripted: Mapping[str, Any], aimock: Aimock, tmp_path: Path, granted: bool
) -> None:
    """One Host asks and ends with its CLI; another hears the answer; a third makes the call."""
    store = MemoryStore()
    given = {**scripted, "allowed_tools": ["bash"], "policy": BasicPolicy()}
    aimock.load([after(0, calls(TOUCH)), after(1, says("so be it"))])
    async with CopilotRuntime(store, **given) as runtime:
        task = (await runtime.dispatch(asked("Make a file."))).snapshot
        paused = await runtime.wait(task.id, TaskStatus.PAUSED)
    (request,) = paused.metadata["engine/waiting_for"]["requests"]
    assert request["action"]["arguments"]["command"] == "touch made.txt"
    assert not (tmp_path / "made.txt").exists()
    async with Host(store=store) as desk:
        decide = desk.approve if granted else desk.deny
        await decide(task.id, request["digest"], by="somebody", why="because")
    async with CopilotRuntime(store, **given) as runtime:
        done = await runtime.wait(task.id)
        events = [event.type for event in (await runtime.outcome(task.id)).events]
    assert done.result == "so be it"
    assert (tmp_path / "made.txt").exists() is granted
    assert ("approval.given" if granted else "approval.refused") in events
    assert len(aimock.requests()) == 2, "the model was not asked for the call again"


async def test_while_an_approved_call_runs_nobody_is_asked_for_it_again(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    """Else who dies in it with a pause waiting would leave a Task that asks for what was used."""
    held = HeldWrite()
    aimock.load([after(0, calls(("write", {}))), after(1, says("done"))])
    async with (
        asyncio.timeout(60),
        CopilotRuntime(**scripted, tools=[held.tool()], policy=BasicPolicy()) as runtime,
    ):
        task = (await runtime.dispatch(asked("Write."))).snapshot
        paused = await runtime.wait(task.id, TaskStatus.PAUSED)
        (request,) = paused.metadata["engine/waiting_for"]["requests"]
        await runtime.approve(task.id, request["digest"], by="somebody")
        await held.begun.wait()
        assert (await runtime.get(task.id)).metadata["engine/waiting_for"] is None
        held.may_end.set()
        assert (await runtime.wait(task.id)).result == "done"
