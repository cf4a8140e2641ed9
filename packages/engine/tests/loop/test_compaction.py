"""Compaction: what is shown stays short, nothing that matters gets lost, and the log agrees."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from agentic_kernel import InvalidValue, TaskStatus
from agentic_kernel_engine import Host, MemoryStore
from agentic_kernel_engine.cursor import Cursor
from agentic_kernel_engine.loop.compaction import KEPT, KEPT_TEXTS, _open_question
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.loop.run import LoopRun
from agentic_kernel_engine.loop.state import VERSION, WITHOUT_SHARES, State, load
from agentic_kernel_engine.plans.accounts import Grant, Shares
from agentic_kernel_engine.plans.action import Action, AskUser, FinalAnswer, ToolCall
from agentic_kernel_engine.plans.budget import Amounts
from agentic_kernel_engine.plans.decision import ALLOW, Decision, require_approval
from agentic_kernel_engine.plans.limits import Limits
from agentic_kernel_engine.plans.observation import Observation
from agentic_kernel_engine.plans.plan import Plan
from agentic_kernel_engine.plans.transcript import (
    Entry,
    Notice,
    Summary,
    Transcript,
    Turn,
    UserMessage,
    read,
)
from agentic_kernel_engine.seams.compactor import Compaction, WindowCompactor
from agentic_kernel_engine.seams.planner import Context

from ..conftest import Crash, TappedStore
from ..scripting import Runner, World, new_task
from .chances import Chance, Witnessed, decide
from .compacting import SHORT, Counting, Says, compacted


class Reads(MemoryStore):
    """Counts the events that each look at a history returned."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[Cursor | None, int]] = []

    async def events(self, task_id: str, after: Cursor | None = None, limit: int = 1000) -> Any:
        found = await super().events(task_id, after, limit)
        self.reads.append((after, len(found)))
        return found


class Rereading(Witnessed):
    """Before every step, what the run holds is what its history says, behind the cursor and all."""

    async def step(self, run: LoopRun) -> None:
        for cursor in (run.state.cursor, None):
            again = read(await run.job.history(cursor), [run.opening])
            assert again == run.transcript
            assert again.fixed == run.transcript.fixed
            assert _places(again) == _places(run.transcript)
        await super().step(run)


def _places(transcript: Transcript) -> set[int]:
    return {count for count, _ in transcript.cuts if count > transcript.fixed}


async def test_over_a_thousand_steps_what_is_shown_stays_short(runner: Runner) -> None:
    planner = Counting(1_000)
    compactor = WindowCompactor(max_entries=40, max_bytes=8_000, keep=10, summary=1_000)
    done = await runner.run(
        planner=planner, compactor=compactor, limits=Limits(max_iterations=1_001)
    )
    assert done.result == 1_000
    assert planner.longest <= 40
    assert planner.largest <= 8_000
    assert len(compacted(await runner.events(done))) > 20


async def test_a_compaction_takes_no_write_of_its_own(runner: Runner) -> None:
    writes = []
    for compactor in (None, SHORT):
        runner.store = TappedStore()
        done = await runner.run(planner=Counting(30), compactor=compactor)
        assert done.result == 30
        writes.append(runner.store.count("commit"))
        assert bool(compacted(await runner.events(done))) is (compactor is not None)
    assert writes[0] == writes[1]


@pytest.mark.rule("R15")
async def test_a_run_that_enters_again_reads_only_what_is_behind_the_cursor(
    runner: Runner,
) -> None:
    runner.store = store = Reads()
    task = new_task()
    steps = 200

    class Stopping(Counting):
        async def plan(self, context: Context) -> Action:
            if context.step == 150 and 150 not in self.shown:
                await host.pause(context.task.id)
            return await super().plan(context)

    planner = Stopping(steps)
    async with runner.host(planner=planner, compactor=SHORT) as host:
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
    store.reads.clear()
    async with runner.host(planner=planner, compactor=SHORT) as host:
        await host.resume(task.id)
        assert (await host.wait(task.id)).result == steps
    # The first read looks for the principal of a Task that a version before 0.2 may have begun.
    (first, (after, count)) = store.reads
    assert first[1] <= 16
    assert after is not None
    assert after[0] > 100
    assert count <= 4 * 12
    assert len(await runner.events(task)) > 4 * 150


@pytest.mark.rule("R15")
@pytest.mark.parametrize("step", range(1, 25))
async def test_a_crash_at_any_step_goes_on_with_the_same_transcript(
    runner: Runner, crash: Crash, step: int
) -> None:
    """The crash is in the planner's call, right after the commit of the step before."""
    whole = Counting(25)
    await runner.run(planner=whole, compactor=SHORT)

    class Crashing(Counting):
        async def plan(self, context: Context) -> Action:
            answer = await super().plan(context)
            if context.step == step and not again:
                again.append(step)
                await crash(host)
            return answer

    again: list[int] = []
    task, planner = new_task(), Crashing(25)
    host = runner.mortal(planner=planner, compactor=SHORT)
    await host.dispatch(task)
    async with Host(store=runner.store) as other:
        while not again:
            await other.get(task.id)
    async with runner.host(planner=planner, compactor=SHORT) as second:
        done = await second.wait(task.id)
    assert done.result == 25
    assert planner.shown == whole.shown


async def test_what_people_said_and_asked_to_know_stays(runner: Runner) -> None:
    everything = Says(lambda shown: Compaction(len(shown), "work was done"))
    seen: list[list[Entry]] = []

    def look(context: Context) -> Action:
        seen.append(list(context.transcript))
        return ToolCall("add", {"a": context.step, "b": 1})

    async with runner.host(
        look, AskUser("which one?"), look, AskUser("and the colour?"), look, look, FinalAnswer(1),
        compactor=everything,
    ) as host:  # fmt: skip
        task = new_task(instructions="buy shoes")
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        await host.answer(task.id, "the second")
        await host.wait(task.id, TaskStatus.PAUSED)
        await host.resume(task.id, "be quick")
        await host.resume(task.id)
        assert (await host.wait(task.id)).result == 1
    asked = AskUser("and the colour?")
    last = seen[-1]
    assert last[:3] == [
        UserMessage("buy shoes"), UserMessage("the second"), UserMessage("be quick")
    ]  # fmt: skip
    assert [entry for entry in last if isinstance(entry, Summary)] == [Summary("work was done")]
    assert not any(isinstance(entry, Turn) and asked in entry.plan.actions for entry in last)


async def test_a_question_that_nobody_answered_stays(runner: Runner) -> None:
    everything = Says(lambda shown: Compaction(len(shown), "work was done"))
    seen: list[list[Entry]] = []

    def look(context: Context) -> Action:
        seen.append(list(context.transcript))
        return ToolCall("add", {"a": context.step, "b": 1})

    asking = Plan((ToolCall("add", {"a": 0, "b": 0}), AskUser("which one?")), text="hm")
    async with runner.host(asking, *[look] * 5, FinalAnswer(1), compactor=everything) as host:
        task = new_task()
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        await host.resume(task.id)
        await host.wait(task.id)
    question = Turn(Plan((AskUser("which one?"),)), (Observation(),))
    assert seen[-1][:3] == [UserMessage("do it"), question, Summary("work was done")]


def test_a_question_that_stays_visible_is_not_shown_twice() -> None:
    asked = Turn(Plan((AskUser("which one?"),)), (Observation(),))
    shown: list[Entry] = [UserMessage("do it"), asked]
    assert _open_question(shown, 1) == []
    assert _open_question(shown, 2) == [asked]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["x" * KEPT, "y", *["z" * 300] * 5], 6),
        ([f"{n}" for n in range(KEPT_TEXTS + 5)], KEPT_TEXTS),
        (["y", "x" * 3 * KEPT], 1),
    ],
)
async def test_of_many_words_the_latest_are_kept(
    runner: Runner, words: list[str], kept: int
) -> None:
    everything = Says(lambda shown: Compaction(len(shown), "work was done"))
    seen: list[Entry] = []

    def look(context: Context) -> Action:
        seen.extend(context.transcript)
        return FinalAnswer(1)

    script = [*[AskUser(f"{n}?") for n in range(len(words))], ToolCall("add", {"a": 1, "b": 1})]
    async with runner.host(*script, look, compactor=everything) as host:
        task = new_task()
        await host.dispatch(task)
        for text in words:
            await host.wait(task.id, TaskStatus.PAUSED)
            await host.answer(task.id, text)
        await host.wait(task.id)
    assert [type(entry) for entry in seen] == [UserMessage] * (1 + kept) + [Summary]
    assert [entry.text for entry in seen[1:-1] if isinstance(entry, UserMessage)] == words[-kept:]


async def test_no_compactor_is_asked_unless_the_planner_is_next(runner: Runner) -> None:
    asked: list[int] = []
    window = Says(lambda shown: asked.append(len(shown)))

    class Asking:
        async def authorize(self, action: Action, context: Context) -> Decision:
            return require_approval("ask") if isinstance(action, ToolCall) else ALLOW

    task = new_task()
    async with runner.host(
        ToolCall("add", {"a": 1, "b": 1}), FinalAnswer(1), policy=Asking(), compactor=window
    ) as host:
        await host.dispatch(task)
        for _ in range(3):
            paused = await host.wait(task.id, TaskStatus.PAUSED)
            await host.resume(task.id)
        paused = await host.wait(task.id, TaskStatus.PAUSED)
        waiting: Any = paused.metadata["engine/waiting_for"]
        await host.approve(task.id, waiting["requests"][0]["digest"])
        await host.wait(task.id)
    assert asked == [1, 2]


async def test_with_nothing_new_to_replace_nothing_happens(runner: Runner) -> None:
    """Not the instructions alone, and not what is left of the last compaction alone."""
    done = await runner.run(planner=Counting(5), compactor=Says(lambda _: Compaction(1, "x")))
    assert compacted(await runner.events(done)) == []
    done = await runner.run(planner=Counting(9), compactor=Says(lambda _: Compaction(2, "x")))
    assert len(compacted(await runner.events(done))) == 1


async def test_what_one_commit_said_stays_together(runner: Runner) -> None:
    """A turn and the remark about it are in one commit; a cut between them is made before."""
    cut = Says(lambda shown: Compaction(3, "x") if len(shown) == 5 else None)
    seen: list[Entry] = []

    def look(context: Context) -> Action:
        seen.extend(context.transcript)
        return FinalAnswer(1)

    first, last = ToolCall("add", {"a": 1, "b": 1}), ToolCall("add", {"a": 2, "b": 2})
    await runner.run(first, Plan(()), last, look, compactor=cut)
    assert [type(entry) for entry in seen] == [UserMessage, Summary, Turn, Notice, Turn]


async def anything(seed: int) -> int:
    """One run that is compacted, paused and decided about at random; how often it was compacted."""
    draw, world, store = random.Random(seed), World(), MemoryStore()
    chance = Chance(seed)

    def some(shown: Sequence[Entry]) -> Compaction | None:
        if draw.random() < 0.5:
            return None
        return Compaction(draw.randint(0, len(shown) + 1), f"summary {draw.random()}")

    loop = Rereading(
        chance, world.tools(), chance, compactor=Says(some), limits=Limits(max_iterations=40)
    )
    async with Host(loop, store, interval=0.01) as host:
        task = (await host.dispatch(new_task(instructions="anything"))).snapshot
        for _ in range(300):
            if draw.random() < 0.3:
                await host.pause(task.id)
            task = await host.wait(task.id, TaskStatus.PAUSED)
            if task.status.terminal:
                break
            await decide(draw, host, task)
        else:
            await host.kill(task.id)
        task = await host.wait(task.id)
        events = (await host.outcome(task.id)).events
    assert task.failure is None or "unhandled" not in task.failure.code, task.failure
    if task.status is not TaskStatus.CANCELLED and loop.last is not None:
        assert replay(events).transcript == loop.last.transcript[1:]
    return len(compacted(events))


async def test_the_log_agrees_with_the_run_across_compactions() -> None:
    assert sum([await anything(seed) for seed in range(40)]) > 40


@pytest.mark.torture
async def test_the_log_agrees_with_a_thousand_runs_across_compactions() -> None:
    for seed in range(10_000, 11_000):
        await anything(seed)


def test_a_state_of_the_first_version_loads() -> None:
    old = load({"step": 3, "spent": {"iterations": 3}})
    assert (old.version, old.step, old.cursor) == (WITHOUT_SHARES, 3, None)
    new = State(WITHOUT_SHARES, cursor=(7, 2))
    assert load(msgspec.to_builtins(new)) == new
    shared = load(
        {"version": 1, "shares": msgspec.to_builtins(Shares({"child": Grant(Amounts(cost=1.0))}))}
    )
    assert shared.version == VERSION
    assert load(msgspec.to_builtins(shared)) == shared
    with pytest.raises(InvalidValue, match="reads up to"):
        load({"version": VERSION + 1})
