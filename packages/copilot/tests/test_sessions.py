"""Sessions over pauses, kills and the loss of who ran them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from copilot.session_events import SessionEvent, SessionIdleData

from agentic_kernel import CannotStart, TaskStatus
from agentic_kernel_copilot import SESSION, CopilotRuntime, CopilotSubstrate, cli
from agentic_kernel_copilot.reading import SessionReader
from agentic_kernel_copilot.session import Session
from agentic_kernel_copilot.turns import GO_ON, SessionTurns
from agentic_kernel_engine import Event, Job, Limits, MemoryStore, tool
from agentic_kernel_engine.seams import BasicPolicy, InMemoryApprovals, ToolContext
from integration.peers.aimock import Aimock

from .conftest import HeldWrite, asked, processes
from .scripts import after, calls, says, story

pytestmark = pytest.mark.slow


class Watching:
    """An observer for a test that waits for a kind of event."""

    def __init__(self) -> None:
        self._seen: dict[str, asyncio.Event] = {}

    def observe(self, task_id: str, event: Event) -> None:
        self._of(event.type).set()

    async def saw(self, type: str) -> None:
        async with asyncio.timeout(60):
            await self._of(type).wait()

    def _of(self, type: str) -> asyncio.Event:
        return self._seen.setdefault(type, asyncio.Event())


async def test_a_pause_ends_the_turn_and_a_supplement_goes_on_with_the_session(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    watching = Watching()
    aimock.load([{"match": {"userMessage": "shorter"}, "response": says("The end.")}, story()])
    async with CopilotRuntime(**scripted, observer=watching) as runtime:
        task = (await runtime.dispatch(asked("Tell a story."))).snapshot
        await watching.saw("run.delta")
        await runtime.pause(task.id)
        paused = await runtime.wait(task.id, TaskStatus.PAUSED)
        await runtime.resume(task.id, "Make it shorter.")
        done = await runtime.wait(task.id)
        events = [event.type for event in (await runtime.outcome(task.id)).events]
    assert paused.metadata["engine/stop_reason"] == "interrupt"
    assert (done.result, done.metadata[SESSION]) == ("The end.", paused.metadata[SESSION])
    said = [each["content"] for each in aimock.requests()[-1].body["messages"]]
    assert "Tell a story." in said[1]
    assert "Make it shorter." in said[-1]
    assert "run.turn" in events, "the new answer is a text of its own"


@pytest.mark.torture
async def test_a_task_waits_for_a_person_though_something_happened_just_before(
    scripted: Mapping[str, Any], aimock: Aimock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """News in the moment of quiet before a Task is left to a person begin that moment anew."""
    hear = SessionTurns._hear
    woken: list[float] = []

    async def disturbed(self: SessionTurns, patience: float | None) -> bool:
        if patience is not None and not woken:
            woken.append(patience)
            self._wake()
        return await hear(self, patience)

    monkeypatch.setattr(SessionTurns, "_hear", disturbed)

    @tool(effect="write", inline=True)
    def write() -> str:
        """Write."""
        return "written"

    aimock.load([after(0, calls(("write", {})))])
    async with CopilotRuntime(**scripted, tools=[write], policy=BasicPolicy()) as runtime:
        task = (await runtime.dispatch(asked("Write."))).snapshot
        async with asyncio.timeout(60):
            paused = await runtime.wait(task.id, TaskStatus.PAUSED)
    assert paused.metadata["engine/waiting_for"]["kind"] == "approval"
    assert woken


@pytest.mark.torture
async def test_a_pause_waits_for_a_call_that_runs(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    held = HeldWrite()
    aimock.load([after(0, calls(("write", {}))), after(1, says("done"))])
    async with CopilotRuntime(**scripted, tools=[held.tool()]) as runtime:
        task = (await runtime.dispatch(asked("Write."))).snapshot
        async with asyncio.timeout(60):
            await held.begun.wait()
        await runtime.pause(task.id)
        assert (await runtime.get(task.id)).status is TaskStatus.RUNNING
        held.may_end.set()
        settled = await runtime.wait(task.id, TaskStatus.PAUSED)
        if settled.status is TaskStatus.PAUSED:
            await runtime.resume(task.id)
        done = await runtime.wait(task.id)
        events = (await runtime.outcome(task.id)).events
    assert done.result == "done"
    step = next(event for event in events if event.type == "step.observed")
    assert step.data["observations"][0]["output"] == "written"


async def test_no_call_begins_after_a_pause_was_asked_for(
    scripted: Mapping[str, Any], aimock: Aimock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model asks for the next call before the turn is aborted: it is made after the resume."""
    written: list[str] = []
    begun, may_end = asyncio.Event(), asyncio.Event()

    @tool(effect="write")
    async def write(text: str) -> str:
        """Write."""
        written.append(text)
        begun.set()
        await may_end.wait()
        return "written"

    hear = SessionTurns._hear

    async def hear_the_next_request(self: SessionTurns, patience: float | None) -> bool:
        heard = await hear(self, patience)
        while self._job.stopping and self._read.talking and not self._read.requests:
            heard = await hear(self, patience)
        return heard

    first, second = (calls(("write", {"text": text})) for text in "ab")
    aimock.load([after(0, first), after(1, second), after(2, second), after(3, says("done"))])
    async with CopilotRuntime(**scripted, tools=[write]) as runtime:
        task = (await runtime.dispatch(asked("Write."))).snapshot
        async with asyncio.timeout(60):
            await begun.wait()
            monkeypatch.setattr(SessionTurns, "_hear", hear_the_next_request)
            await runtime.pause(task.id)
            may_end.set()
            paused = await runtime.wait(task.id, TaskStatus.PAUSED)
            assert (paused.status, written) == (TaskStatus.PAUSED, ["a"])
            monkeypatch.undo()
            await runtime.resume(task.id)
            done = await runtime.wait(task.id)
    assert (done.result, written) == ("done", ["a", "b"])


@pytest.mark.torture
async def test_an_aborted_turn_whose_end_no_event_tells_ends_without_a_new_cli(
    scripted: Mapping[str, Any], aimock: Aimock, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = Watching()
    take = SessionReader.take

    def take_no_end(self: SessionReader, event: SessionEvent) -> bool:
        return take(self, event) if not isinstance(event.data, SessionIdleData) else True

    monkeypatch.setattr(SessionReader, "take", take_no_end)
    aimock.load([story()])
    async with CopilotRuntime(**scripted, observer=watching) as runtime:
        task = (await runtime.dispatch(asked("Tell a story."))).snapshot
        await watching.saw("run.delta")
        await runtime.pause(task.id)
        async with asyncio.timeout(60):
            paused = await runtime.wait(task.id, TaskStatus.PAUSED)
        assert (paused.status, runtime.substrate.cli.starts) == (TaskStatus.PAUSED, 1)


@pytest.mark.parametrize("on_kill", [pytest.param("keep", marks=pytest.mark.torture), "delete"])
async def test_a_kill_ends_the_turn_keeps_the_text_and_the_session_or_not(
    scripted: Mapping[str, Any], aimock: Aimock, cli_home: Path, on_kill: Any
) -> None:
    watching = Watching()
    aimock.load([story()])
    async with CopilotRuntime(**scripted, observer=watching, on_kill=on_kill) as runtime:
        task = (await runtime.dispatch(asked("Tell a story."))).snapshot
        await watching.saw("run.delta")
        killed = (await runtime.kill(task.id)).snapshot
        await _until(lambda: aimock.connections() == 0)
    assert killed.metadata["copilot/partial_output"].startswith("word")
    session = cli_home / "session-state" / killed.metadata[SESSION]
    assert session.exists() is (on_kill == "keep")


async def test_a_cli_that_dies_is_started_again_and_its_tasks_go_on(
    scripted: Mapping[str, Any], aimock: Aimock, cli_path: Path
) -> None:
    watching = Watching()
    aimock.load([{"match": {"userMessage": "interrupted"}, "response": says("The end.")}, story()])
    async with CopilotRuntime(**scripted, observer=watching) as runtime:
        task = (await runtime.dispatch(asked("Tell a story."))).snapshot
        await watching.saw("run.delta")
        (pid,) = processes(cli_path)
        os.kill(pid, signal.SIGKILL)
        done = await runtime.wait(task.id)
        assert runtime.substrate.cli.starts == 2
        assert pid not in processes(cli_path)
    assert (done.status, done.result) == (TaskStatus.SUCCESS, "The end.")


@pytest.mark.torture
async def test_a_cli_that_hangs_is_killed_and_its_tasks_go_on(
    scripted: Mapping[str, Any], aimock: Aimock, cli_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "PATIENCE", 2.0)
    watching = Watching()
    aimock.load([{"match": {"userMessage": "interrupted"}, "response": says("The end.")}, story()])
    async with CopilotRuntime(**scripted, observer=watching) as runtime:
        task = (await runtime.dispatch(asked("Tell a story."))).snapshot
        await watching.saw("run.delta")
        (pid,) = processes(cli_path)
        os.kill(pid, signal.SIGSTOP)
        done = await runtime.wait(task.id)
        assert pid not in processes(cli_path)
    assert (done.status, done.result) == (TaskStatus.SUCCESS, "The end.")


@pytest.mark.torture
async def test_a_cli_that_is_lost_again_and_again_fails_its_tasks(
    scripted: Mapping[str, Any], aimock: Aimock, cli_path: Path
) -> None:
    aimock.load([{"match": {}, **{k: v for k, v in story().items() if k != "match"}}])

    class Murder:
        def observe(self, task_id: str, event: Event) -> None:
            if event.type == "run.delta":
                for pid in processes(cli_path):
                    os.kill(pid, signal.SIGKILL)

    async with CopilotRuntime(**scripted, observer=Murder()) as runtime:
        task = await runtime.run(asked("Tell a story."))
    assert task.failure is not None
    assert task.failure.code == "copilot/cli_lost"


@pytest.mark.torture
async def test_a_call_goes_on_while_the_cli_is_lost_and_is_not_made_twice(
    scripted: Mapping[str, Any], aimock: Aimock, cli_path: Path
) -> None:
    ran: list[str] = []

    @tool(effect="write")
    async def write() -> str:
        """Write, and see the CLI die meanwhile: it may have forgotten the call by then."""
        ran.append("write")
        for pid in processes(cli_path):
            os.kill(pid, signal.SIGKILL)
        await _until(lambda: processes(cli_path) == [])
        return "written"

    aimock.load(
        [
            {"match": {"userMessage": "It is done"}, "response": says("done")},
            after(0, calls(("write", {}))),
            after(1, says("done")),
        ]
    )
    async with CopilotRuntime(**scripted, tools=[write]) as runtime:
        task = await runtime.run(asked("Write."))
    assert (task.result, ran) == ("done", ["write"])
    assert "written" in aimock.requests()[-1].body["messages"][-1]["content"]


@pytest.mark.parametrize("idempotent", [True, pytest.param(False, marks=pytest.mark.torture)])
async def test_after_a_crash_a_call_is_repeated_with_its_key_or_said_to_be_unknown(
    scripted: Mapping[str, Any], aimock: Aimock, idempotent: bool
) -> None:
    """The first Host is given up in the middle of the call, as if its process had died."""
    keys: list[str] = []
    begun = asyncio.Event()

    @tool(effect="write", idempotent=idempotent)
    async def write(context: ToolContext) -> str:
        """Write."""
        keys.append(context.key)
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return "written"

    store = MemoryStore()
    aimock.load([after(0, calls(("write", {}))), after(1, says("done"))])
    async with CopilotRuntime(store, **scripted, tools=[write], claims=False) as first:
        task = (await first.dispatch(asked("Write."))).snapshot
        async with asyncio.timeout(60):
            await begun.wait()
        await first.substrate.close()
        await store.leave(first.name)
        async with CopilotRuntime(store, **scripted, tools=[write]) as second:
            await second.recover()
            done = await second.wait(task.id)
            events = (await second.outcome(task.id)).events
    assert done.result == "done"
    step = next(event for event in events if event.type == "step.observed")
    (observed,) = step.data["observations"]
    if idempotent:
        assert (observed["output"], len(keys), len(set(keys))) == ("written", 2, 1)
    else:
        assert (observed["error"], len(keys)) == ("indeterminate", 1)
        assert "not known" in aimock.requests()[-1].body["messages"][-1]["content"]


@pytest.mark.torture
async def test_a_session_that_is_not_here_pauses_the_task(
    scripted: Mapping[str, Any], aimock: Aimock, tmp_path: Path
) -> None:
    watching = Watching()
    store = MemoryStore()

    @tool(effect="none", inline=True)
    def look() -> str:
        """Look."""
        return "seen"

    aimock.load([after(0, calls(("look", {}))), {**story(), "match": {"turnIndex": 1}}])
    given = {**scripted, "tools": [look]}
    async with CopilotRuntime(store, **given, observer=watching) as runtime:
        task = (await runtime.dispatch(asked("Look, and tell a story."))).snapshot
        await watching.saw("step.observed")
        await runtime.pause(task.id)
        await runtime.wait(task.id, TaskStatus.PAUSED)
    elsewhere = {**given, "home": tmp_path / "elsewhere"}
    async with CopilotRuntime(store, **elsewhere) as runtime:
        await runtime.resume(task.id)
        found = await runtime.wait(task.id, TaskStatus.PAUSED)
        events = (await runtime.outcome(task.id)).events
    assert found.status is TaskStatus.PAUSED
    assert "has no session" in events[-1].data["reason"]


async def test_a_run_waits_until_the_one_before_has_let_go_of_the_session(
    scripted: Mapping[str, Any], aimock: Aimock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letting go ends the session in the CLI, for whoever resumed it in between as well."""
    order: list[str] = []
    leaving, may_leave, entered = asyncio.Event(), asyncio.Event(), asyncio.Event()
    leave, resume, execute = Session.leave, Session.resume, CopilotSubstrate.execute

    async def slowly(self: Session) -> None:
        leaving.set()
        await may_leave.wait()
        await leave(self)
        order.append("left")

    async def resumed(*given: Any) -> Session:
        order.append("resumed")
        return await resume(*given)

    async def noticed(self: CopilotSubstrate, job: Job) -> Any:
        if leaving.is_set():
            entered.set()
        return await execute(self, job)

    monkeypatch.setattr(Session, "leave", slowly)
    monkeypatch.setattr(Session, "resume", resumed)
    monkeypatch.setattr(CopilotSubstrate, "execute", noticed)

    @tool(effect="write", inline=True)
    def write() -> str:
        """Write."""
        return "written"

    aimock.load([after(0, calls(("write", {}))), after(1, says("done"))])
    desk = InMemoryApprovals()
    async with CopilotRuntime(
        **scripted, tools=[write], policy=BasicPolicy(), approvals=desk
    ) as runtime:
        task = (await runtime.dispatch(asked("Write."))).snapshot
        async with asyncio.timeout(60):
            request = await desk.next()
            await leaving.wait()
            await runtime.approve(task.id, request.digest, by="somebody")
            await entered.wait()
            may_leave.set()
            done = await runtime.wait(task.id)
    assert done.result == "done"
    assert order == ["left", "resumed", "left"]


async def test_a_task_that_continues_another_one_is_refused(scripted: Mapping[str, Any]) -> None:
    async with CopilotRuntime(**scripted) as runtime:
        with pytest.raises(CannotStart, match="does not take 'engine/continues'"):
            await runtime.dispatch(asked("And then?", **{"engine/continues": "another"}))
        assert runtime.substrate.cli.starts == 0


@pytest.mark.parametrize("note", [SESSION, "engine/stop_reason", "engine/waiting_for"])
async def test_a_task_that_comes_with_what_its_run_is_to_note_is_refused(
    scripted: Mapping[str, Any], note: str
) -> None:
    async with CopilotRuntime(**scripted) as runtime:
        with pytest.raises(CannotStart, match=f"'{note}' is written by the run"):
            await runtime.dispatch(asked("Hello.", **{note: "mine"}))
        assert runtime.substrate.cli.starts == 0


@pytest.mark.torture
async def test_twenty_sessions_share_one_process(
    scripted: Mapping[str, Any], aimock: Aimock, cli_path: Path
) -> None:
    together = asyncio.Barrier(20)

    @tool(effect="none")
    async def meet() -> str:
        """Wait for all the others."""
        async with asyncio.timeout(60):
            await together.wait()
        return "met"

    aimock.load([after(0, calls(("meet", {}))), after(1, says("done"))])
    async with CopilotRuntime(**scripted, tools=[meet], limits=Limits()) as runtime:
        tasks = [await runtime.dispatch(asked(f"Meet, {n}.")) for n in range(20)]
        done = [await runtime.wait(each.snapshot.id) for each in tasks]
        assert len(processes(cli_path)) == 1
        assert runtime.substrate.cli.starts == 1
    assert [task.result for task in done] == ["done"] * 20
    assert len({task.metadata[SESSION] for task in done}) == 20


async def _until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for what happens in another process."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.02)


async def test_a_step_is_one_turn_and_what_a_session_does_not_ask_for_is_on_record(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    looked: list[str] = []
    watching = Watching()

    @tool(effect="none")
    async def look() -> str:
        """Look."""
        looked.append("around")
        return "seen"

    on = {"userMessage": GO_ON}
    look_first = {"match": {**on, "turnIndex": 0}, "response": calls(("look", {}))}
    aimock.load([look_first, {**story(), "match": {**on, "turnIndex": 1}}, story()])
    async with CopilotRuntime(**scripted, tools=[look], observer=watching) as runtime:
        task = (await runtime.dispatch(asked("Tell a story."))).snapshot
        await watching.saw("run.delta")
        await runtime.pause(task.id)
        await runtime.wait(task.id, TaskStatus.PAUSED)
        await runtime.post(task.id, {"type": "engine/answer", "text": "blue", "by": "ada"})
        await runtime.post(task.id, {"type": "acme/nudge"})
        await runtime.step(task.id)
        async with asyncio.timeout(60):
            paused = await runtime.wait(task.id, TaskStatus.PAUSED)
        events = (await runtime.outcome(task.id)).events
    assert (paused.status, looked) == (TaskStatus.PAUSED, ["around"])
    reasons = [event.data["reason"] for event in events if event.type == "task.paused"]
    assert reasons == ["requested", "step"]
    ignored = [event.data for event in events if event.type == "approval.ignored"]
    assert [(each["by"], each["why"]) for each in ignored] == [
        ("ada", "blue"),
        ("", "a run does not act on a decision of type 'acme/nudge'"),
    ]
