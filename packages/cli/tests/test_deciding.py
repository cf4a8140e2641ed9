"""Approvals, answers and limits from another terminal, for Tasks that run in another process."""

from __future__ import annotations

import asyncio
import os
import pty
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agentic_kernel import Task, TaskStatus
from agentic_kernel_cli.user import process_user
from agentic_kernel_engine import Host, Limits, Loop, tool
from agentic_kernel_engine.loop import (
    ALLOW,
    AskUser,
    Context,
    Decision,
    FinalAnswer,
    ToolCall,
    require_approval,
)
from agentic_kernel_engine.plans.action import Action
from agentic_kernel_engine.seams import ScriptedPlanner
from agentic_kernel_file import FileStore

from .terminals import Command, Terminals

# Every command is a process of its own.
pytestmark = pytest.mark.slow

HOSTILE = "a\x1b[2J\nb\u202e"


class AskFirst:
    """Every tool call needs a person."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        return require_approval("it writes") if isinstance(action, ToolCall) else ALLOW


class Elsewhere:
    """A process that runs agents by a script, and takes up what is decided for them."""

    def __init__(self, terminals: Terminals) -> None:
        self.terminals = terminals
        self.written: list[str] = []
        self.host: Host | None = None

    async def paused(self, *script: Any, limits: Limits | None = None) -> Task:
        """A Task with the id ``it`` that this script has paused."""

        def write(text: str) -> str:
            self.written.append(text)
            return "written"

        loop = Loop(ScriptedPlanner(*script), [tool(write, inline=True)], AskFirst(), limits=limits)
        self.host = Host(loop, FileStore(self.terminals.state))
        await self.host.dispatch(
            Task.new(summary="", instructions="write", runtime_kind="scripted", id="it")
        )
        return await self.host.wait("it", TaskStatus.PAUSED)

    async def ended(self) -> Task:
        assert self.host is not None
        return await self.host.wait("it")

    async def history(self, kind: str) -> list[dict[str, Any]]:
        assert self.host is not None
        events = (await self.host.outcome("it")).events
        return [dict(event.data) for event in events if event.type == kind]

    async def digests(self) -> list[str]:
        """Of the actions that it waits for."""
        assert self.host is not None
        note: Any = (await self.host.get("it")).metadata["engine/waiting_for"]
        return [request["digest"] for request in note["requests"]]

    async def waits(self, times: int) -> None:
        """Until it is paused for the so manieth time."""
        assert self.host is not None
        async for event in self.host.stream("it"):
            times -= event.type == "task.paused"
            if not times:
                return

    async def call(self, *words: str, code: int = 0) -> Command:
        """A command to its end, while this process goes on."""
        return await asyncio.to_thread(self.terminals.call, *words, code=code)


@pytest_asyncio.fixture
async def elsewhere(terminals: Terminals) -> AsyncIterator[Elsewhere]:
    there = Elsewhere(terminals)
    yield there
    if there.host is not None:
        await there.host.close()


def typed(terminals: Terminals, text: str, *words: str) -> int:
    """The exit code of a command in whose terminal somebody types this text."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "agentic_kernel_cli", "--state", str(terminals.state), *words]
    with os.fdopen(ours, "wb", buffering=0) as keys, os.fdopen(theirs, "rb", buffering=0) as end:
        keys.write(text.encode())
        return subprocess.run(
            command, stdin=end, env=terminals.env, timeout=60, check=False, capture_output=True
        ).returncode


def write(text: str) -> ToolCall:
    return ToolCall("write", {"text": text})


async def test_one_request_is_listed_approved_and_carried_out(elsewhere: Elsewhere) -> None:
    await elsewhere.paused(write(HOSTILE), FinalAnswer("done"))
    shown = await elsewhere.call("show", "it")
    said = next(line for line in shown.out.splitlines() if line.startswith("waits for: approval"))
    assert "(it writes)" in said
    assert r"\u001b[2J\nb\u202e" in said
    assert "engine/waiting_for" not in shown.out
    row = (await elsewhere.call("list")).out.rstrip("\n").split("\t")
    assert row[5].startswith("approval of ")
    assert elsewhere.written == []
    (digest,) = await elsewhere.digests()
    place = f"--state {elsewhere.terminals.state}"
    assert f"go on with: agentic-kernel {place} approve it {digest}\n" in shown.out
    said_so = ("--by", "ada", "--why", "I read it")
    approved = await elsewhere.call("approve", "it", digest[:8], *said_so)
    assert (
        approved.out
        == "it: approved; it goes on in a Host that serves scripted; start one if none runs\n"
    )
    assert approved.err.rstrip("\n") == said.removeprefix("waits for: approval of ")
    assert (await elsewhere.ended()).result == "done"
    assert elsewhere.written == [HOSTILE]
    given = await elsewhere.history("approval.given")
    claimed = f"ada (claimed by {process_user()})"
    assert [(each["by"], each["why"]) for each in given] == [(claimed, "I read it")]
    decided = (await elsewhere.call("show", "it")).out
    assert f"decided: approved by {claimed}, {digest[:12]}: I read it\n" in decided
    task, *events = (await elsewhere.call("--json", "show", "it", "--events")).lines
    (event,) = (each for each in events if each["type"] == "approval.given")
    assert task["decided"] == [
        {
            "decision": "approved", "by": claimed, "digest": digest, "why": "I read it",
            "at": event["at"], "event_id": event["id"],
        }
    ]  # fmt: skip
    assert (task["go_on_with"], task["goes_on_in"]) == (None, None)


@pytest.mark.parametrize("verb", [("approve",), ("deny", "--reason", "no")])
async def test_what_nobody_has_seen_is_not_decided(
    elsewhere: Elsewhere, terminals: Terminals, verb: tuple[str, ...]
) -> None:
    await elsewhere.paused(write("one"), FinalAnswer("done"))
    refused = await elsewhere.call(*verb, "it", code=2)
    (digest,) = await elsewhere.digests()
    assert 'write {"text": "one"}' in refused.err
    assert f" {verb[0]} it {digest}" in refused.err
    assert await asyncio.to_thread(typed, terminals, "n\n", *verb, "it") == 1
    assert await elsewhere.history("approval.given") == []
    assert await elsewhere.history("approval.refused") == []
    assert await asyncio.to_thread(typed, terminals, "y\n", *verb, "it") == 0
    await elsewhere.ended()
    assert elsewhere.written == (["one"] if verb[0] == "approve" else [])


async def test_a_proposed_command_never_decides_about_the_next_request(
    elsewhere: Elsewhere,
) -> None:
    await elsewhere.paused(write("shown"), write("never shown"), FinalAnswer("done"))
    watched = await elsewhere.call("watch", "it", code=3)
    proposed = shlex.split(watched.err.splitlines()[-1].partition("go on with: ")[2])
    (shown,) = await elsewhere.digests()
    assert proposed[-2:] == ["it", shown]
    await elsewhere.call("deny", "it", shown, "--reason", "a colleague says no")
    await elsewhere.waits(2)
    refused = await elsewhere.call(*proposed[3:], code=1)
    assert "asks about no action" in refused.err
    assert elsewhere.written == []
    (next_one,) = await elsewhere.digests()
    await elsewhere.call("approve", "it", next_one)
    await elsewhere.ended()
    assert elsewhere.written == ["never shown"]


async def test_who_decides_is_the_user_of_the_process_whatever_the_environment_says(
    elsewhere: Elsewhere, terminals: Terminals
) -> None:
    terminals.env |= dict.fromkeys(("LOGNAME", "USER", "LNAME", "USERNAME"), "chief")
    await elsewhere.paused(write("one"), FinalAnswer("done"))
    (digest,) = await elsewhere.digests()
    for odd in ("", " ", "a\x1b[2J", "root (claimed by root)", "x" * 101, "a\u3164"):
        refused = await elsewhere.call("approve", "it", digest, "--by", odd, code=2)
        assert "--by" in refused.err
    await elsewhere.call("approve", "it", digest)
    await elsewhere.ended()
    given = await elsewhere.history("approval.given")
    assert [each["by"] for each in given] == [process_user()]


async def test_several_requests_want_their_digests(
    elsewhere: Elsewhere, terminals: Terminals
) -> None:
    await elsewhere.paused([write("one"), write("two")], FinalAnswer("done"))
    assert await asyncio.to_thread(typed, terminals, "n\n", "approve", "it") == 1
    refused = await elsewhere.call("approve", "it", code=2)
    assert [line.split("  ")[1] for line in refused.err.splitlines()[:2]] == [
        'write {"text": "one"}',
        'write {"text": "two"}',
    ]
    first, second = await elsewhere.digests()
    assert f"approve it {first} {second}" in refused.err
    await elsewhere.call("deny", "it", "--reason", "not this", "--digest", first[:8])
    # It goes on with the one decision, and waits again for the other.
    await elsewhere.waits(2)
    await elsewhere.call("approve", "it", second, "--json")
    await elsewhere.ended()
    assert elsewhere.written == ["two"]


async def test_several_requests_are_approved_with_one_command(elsewhere: Elsewhere) -> None:
    await elsewhere.paused([write("one"), write("two")], FinalAnswer("done"))
    one, two = await elsewhere.digests()
    approved = await elsewhere.call("approve", "it", one[:8], "--digest", two, "--json")
    assert [line["kind"] for line in approved.lines] == ["request", "request", "task"]
    assert approved.lines[0]["action"]["arguments"] == {"text": "one"}
    assert approved.err == ""
    await elsewhere.ended()
    assert elsewhere.written == ["one", "two"]
    assert len(await elsewhere.history("run.waits")) == 1


@pytest.mark.parametrize("option", ["--reason", "--why"])
async def test_a_refused_action_is_not_done_and_the_reason_is_told(
    elsewhere: Elsewhere, option: str
) -> None:
    await elsewhere.paused(write("one"), FinalAnswer("went without"))
    (digest,) = await elsewhere.digests()
    await elsewhere.call("deny", "it", digest, option, "too early", "--by", "ada")
    assert (await elsewhere.ended()).result == "went without"
    assert elsewhere.written == []
    observed = await elsewhere.history("step.observed")
    assert observed[0]["observations"][0]["message"] == (
        f"ada (claimed by {process_user()}) refused it: too early"
    )


async def test_a_question_is_answered(elsewhere: Elsewhere) -> None:
    await elsewhere.paused(
        AskUser(f"Which?{HOSTILE}"),
        lambda context: FinalAnswer(context.transcript[-1].text),
    )
    watched = await elsewhere.call("watch", "it", code=3)
    assert r"waits for an answer to: Which?a\x1b[2J\nb\u202e" in watched.err
    proposed = shlex.split(watched.err.splitlines()[-1].partition("go on with: ")[2])
    assert proposed[3:7] == ["answer", "it", "TEXT", "--digest"]
    refused = await elsewhere.call("answer", "it", "x", "--digest", "0" * 64, code=1)
    assert "asks another question" in refused.err
    proposed[5] = "the second"
    await elsewhere.call(*proposed[3:])
    assert (await elsewhere.ended()).result == "the second"


async def test_a_limit_is_changed_from_another_process(elsewhere: Elsewhere) -> None:
    await elsewhere.paused(write("one"), write("two"), FinalAnswer("done"))
    retuned = await elsewhere.call("retune", "it", "--max-iterations", "1", "--max-seconds", "9.5")
    assert retuned.out == "it: from its next step on: max_iterations 1, max_seconds 9.5\n"
    await elsewhere.call("approve", "it", *await elsewhere.digests())
    failure = (await elsewhere.ended()).failure
    assert failure is not None
    assert failure.code == "engine/max_iterations"
    assert elsewhere.written == ["one"]
    refused = await elsewhere.call("retune", "it", "--max-iterations", "2", code=1)
    assert "task 'it' has ended (failure)" in refused.err


def test_an_unknown_id_is_an_error_of_one_line(terminals: Terminals) -> None:
    refused = terminals.call("approve", "nobody", code=1)
    assert refused.out == ""
    assert refused.err.startswith("agentic-kernel: no task")
    assert refused.err.count("\n") == 1
