"""A stored Task gets what the person at this terminal grants, and nothing that it asks for."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import CannotStart, InvalidValue, Task, TaskStatus
from agentic_kernel_cli.agents import AgentHost
from agentic_kernel_cli.grants import NotGranted, Wish, grant_of
from agentic_kernel_engine import Host, InMemoryObserver, Job, MemoryStore
from agentic_kernel_file import FileStore
from integration.peers.aimock import Aimock

from .terminals import Terminals


def a_task(kind: str, id: str | None = None, **asked: Any) -> Task:
    metadata = {f"cli/{name}": value for name, value in asked.items()}
    return Task.new(
        summary="", instructions="Write it.", runtime_kind=kind, id=id, metadata=metadata
    )


class Dies:
    """A process with access to the store: its Tasks are left running, or paused."""

    def __init__(self, *, paused: bool = False, state: Any = None) -> None:
        self.paused = paused
        self.state = state

    async def execute(self, job: Job) -> None:
        if self.paused:
            await job.pause(self.state)
        while True:
            await job.checkpoint(self.state)
            await asyncio.sleep(0)


async def leave(state: Path, *tasks: Task, paused: bool = False, progress: Any = None) -> None:
    async with Host(Dies(paused=paused, state=progress), FileStore(state)) as host:
        for task in tasks:
            await host.dispatch(task)
            if paused:
                await host.wait(task.id, TaskStatus.PAUSED)
        await host.drain()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (tmp_path / "other").mkdir()
    return folder


def written(workspace: Path) -> list[str]:
    return [path.name for path in workspace.iterdir()]


@pytest.mark.parametrize(
    ("kind", "asked", "flags", "covered"),
    [
        ("local", {}, {}, True),
        ("local", {}, {"runtime": "openai", "model": "m"}, True),
        ("local", {"tools": ["write"], "workspace": "/", "yes": True}, {}, True),
        ("local-tools", {"tools": ["calculator"]}, {}, False),
        ("local-tools", {"tools": ["calculator"]}, {"tools": "calculator"}, True),
        ("local-tools", {"tools": ["calculator"]}, {"tools": "calculator,write"}, True),
        ("local-tools", {"tools": ["calculator", "write"]}, {"tools": "calculator"}, False),
        ("local-tools", {"tools": ["write"]}, {"tools": "write", "at": "other"}, False),
        ("local-tools", {"tools": ["write"]}, {"tools": "write"}, True),
        ("openai", {}, {}, False),
        ("openai", {}, {"runtime": "claude"}, False),
        ("openai", {}, {"runtime": "openai"}, True),
        ("openai", {"model": "dear"}, {"runtime": "openai"}, False),
        ("openai", {"model": "dear"}, {"model": "dear"}, False),
        ("openai", {"model": "dear"}, {"runtime": "openai", "model": "cheap"}, True),
        ("openai", {"tools": ["write"]}, {"runtime": "openai"}, False),
        ("copilot", {}, {}, False),
        ("copilot", {"tools": ["write"]}, {"runtime": "copilot", "tools": "write"}, True),
    ],
)
def test_what_flags_grant(
    workspace: Path, kind: str, asked: dict[str, Any], flags: dict[str, Any], covered: bool
) -> None:
    if asked.get("tools"):
        asked = {"workspace": str(workspace), **asked}
    if flags.get("tools"):
        where = flags.pop("at", "workspace")
        flags = {**flags, "workspace": workspace.parent / where}
    task = a_task(kind, **asked)
    grant = grant_of(**flags)
    assert grant.covers(Wish.of(task)) is covered
    if not covered:
        with pytest.raises(NotGranted) as refused:
            grant.box_of(task)
        assert all(word in str(refused.value) for word in refused.value.words)


def test_a_task_gets_its_own_tools_of_those_granted_and_consent_from_the_flags_alone(
    workspace: Path,
) -> None:
    task = a_task("openai", tools=["write"], workspace=str(workspace), yes=True)
    grant = grant_of("openai", "m", "calculator,write", workspace)
    box = grant.box_of(task)
    assert box is not None
    assert (box.names, box.workspace, box.yes) == (("write",), workspace, False)
    assert "--yes" not in Wish.of(task).words()
    willing = grant_of("openai", "m", "calculator,write", workspace, yes=True).box_of(task)
    assert willing is not None
    assert willing.yes


def test_what_a_person_confirms_never_includes_consent(workspace: Path) -> None:
    wish = Wish.of(a_task("openai", tools=["write"], workspace=str(workspace), yes=True, model="m"))
    confirmed = grant_of().confirmed(wish)
    assert confirmed.covers(wish)
    assert confirmed.box is not None
    assert not confirmed.box.yes


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        ("local-tools", {}),
        ("local-tools", {"tools": "write"}),
        ("openai", {"tools": [1]}),
        ("openai", {"tools": ["write"]}),
        ("openai", {"tools": ["write"], "workspace": 7}),
        ("openai", {"model": {"a": 1}}),
        ("openai", {"model": ""}),
    ],
)
def test_a_malformed_wish_is_refused(kind: str, asked: dict[str, Any]) -> None:
    with pytest.raises(CannotStart, match="cli/"):
        Wish.of(a_task(kind, **asked))


def test_a_tool_that_there_is_not_cannot_be_confirmed() -> None:
    with pytest.raises(InvalidValue, match="is not a tool"):
        grant_of().confirmed(Wish.of(a_task("openai", tools=["shell"])))


def allowed(*tools: str) -> dict[str, Any]:
    """The state of a Loop whose policy has allowed these calls, and that died before them."""
    actions = [
        {"type": "tool_call", "tool": tool, "arguments": {"path": "a.txt", "content": "x"}}
        for tool in tools
    ]
    verdicts = [{"decision": {"verdict": "allow"}} for _ in tools]
    return {
        "version": 2,
        "step": 1,
        "at_hand": {"plan": {"actions": actions}, "verdicts": verdicts},
    }


async def test_what_an_earlier_command_allowed_by_its_yes_is_not_done_without_one(
    workspace: Path,
) -> None:
    store = MemoryStore()
    task = a_task("local-tools", tools=["write"], workspace=str(workspace), yes=True)
    async with Host(Dies(state=allowed("write_file")), store) as before:
        await before.dispatch(task)
        await before.drain()
    grants = {task.id: grant_of(tools="write", workspace=workspace)}
    async with AgentHost(store, grants, InMemoryObserver()) as host:
        await host.claim(task.id)
        await host.wait(task.id, TaskStatus.PAUSED)
        events = (await host.outcome(task.id)).events
    (paused,) = [event for event in events if event.type == "task.paused"]
    assert "with --yes, and this one does not" in paused.data["reason"]
    assert written(workspace) == []


@pytest.mark.torture
async def test_a_task_of_a_kind_that_this_command_does_not_run_is_left_with_the_reason(
    terminals: Terminals,
) -> None:
    await leave(terminals.state, a_task("triage", "it"), a_task("tri\x1b[2Jage", "odd"))
    reason = "only a Host that serves 'triage' can run it; start one, or name yours with --app; "
    for ids in ((), ("it",)):
        left = await call(terminals, "recover", *ids)
        assert left.err.startswith(f"left: task 'it': {reason}")
        assert "Traceback" not in left.err
    assert [line["task_id"] for line in (await call(terminals, "--json", "recover")).lines] == [
        "it", "odd",
    ]  # fmt: skip
    shown = await call(terminals, "show", "it", code=0)
    told = "no process runs it; only a Host that serves 'triage' can run it; start one, or name "
    assert f"status: running ({told}yours with --app)" in shown.out.splitlines()
    assert "go on with" not in shown.out
    odd = await call(terminals, "show", "odd", code=0)
    assert all(line.isprintable() for line in odd.out.splitlines())
    told = (await call(terminals, "--json", "show", "it", code=0)).lines[0]
    assert (told["status"], told["orphaned"]) == ("running", True)


async def test_a_task_of_another_kind_is_resumed_for_the_host_that_serves_it(
    terminals: Terminals,
) -> None:
    await leave(terminals.state, a_task("triage", "it"), paused=True)
    shown = await call(terminals, "show", "it", code=0)
    assert f"--state {terminals.state} resume it\n" in shown.out
    resumed = await call(terminals, "resume", "it", "--extra", "And hurry.", code=0)
    assert resumed.out == (
        "it: resumed; it goes on in a Host that serves triage; start one if none runs\n"
    )
    [task] = (await call(terminals, "--json", "show", "it", code=0)).lines
    assert (task["status"], task["orphaned"]) == ("running", True)
    assert task["supplements"] == ["And hurry."]
    assert "go on with" not in (await call(terminals, "show", "it", code=0)).out
    again = await call(terminals, "resume", "it", code=1)
    assert "running" in again.err


@pytest.mark.slow
async def test_a_bare_recover_takes_what_needs_no_grant_and_lists_the_rest(
    terminals: Terminals, workspace: Path, tmp_path: Path, aimock: Aimock
) -> None:
    """The attack: what another person's process left asks to write, where it says, unasked."""
    reply = {"name": "write_file", "arguments": '{"path": "note.txt", "content": "hello"}'}
    aimock.script({"toolCalls": [reply]}, {"content": "It is written."})
    terminals.env |= {"OPENAI_API_KEY": "mine", "OPENAI_BASE_URL": f"{aimock.url}/v1"}
    write = {"tools": ["write"], "workspace": str(workspace), "yes": True}
    await leave(
        terminals.state,
        a_task("local-tools", "local\x1b[2J", **{**write, "workspace": str(tmp_path / "other")}),
        a_task("openai", "vendor", model="scripted", **write),
        a_task("openai", "dear", model="dear"),
        a_task("copilot", "copilot"),
        a_task("local-tools", "malformed", tools="write"),
    )
    left = await asyncio.to_thread(terminals.call, "recover", code=5)
    assert [line.split(": ")[:2] for line in left.err.splitlines()] == [
        ["left", f"task '{name}'"]
        for name in ("copilot", "dear", "local\\x1b[2J", "malformed", "vendor")
    ]
    told = {line["task_id"]: line for line in (await call(terminals, "--json", "recover")).lines}
    assert told["vendor"]["grant"] == [
        "--runtime", "openai", "--model", "scripted", "--tools", "write",
        "--workspace", str(workspace),
    ]  # fmt: skip
    assert "only --yes grants" in told["vendor"]["reason"]
    assert told["malformed"]["grant"] == []
    for verb in (("resume",), ("recover",), ("rerun",)):
        expected = 1 if verb == ("resume",) else 5
        refused = await asyncio.to_thread(terminals.call, *verb, "vendor", code=expected)
        assert "Traceback" not in refused.err
    assert aimock.requests() == []
    assert written(workspace) == []

    granted = told["vendor"]["grant"]
    asked = await asyncio.to_thread(terminals.call, "recover", *granted, code=3)
    assert "waits for approval of " in asked.err
    assert written(workspace) == []
    assert [each.body["model"] for each in aimock.requests()] == ["scripted"]
    still = (await asyncio.to_thread(terminals.call, "--json", "list", "--status", "running")).lines
    assert sorted(task["id"] for task in still) == [
        "copilot",
        "dear",
        "local\x1b[2J",
        "malformed",
    ], "what asks for another folder or another model is left"


async def call(terminals: Terminals, *words: str, code: int = 5) -> Any:
    return await asyncio.to_thread(terminals.call, *words, code=code)


@pytest.mark.slow
async def test_a_person_at_a_terminal_is_shown_what_is_asked_for_and_decides(
    terminals: Terminals, workspace: Path, aimock: Aimock
) -> None:
    reply = {"name": "write_file", "arguments": '{"path": "note.txt", "content": "hello"}'}
    aimock.script({"toolCalls": [reply]}, {"content": "It is written."})
    terminals.env |= {"OPENAI_API_KEY": "mine", "OPENAI_BASE_URL": f"{aimock.url}/v1"}
    asked = {"tools": ["write"], "workspace": str(workspace), "yes": True, "model": "m\x1b[2J"}
    await leave(terminals.state, a_task("openai", "it", **asked), paused=True)
    no = await asyncio.to_thread(typed, terminals, "n\n", "resume", "it")
    assert no.returncode == 5
    assert no.stderr.splitlines()[:5] == [
        "it asks for the runtime openai",
        "it asks for the model m\\x1b[2J",
        "it asks for the tools write",
        f"it asks for writing in {workspace}",
        "it asks for changes without an approval, which only --yes grants",
    ]
    assert aimock.requests() == []
    # Confirmed, but no model has such a name.
    odd = await asyncio.to_thread(typed, terminals, "y\n", "resume", "it")
    assert (odd.returncode, "model: has the character U+001B" in odd.stderr) == (3, True)
    # Confirmed, but for the consent: the write waits for an approval of its own.
    asked["model"] = "m[2J"
    await leave(terminals.state, a_task("openai", "plain", **asked), paused=True)
    yes = await asyncio.to_thread(typed, terminals, "y\n", "resume", "plain")
    assert yes.returncode == 3, yes.stderr
    assert "waits for approval of " in yes.stderr
    assert written(workspace) == []
    # A bare recover never asks, terminal or not.
    await leave(terminals.state, a_task("openai", "other", **asked))
    bare = await asyncio.to_thread(typed, terminals, "y\n", "recover")
    assert bare.returncode == 5, bare.stderr
    assert len(aimock.requests()) == 1


def typed(terminals: Terminals, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in whose terminal somebody types this text."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "agentic_kernel_cli", "--state", str(terminals.state), *words]
    with os.fdopen(ours, "wb", buffering=0) as keys, os.fdopen(theirs, "rb", buffering=0) as end:
        keys.write(text.encode())
        return subprocess.run(
            command, stdin=end, env=terminals.env, timeout=60, check=False, capture_output=True,
            text=True,
        )  # fmt: skip
