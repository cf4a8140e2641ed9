"""Sessions: a Task starts from the transcript of an earlier one, once, and within bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from agentic_kernel import Failure, Task, TaskStatus
from agentic_kernel_engine import Event, Host, Job, MemoryStore, TaskFailed
from agentic_kernel_engine.loop.continuation import CARRIED, EXTRACT, continued
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.plans.action import Action, AskUser, FinalAnswer, Stop, ToolCall
from agentic_kernel_engine.plans.observation import Observation
from agentic_kernel_engine.plans.plan import Plan
from agentic_kernel_engine.plans.transcript import (
    Entry,
    Notice,
    Summary,
    Transcript,
    Turn,
    UserMessage,
    entries_of,
)
from agentic_kernel_engine.principal import NOBODY, Principal
from agentic_kernel_engine.seams.compactor import WindowCompactor
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.tools.tool import tool

from ..conftest import Acting, Crash
from ..scripting import Runner, new_task

LATER = datetime.now(UTC) + timedelta(days=1)
ADD = ToolCall("add", {"a": 1, "b": 2})


class Looking:
    """Answers at once, and keeps what it was shown."""

    def __init__(self, *script: Any) -> None:
        self.script = [*script, FinalAnswer("done")]
        self.shown: list[Entry] = []

    async def plan(self, context: Context) -> Any:
        self.shown = list(context.transcript)
        return self.script[context.step]


def carried(events: list[Event]) -> Event:
    """The event that has what came over, which is in the first commit of the run."""
    started = next(event for event in events if event.type == "run.started")
    (found,) = [event for event in events if event.type == "run.continued"]
    assert started.id is not None
    assert found.id == (started.id[0], started.id[1] + 1)
    return found


async def code_of(runner: Runner, task: Task, **options: Any) -> str:
    """Why a Task failed, before its planner was asked."""
    planner = Looking()
    async with runner.host(planner=planner, **options) as host:
        done = await host.run(task)
    assert done.failure is not None
    assert done.metadata["engine/stop_reason"] == "error"
    assert planner.shown == []
    return done.failure.code


def test_a_task_that_continues_another_names_it() -> None:
    first = new_task(metadata={"acme/customer": 7, "engine/depth": 1}, summary="Shoes")
    second = continued(first, "and socks")
    third = continued(second, "and hats", summary="Hats")
    assert (second.instructions, second.summary, third.summary) == ("and socks", "Shoes", "Hats")
    assert second.runtime_kind == first.runtime_kind
    assert second.metadata == {
        "acme/customer": 7, "engine/session": first.id, "engine/continues": first.id,
    }  # fmt: skip
    assert third.metadata["engine/session"] == first.id
    assert third.metadata["engine/continues"] == second.id
    named = continued(new_task(metadata={"engine/session": "ann/7"}), "go on")
    assert named.metadata["engine/session"] == "ann/7"


async def test_what_was_said_before_comes_first(runner: Runner) -> None:
    first = await runner.run(ADD, FinalAnswer({"sum": [3]}))
    planner = Looking(ADD)
    async with runner.host(planner=planner) as host:
        second = await host.run(continued(first, "and again"))
    three = Turn(Plan((ADD,)), (Observation(3, tool="add"),))
    said = [
        UserMessage("do it"), three, Turn(Plan((FinalAnswer({"sum": [3]}),)), (Observation(),)),
    ]  # fmt: skip
    assert planner.shown == [*said, UserMessage("and again"), three]
    assert second.result == "done"
    events = await runner.events(second)
    data = carried(events).data
    assert (data["session"], data["task"]) == (first.id, first.id)
    assert entries_of(data["entries"]) == said
    again = replay(events)
    assert again.transcript[:3] == said
    assert again.spent.tool_calls == 1


async def test_once_it_has_begun_the_earlier_task_may_be_pruned(runner: Runner) -> None:
    first = await runner.run(ADD, FinalAnswer({"sum": [3]}))
    planner = Looking(AskUser("which?"), ADD, AskUser("sure?"))
    second = continued(first, "and again")
    async with runner.host(planner=planner) as host:
        await host.dispatch(second)
        await host.wait(second.id, TaskStatus.PAUSED)
        assert await runner.store.prune(LATER) == 1
        await host.answer(second.id, "this one")
        await host.wait(second.id, TaskStatus.PAUSED)
    async with runner.host(planner=planner) as host:
        await host.answer(second.id, "yes")
        assert (await host.wait(second.id)).result == "done"
    heard = [entry.text for entry in planner.shown if isinstance(entry, UserMessage)]
    assert heard == ["do it", "and again", "this one", "yes"]


async def test_a_crash_before_the_first_commit_takes_it_over_anew(
    runner: Runner, crash: Crash
) -> None:
    first = await runner.run(FinalAnswer({"sum": [3]}))
    second, crashed = continued(first, "and again"), False

    class Starting:
        async def on_run_start(self, state: Any) -> None:
            nonlocal crashed
            if not crashed:
                crashed = True
                await crash(host)

    planner = Looking()
    host = runner.mortal(planner=planner, middleware=[Starting()])
    await host.dispatch(second)
    async with Host(store=runner.store) as other:
        while not crashed:
            await other.get(second.id)
    async with runner.host(planner=planner, middleware=[Starting()]) as again:
        assert (await again.wait(second.id)).result == "done"
    assert [type(entry) for entry in planner.shown] == [UserMessage, Turn, UserMessage]
    carried(await runner.events(second))


async def test_what_is_not_there_cannot_be_continued(runner: Runner) -> None:
    assert await code_of(runner, continued(new_task(), "go on")) == "engine/session_not_found"
    first = await runner.run(FinalAnswer(1))
    await runner.store.prune(LATER)
    assert await code_of(runner, continued(first, "go on")) == "engine/session_not_found"
    odd = new_task(metadata={"engine/continues": ["no", "id"]})
    assert await code_of(runner, odd) == "engine/session_not_found"


async def test_what_has_not_ended_cannot_be_continued(runner: Runner) -> None:
    first = new_task()
    async with runner.host(AskUser("which?"), FinalAnswer(1)) as host:
        await host.dispatch(first)
        await host.wait(first.id, TaskStatus.PAUSED)
        assert await code_of(runner, continued(first, "go on")) == "engine/session_not_ended"
    itself = new_task(id="me", metadata={"engine/continues": "me"})
    assert await code_of(runner, itself) == "engine/session_not_ended"


@pytest.mark.parametrize(
    "other",
    [NOBODY, Principal("ann", "globex"), Principal("bob", "acme"), Principal("", "acme")],
)
async def test_what_was_said_to_somebody_else_is_not_handed_on(
    runner: Runner, other: Principal
) -> None:
    ann = Principal("ann", "acme", trace="1")
    first = await runner.run(FinalAnswer(1), principal=ann)
    started = next(e for e in await runner.events(first) if e.type == "run.started")
    assert started.data["principal"] == {"name": "ann", "tenant": "acme"}
    task = continued(first, "what did she say?")
    assert await code_of(runner, task, principal=other) == "engine/session_forbidden"
    async with runner.host(planner=Looking(), principal=Principal("ann", "acme")) as host:
        assert (await host.run(continued(first, "go on"))).result == "done"


async def test_what_no_loop_has_run_left_no_transcript(runner: Runner) -> None:
    async def act(job: Job) -> str:
        return "by other means"

    async with Host(Acting(act), runner.store) as host:
        first = await host.run(new_task())
    assert await code_of(runner, continued(first, "go on")) == "engine/session_unreadable"


async def test_a_failure_and_a_kill_are_told(runner: Runner) -> None:
    failed = await runner.run(ADD, Stop("enough"))
    planner = Looking()
    async with runner.host(planner=planner) as host:
        await host.run(continued(failed, "try again"))
    assert planner.shown[-2:] == [
        Notice("The work ended in failure (engine/stopped: enough)."), UserMessage("try again"),
    ]  # fmt: skip
    killed = new_task()
    async with runner.host(AskUser("which?")) as host:
        await host.dispatch(killed)
        await host.wait(killed.id, TaskStatus.PAUSED)
        await host.kill(killed.id)
    async with runner.host(planner=planner) as host:
        await host.run(continued(killed, "try again"))
    assert planner.shown[-2] == Notice("The work ended in cancelled.")


async def test_a_result_that_came_from_outside_is_an_answer(runner: Runner) -> None:
    first = new_task()

    class Waiting:
        async def plan(self, context: Context) -> Action:
            if context.step == 1:
                await host.complete(context.task.id, {"by": ["hand"]})
            return ADD

    async with runner.host(planner=Waiting()) as host:
        done = await host.run(first)
    planner = Looking()
    async with runner.host(planner=planner) as host:
        await host.run(continued(done, "well?"))
    assert planner.shown[-2] == Turn(Plan((FinalAnswer({"by": ["hand"]}),)), (Observation(),))


async def test_an_effect_that_a_kill_left_open_is_said_to_be_unknown(runner: Runner) -> None:
    first = new_task()

    @tool(effect="write")
    async def send(text: str) -> str:
        """Send a message."""
        await host.kill(first.id)
        return "sent"

    send_it = ToolCall("send", {"text": "hello"})
    async with runner.host(Plan((send_it, AskUser("well?"))), tools=[send]) as host:
        await host.dispatch(first)
        await host.wait(first.id)
    planner = Looking()
    async with runner.host(planner=planner) as host:
        await host.run(continued(first, "was it sent?"))
    assert [type(entry) for entry in planner.shown] == [UserMessage, Turn, Notice, UserMessage]
    open_turn = planner.shown[1]
    assert isinstance(open_turn, Turn)
    assert [each.error for each in open_turn.observations] == ["indeterminate", "skipped"]


async def test_a_long_conversation_does_not_grow_without_bound(runner: Runner) -> None:
    """Each of ten Tasks brings 100 kB; what one of them takes over stays below the bound."""
    text = "x" * 50_000
    task, sizes = new_task(instructions="remember: the word is plover"), []
    planner = Looking(ToolCall("put", {"text": text}), ToolCall("put", {"text": text + "y"}))
    for _ in range(10):
        async with runner.host(planner=planner) as host:
            done = await host.run(task)
        for event in await runner.events(done):
            if event.type == "run.continued":
                sizes.append(len(msgspec.json.encode(event.data)))
        task = continued(done, "go on")
    assert len(sizes) == 9
    assert sizes[0] > 100_000
    assert max(sizes) <= CARRIED + 2 * EXTRACT
    summary = planner.shown[0]
    assert isinstance(summary, Summary)
    assert "the word is plover" in summary.text


async def test_one_entry_over_the_bound_is_quoted_from(runner: Runner) -> None:
    first = await runner.run(FinalAnswer("x" * (CARRIED + 1)))
    planner = Looking()
    async with runner.host(planner=planner) as host:
        await host.run(continued(first, "go on"))
    assert [type(entry) for entry in planner.shown] == [Summary, UserMessage]
    assert Transcript(planner.shown).size < 2 * EXTRACT


async def test_what_comes_over_is_shortened_by_the_compactor(runner: Runner) -> None:
    compactor = WindowCompactor(max_entries=8, keep=3)
    first = await runner.run(
        *[ToolCall("add", {"a": n, "b": n}) for n in range(20)], FinalAnswer(1)
    )
    planner = Looking()
    async with runner.host(planner=planner, compactor=compactor) as host:
        second = await host.run(continued(first, "go on"))
    assert [type(entry) for entry in planner.shown] == [Summary, Turn, Turn, Turn, UserMessage]
    assert replay(await runner.events(second)).transcript[:4] == planner.shown[:4]


async def test_a_conversation_is_compacted_like_any_other_transcript(runner: Runner) -> None:
    """The carried entries are replaced; the Task's own instructions stay, in the first place."""
    compactor = WindowCompactor(max_entries=8, keep=3)
    first = await runner.run(ADD, FinalAnswer(1))
    planner = Looking(
        *[ToolCall("add", {"a": n, "b": n}) for n in range(6)], AskUser("on?"), ADD
    )  # fmt: skip
    second = continued(first, "go on")
    async with runner.host(planner=planner, compactor=compactor) as host:
        await host.dispatch(second)
        await host.wait(second.id, TaskStatus.PAUSED)
        live = planner.shown
        await host.answer(second.id, "yes")
        await host.wait(second.id)
    assert live[0] == UserMessage("go on")
    assert isinstance(live[1], Summary)
    assert live[1].text.startswith("user: do it")
    assert live[1].text.count("user: go on") == 1
    async with Host(store=runner.store) as host:
        told = replay((await host.outcome(second.id)).events).transcript
    assert told[:-1] == planner.shown[1:]
    assert planner.shown[0] == UserMessage("go on")
    assert UserMessage("yes") in planner.shown
    summary = planner.shown[1]
    assert isinstance(summary, Summary)
    assert summary.text.startswith(live[1].text)


async def test_a_job_reads_another_task(runner: Runner) -> None:
    first = await runner.run(FinalAnswer(1))
    seen: list[Any] = []

    async def act(job: Job) -> None:
        seen.extend(await job.read(first.id))
        try:
            await job.read("nobody")
        except LookupError as error:
            raise TaskFailed("acme/no", str(error)) from error

    async with Host(Acting(act), runner.store) as host:
        done = await host.run(new_task())
        record = await host.record(first.id)
    assert done.failure == Failure("acme/no", done.failure.message if done.failure else "")
    assert seen == [first, await runner.events(first)]
    assert record.version == max(event.id[0] for event in seen[1] if event.id is not None)


async def test_a_commit_gives_a_cursor_behind_what_it_wrote() -> None:
    later: list[list[str]] = []

    async def act(job: Job) -> None:
        job.emit({"type": "acme.live"})
        cursors = [
            await job.commit(1, [{"type": "acme.one"}, {"type": "acme.two"}]),
            await job.checkpoint(2),
            await job.checkpoint(3, [{"type": "acme.three"}]),
        ]
        later.extend([[event.type for event in await job.history(each)] for each in cursors])

    async with Host(Acting(act), MemoryStore()) as host:
        await host.run(new_task())
    assert later == [["acme.three"], ["acme.three"], []]
