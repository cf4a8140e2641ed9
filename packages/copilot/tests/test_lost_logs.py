"""A killed CLI leaves a log without its last events, or no log at all; its Task goes on.

Each test edits the log that the real CLI has left, as a killed CLI leaves it, and lets another Host
go on with the Task.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_copilot import SESSION, CopilotRuntime
from agentic_kernel_copilot.cli import SESSIONS
from agentic_kernel_engine import Event, MemoryStore, tool
from integration.peers.aimock import Aimock

from .conftest import asked
from .scripts import Fixture, after, calls, says

Lines = list[dict[str, Any]]
REMINDED = {"userMessage": "Before you were interrupted you called write"}


class Writes:
    """A tool that writes; the write of "b" never ends."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.second = asyncio.Event()

    async def write(self, text: str) -> str:
        """Write."""
        self.written.append(text)
        if text == "b":
            self.second.set()
            await asyncio.Event().wait()
        return f"{text} is written"


def calls_both() -> list[Fixture]:
    """The model writes "a" and then "b"."""
    return [after(at, calls(("write", {"text": text}))) for at, text in enumerate("ab")]


async def goes_on(
    scripted: Mapping[str, Any], home: Path, leave: Callable[[Path], None]
) -> tuple[str | None, list[str], list[Event]]:
    """Kill a Task's Host and CLI in the second call, leave this log, and go on with another Host.

    Returns:
        The result, the texts that were written, and the observed steps.
    """
    work, store = Writes(), MemoryStore()
    given = {**scripted, "tools": [tool(effect="write")(work.write)], "claims": False}
    async with CopilotRuntime(store, **given) as first:
        task = (await first.dispatch(asked("Write."))).snapshot
        async with asyncio.timeout(60):
            await work.second.wait()
        session = (await first.get(task.id)).metadata[SESSION]
        await first.substrate.close()
        await store.leave(first.name)
        log = home / SESSIONS / session / "events.jsonl"
        assert log.is_relative_to(home)
        assert log.is_file()
        leave(log)
        async with CopilotRuntime(store, **given) as second:
            await second.claim(task.id)
            async with asyncio.timeout(60):
                done = await second.wait(task.id, TaskStatus.PAUSED)
            events = (await second.outcome(task.id)).events
    assert done.status is TaskStatus.SUCCESS, (done.status, events[-1].data)
    return done.result, work.written, [each for each in events if each.type == "step.observed"]


def outcomes(steps: list[Event]) -> list[str]:
    """The output or the error of each call."""
    observed = [each for step in steps for each in step.data["observations"] if each.get("call")]
    return [each.get("output") or each["error"] for each in observed]


@pytest.mark.slow
async def test_a_session_that_left_no_log_is_begun_anew_and_reminded_of_all_calls(
    scripted: Mapping[str, Any], aimock: Aimock, cli_home: Path
) -> None:
    aimock.load([{"match": REMINDED, "response": says("done")}, *calls_both()])
    result, written, steps = await goes_on(scripted, cli_home, Path.unlink)
    assert (result, written) == ("done", ["a", "b"])
    assert outcomes(steps) == ["a is written", "indeterminate"]
    (_, prompt) = aimock.requests()[-1].body["messages"]
    assert "Write." in prompt["content"]
    assert prompt["content"].count(REMINDED["userMessage"]) == 2


@pytest.mark.slow
async def test_a_session_whose_log_lacks_the_end_of_an_answered_call_goes_on(
    scripted: Mapping[str, Any], aimock: Aimock, cli_home: Path
) -> None:
    """The CLI would wait for that end for ever, and keep every message back."""

    def leave(log: Path) -> None:
        events: Lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
        last = max(n for n, e in enumerate(events) if e["type"] == "external_tool.requested")
        answered = {
            **events[last],
            "id": str(uuid.uuid4()),
            "parentId": events[last]["id"],
            "type": "external_tool.completed",
            "data": {"requestId": events[last]["data"]["requestId"]},
        }
        kept = [*events[: last + 1], answered]
        log.write_text("".join(json.dumps(each) + "\n" for each in kept), "utf-8")

    aimock.load([*calls_both(), after(2, says("done"))])
    result, written, steps = await goes_on(scripted, cli_home, leave)
    assert (result, written) == ("done", ["a", "b"])
    assert outcomes(steps) == ["a is written", "indeterminate"]
    # The reminder is the last message, or stands before the word that the session may go on.
    said = json.dumps(aimock.requests()[-1].body["messages"])
    assert said.count(REMINDED["userMessage"]) == 1
    assert "not known" in said
