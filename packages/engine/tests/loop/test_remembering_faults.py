"""Memories and governors that fail: the run goes on, and says so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agentic_kernel_engine import MemoryStore, Record
from agentic_kernel_engine.loop import remembering
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.plans.ending import End
from agentic_kernel_engine.plans.reasons import StopReason
from agentic_kernel_engine.seams.memories import InMemoryMemory
from agentic_kernel_engine.seams.memory import Hit, Item, Scope
from agentic_kernel_engine.seams.memory_governor import (
    MAX_PROPOSALS,
    Proposal,
    SessionMemoryGovernor,
)
from agentic_kernel_engine.seams.planner import Context

from ..scripting import Runner
from .remembering import ADD, MONDAY, Broken, Governing, Seen, in_session, run, said


class Unreadable(Exception):
    def __str__(self) -> str:
        raise ValueError("not even that")


async def _for_ever() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    "fault",
    [
        ConnectionError("gone"),
        Unreadable(),
        End(StopReason.FINAL, output="usurped"),
        asyncio.CancelledError(),
        SystemExit(1),
        GeneratorExit(),
        BaseExceptionGroup("both", [asyncio.CancelledError()]),
        None,
        "text",
        ["text"],
        [Hit(Item("a", Scope("zeta", "ann", "monday"), "somebody else's"), 1.0, "")],
        [Hit(Item("a", MONDAY, "a"), float("nan"), "")],
        [Hit("a", 1.0, "")],  # type: ignore[arg-type]
        _for_ever,
    ],
    ids=range(14),
)
async def test_a_recall_that_fails_is_recorded_and_the_run_goes_on_without(
    runner: Runner, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault is _for_ever:
        monkeypatch.setattr(remembering, "PATIENCE", 0.01)
    memory: Any = Broken(fault, "recall")
    planner, task = Seen(ADD, FinalAnswer("done")), in_session()
    done = await run(runner, task, planner=planner, memory=memory, seed_memory=["a seed"])
    assert done.result == "done"
    assert planner.memories == [["a seed"]] * 2
    failed = await said(runner, task, "memory.failed")
    assert [data["doing"] for data in failed] == ["recall"] * 2
    assert all(data["message"] for data in failed)


@pytest.mark.parametrize("fault", [SystemExit(1), GeneratorExit()], ids=range(2))
async def test_an_exit_of_one_item_does_not_stop_the_others(
    runner: Runner, fault: BaseException
) -> None:
    class Leaving(InMemoryMemory):
        async def propose(self, item: Item) -> bool:
            if item.text == "first":
                raise fault
            return await super().propose(item)

    memory, task = Leaving(), in_session()
    governor = Governing(Proposal("first"), Proposal("second"))
    done = await run(runner, task, FinalAnswer("done"), memory=memory, governor=governor)
    assert done.result == "done"
    assert [item["text"] for item in (await memory.export(MONDAY))["items"]] == ["second"]
    assert [data["doing"] for data in await said(runner, task, "memory.failed")] == ["keep"]


async def test_a_stray_cancellation_of_the_commit_of_the_end_loses_the_memory_alone(
    runner: Runner,
) -> None:
    class Straying(MemoryStore):
        left = 1

        async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
            if self.left and any(b"memory.noted" in event for event in events):
                self.left = 0
                raise asyncio.CancelledError
            await super().commit(before, after, events)

    runner.store, task = Straying(), in_session()
    done = await run(
        runner, task, FinalAnswer("done"), memory=InMemoryMemory(),
        governor=Governing(of_end=[Proposal("learned")]),
    )  # fmt: skip
    assert done.result == "done"
    kinds = [event.type for event in await runner.events(task)]
    assert kinds[-5:] == [
        "memory.noted", "memory.failed", "memory.lost", "run.stopped", "task.completed",
    ]  # fmt: skip


async def test_a_memory_that_fails_for_a_while_gets_everything_in_the_end(runner: Runner) -> None:
    memory: Any = Broken(ConnectionError("gone"), "propose", "supersede")
    seen: list[int] = []

    class Mending:
        async def plan(self, context: Context) -> Any:
            seen.append(len((await memory.real.export(MONDAY))["items"]))
            if context.step == 3:
                memory.calls = ()
            call = ToolCall("add", {"a": context.step, "b": 1})
            return FinalAnswer("done") if context.step == 5 else call

    task = in_session()
    done = await run(
        runner, task, planner=Mending(), memory=memory, governor=Governing(Proposal("learned"))
    )
    assert done.result == "done"
    assert seen == [0, 0, 0, 0, 4, 5]
    ids = [item["id"] for item in (await memory.real.export(MONDAY))["items"]]
    assert ids == [f"{task.id}:{step}:0" for step in range(6)]
    failed = await said(runner, task, "memory.failed")
    assert [data["doing"] for data in failed] == ["keep"] * 3
    assert failed[0]["message"] == "ConnectionError: gone"
    assert await said(runner, task, "memory.lost") == []


async def test_what_a_memory_never_takes_is_bounded_and_said_to_be_lost(runner: Runner) -> None:
    memory: Any = Broken(ConnectionError("gone"), "propose")
    governor = Governing(*(Proposal(f"p {number}") for number in range(MAX_PROPOSALS)))
    task, waiting = in_session(), []

    class Watching:
        async def on_run_start(self, state: Any) -> None:
            self.state = state

        async def before_model(self, context: Context) -> None:
            waiting.append(len(self.state.remembering))

    script = [ToolCall("add", {"a": n, "b": n}) for n in range(4)]
    done = await run(
        runner, task, *script, FinalAnswer("done"), memory=memory, governor=governor,
        middleware=[Watching()],
    )  # fmt: skip
    assert done.result == "done"
    assert waiting == [0, 16, 32, 32, 32]
    lost = [id for data in await said(runner, task, "memory.lost") for id in data["items"]]
    assert lost == [f"{task.id}:{step}:{index}" for step in range(5) for index in range(16)]


async def test_an_item_that_a_memory_refuses_keeps_no_other_from_it(runner: Runner) -> None:
    class Picky(InMemoryMemory):
        async def propose(self, item: Item) -> bool:
            if item.text == "bad":
                raise ValueError("not this one")
            return await super().propose(item)

    memory = Picky()
    governor = Governing(Proposal("bad"), Proposal("good"))
    await run(runner, in_session(), FinalAnswer(1), memory=memory, governor=governor)
    assert [item["text"] for item in (await memory.export(MONDAY))["items"]] == ["good"]


@pytest.mark.parametrize(
    "proposals",
    [
        [ConnectionError("no model today")],
        [asyncio.CancelledError()],
        [SystemExit(1)],
        [GeneratorExit()],
        [End(StopReason.STOPPED)],
        ["text"],
        [Proposal("")],
        [Proposal("good"), Proposal("a\0")],
        [Proposal("\ud800")],
        [Proposal("x" * 10_000_000)],
        [Proposal(float("nan"))],  # type: ignore[arg-type]
        [Proposal("good", key=5)],  # type: ignore[arg-type]
        [Proposal("x")] * (MAX_PROPOSALS + 1),
    ],
    ids=range(13),
)
async def test_a_governor_that_fails_is_recorded_and_nothing_is_remembered(
    runner: Runner, proposals: Any
) -> None:
    memory, task = InMemoryMemory(), in_session()
    done = await run(
        runner, task, ADD, FinalAnswer("done"), memory=memory, governor=Governing(*proposals)
    )
    assert done.result == "done"
    assert (await memory.export(MONDAY))["items"] == []
    failed = await said(runner, task, "memory.failed")
    assert [data["doing"] for data in failed] == ["of_step"] * 2


async def test_a_governor_that_is_no_coroutine_function_fails_like_any_other(
    runner: Runner,
) -> None:
    class Plain(SessionMemoryGovernor):
        def of_step(self, *_: Any) -> Any:
            raise ConnectionError("at once")

    task, memory = in_session(), InMemoryMemory()
    done = await run(runner, task, ADD, FinalAnswer("done"), memory=memory, governor=Plain())
    assert done.result == "done"
    assert [data["doing"] for data in await said(runner, task, "memory.failed")] == ["of_step"] * 2
    assert len((await memory.export(MONDAY))["items"]) == 1, "what the end brought"
