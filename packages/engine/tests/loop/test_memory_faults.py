"""Memory that hangs, lies, is shared or gone, and a run that ends in the midst of it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine.loop import remembering
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.seams.memories import (
    EmbeddingMemory,
    HashingEmbedder,
    InMemoryMemory,
)
from agentic_kernel_engine.seams.memory import Hit, Item, Query
from agentic_kernel_engine.seams.memory_governor import Proposal, SessionMemoryGovernor
from agentic_kernel_engine.tools.tool import Tool

from ..conftest import Crash
from ..scripting import Runner
from .remembering import (
    ADD,
    ANN,
    MONDAY,
    Broken,
    Gated,
    Governing,
    Seen,
    in_session,
    run,
    said,
)


@pytest.mark.parametrize("hangs", ["of_step", "of_end", "keep"])
@pytest.mark.parametrize("shrugs", [False, True], ids=["hangs", "makes-it-an-error-of-its-own"])
async def test_a_governor_that_hangs_does_not_hang_the_run(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, hangs: str, shrugs: bool
) -> None:
    monkeypatch.setattr(remembering, "PATIENCE", 0.01)

    async def hang(*_: Any) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if shrugs:
                raise ConnectionError("closed") from None
            raise

    governor = Governing(Proposal("one"), Proposal("two"))
    setattr(governor, hangs, hang)
    task = in_session()
    done = await asyncio.wait_for(
        run(runner, task, ADD, FinalAnswer("done"), memory=InMemoryMemory(), governor=governor), 10
    )
    assert done.result == "done"
    failed = await said(runner, task, "memory.failed")
    assert {data["doing"] for data in failed} == {hangs}
    assert len(failed) == (1 if hangs == "of_end" else 2)
    assert all(data["message"].startswith("TimeoutError: no answer within") for data in failed) or (
        shrugs
    )


async def test_what_a_memory_says_of_itself_is_not_taken_for_our_patience(runner: Runner) -> None:
    memory: Any = Broken(TimeoutError(), "recall")
    task = in_session()
    await run(runner, task, FinalAnswer("done"), memory=memory)
    assert [data["message"] for data in await said(runner, task, "memory.failed")] == [
        "TimeoutError: "
    ]


@pytest.mark.parametrize("ended", [False, True], ids=["in-a-step", "at-the-end"])
async def test_what_waits_for_a_memory_that_is_gone_is_said_to_be_lost(
    runner: Runner, crash: Crash, ended: bool
) -> None:
    """A Loop without a memory keeps it to the end, for one that has: then it says so."""
    memory = Gated("before")
    script = (FinalAnswer("done"),) if ended else (ADD, FinalAnswer("done"))
    task = in_session()
    host = runner.mortal(*script, memory=memory, governor=SessionMemoryGovernor(), principal=ANN)
    await host.dispatch(task)
    await memory.reached.wait()
    await crash(host)
    async with runner.host(*script, principal=ANN) as second:
        assert (await second.wait(task.id)).result == "done"
    noted = [id for data in await said(runner, task, "memory.noted") for id in data["items"]]
    assert await said(runner, task, "memory.lost") == [{"items": noted}]
    assert len(noted) == 1


async def test_what_waits_outlives_a_loop_without_a_memory(runner: Runner, crash: Crash) -> None:
    memory, began = Gated("before"), asyncio.Event()
    options: Any = {"memory": memory, "governor": SessionMemoryGovernor(), "principal": ANN}
    task = in_session()

    async def hold(arguments: Any) -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    holding = Tool("hold", hold, input_schema={"type": "object"}, effect="read")
    script = (ADD, ToolCall("hold"), FinalAnswer("done"))
    first = runner.mortal(*script, **options)
    await first.dispatch(task)
    await memory.reached.wait()
    await crash(first)
    second = runner.mortal(*script, principal=ANN, tools=[*runner.world.tools(), holding])
    await second.claim(task.id)
    await began.wait()
    await crash(second)
    memory.held = False
    async with runner.host(*script, **options) as third:
        assert (await third.wait(task.id)).result == "done"
    texts = [item["text"] for item in (await memory.export(MONDAY))["items"]]
    assert texts[0] == 'add({"a":1,"b":2}) gave 3'
    assert await said(runner, task, "memory.lost") == []


class Text(str):
    """A string that cannot be stored: a codec knows only real ones."""

    __slots__ = ()


class Number(float):
    """The same of a number, like those of numpy."""

    __slots__ = ()


@pytest.mark.parametrize(
    "proposal",
    [Proposal(Text("x")), Proposal("x", Text("key"))],
    ids=["text", "key"],
)
async def test_a_proposal_that_could_not_be_stored_does_not_end_the_run(
    runner: Runner, proposal: Proposal
) -> None:
    task, governor = in_session(), Governing(proposal)
    done = await run(
        runner, task, ADD, FinalAnswer("done"), memory=InMemoryMemory(), governor=governor
    )
    assert done.result == "done"
    assert [data["doing"] for data in await said(runner, task, "memory.failed")] == ["of_step"] * 2


async def test_a_score_of_another_class_is_a_number_like_any_other(runner: Runner) -> None:
    memory: Any = Broken([Hit(Item("a", MONDAY, "an item"), Number(0.5), "")], "recall")
    task, planner = in_session(), Seen()
    done = await run(runner, task, planner=planner, memory=memory)
    assert (done.result, planner.memories) == ("done", [["an item"]])
    assert await said(runner, task, "memory.recalled") == [{"hits": [{"id": "a", "score": 0.5}]}]


@pytest.mark.parametrize("where", ["recall", "of_step"])
async def test_what_never_ends_is_not_read_to_its_end(runner: Runner, where: str) -> None:
    item = Item("a", MONDAY, "x" * 2_000)
    memory: Any = Broken(itertools.repeat(Hit(item, 1.0, "")), *(["recall"] * (where == "recall")))
    governor = Governing()

    async def for_ever(*_: Any) -> Any:
        return itertools.repeat(Proposal("again"))

    if where == "of_step":
        governor.of_step = for_ever  # type: ignore[method-assign]
    task, planner = in_session(), Seen()
    done = await run(runner, task, planner=planner, memory=memory, governor=governor)
    assert done.result == "done"
    assert len(planner.memories[0]) == (4 if where == "recall" else 0)
    assert len(await said(runner, task, "memory.failed")) == (where == "of_step")


@pytest.mark.parametrize("place", ["recall", "propose", "of_step", "of_end"])
async def test_a_kill_at_any_wait_for_memory_ends_the_run_and_writes_nothing_more(
    runner: Runner, place: str
) -> None:
    reached, memory = asyncio.Event(), InMemoryMemory()

    async def hang(*_: Any) -> Any:
        reached.set()
        await asyncio.Event().wait()

    governor = SessionMemoryGovernor()
    setattr(memory if place in ("recall", "propose") else governor, place, hang)
    options: Any = {"memory": memory, "governor": governor, "principal": ANN}
    async with runner.host(ADD, FinalAnswer("done"), **options) as host:
        task = in_session()
        await host.dispatch(task)
        await reached.wait()
        await host.kill(task.id)
        assert (await host.wait(task.id)).status is TaskStatus.CANCELLED
    assert len((await memory.export(MONDAY))["items"]) == (1 if place == "of_end" else 0)
    assert await said(runner, task, "memory.failed") == []
    assert (await runner.events(task))[-1].type == "task.killed"


@pytest.mark.parametrize("place", ["recall", "propose", "of_step", "of_end"])
async def test_a_crash_at_any_wait_for_memory_leaves_what_an_undisturbed_run_leaves(
    runner: Runner, crash: Crash, place: str
) -> None:
    reached, memory = asyncio.Event(), InMemoryMemory()

    async def hang(*_: Any) -> Any:
        reached.set()
        await asyncio.Event().wait()

    governor, task = SessionMemoryGovernor(), in_session()
    broken = memory if place in ("recall", "propose") else governor
    setattr(broken, place, hang)
    options: Any = {"memory": memory, "governor": governor, "principal": ANN}
    host = runner.mortal(ADD, FinalAnswer("done"), **options)
    await host.dispatch(task)
    await reached.wait()
    await crash(host)
    delattr(broken, place)
    async with runner.host(ADD, FinalAnswer("done"), **options) as second:
        assert (await second.wait(task.id)).result == "done"
    items = (await memory.export(MONDAY))["items"]
    assert [(item["id"], item["text"]) for item in items] == [
        (f"{task.id}:0:0", 'add({"a":1,"b":2}) gave 3'),
        (f"{task.id}:2:0", "Asked: do it\nAnswered: done"),
    ]
    assert await said(runner, task, "memory.lost") == []


async def test_many_runs_of_one_session_share_a_memory_and_keep_it_in_order(
    runner: Runner,
) -> None:
    """Side by side they may learn the same twice; the next one to learn it makes it one again."""
    memory = EmbeddingMemory(Turning(HashingEmbedder(64)))
    governor = SessionMemoryGovernor(max_items=20)
    script = [ToolCall("add", {"a": n, "b": n}) for n in range(5)]
    options: Any = {"memory": memory, "governor": governor, "principal": ANN}
    async with runner.host(*script, FinalAnswer("done"), **options) as host:
        tasks = [in_session() for _ in range(12)]
        done = await asyncio.gather(*(host.run(task) for task in tasks))
        assert [task.result for task in done] == ["done"] * 12
        assert len((await memory.export(MONDAY))["items"]) == 12 * 6
        assert (await host.run(in_session())).result == "done"
    keys = [hit.item.key for hit in await memory.recall(Query(MONDAY, limit=100))]
    assert len(set(keys)) == len(keys) == 6
    for task in tasks:
        assert await said(runner, task, "memory.lost") == []
        assert await said(runner, task, "memory.failed") == []


class Turning:
    """An embedder that lets others go first."""

    def __init__(self, real: HashingEmbedder) -> None:
        self._real = real

    async def embed(self, texts: Sequence[str]) -> Any:
        await asyncio.sleep(0)
        return await self._real.embed(texts)
