"""A child asks people, and the power is cut: after every single commit, or on an answer's way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from agentic_kernel import KernelError, Task, TaskStatus
from agentic_kernel_engine import Host, Record

from ..conftest import Crash, TappedStore
from ..crashing import Line
from ..families import WAYS, Family, approval, asks
from ..scripting import World, new_task

ANSWERS = {"which?": "this", "and then?": "that"}


async def decide(host: Host, task: Task, said: set[str], whom: str) -> Task:
    """Be the person who decides once about all that the root asks for, until it has ended.

    Args:
        said: Digests of what is decided, durably.
        whom: Where to decide: ``root``, or ``leaf`` for the Task that asks.
    """
    while True:
        now = await host.get(task.id)
        if now.status.terminal:
            return now
        note: Any = now.metadata.get("engine/waiting_for")
        if now.status is TaskStatus.PAUSED and note is not None:
            for each in note.get("requests", [note]):
                if each["digest"] in said:
                    continue
                verdict = approval(each["digest"], True)
                if note["kind"] == "question":
                    text = ANSWERS[note["question"]]
                    verdict = {"type": "engine/answer", "digest": each["digest"], "text": text}
                with suppress(KernelError):
                    await host.decide(task.id if whom == "root" else each["task"], verdict)
                    said.add(each["digest"])
        await asyncio.sleep(0.002)


async def cut_short(
    family: Family,
    store: TappedStore,
    at: int,
    crash: Crash,
    task: Task,
    said: set[str],
    whom: str,
) -> bool:
    """Run up to the commit with this number, then have everybody die; False if it ends first."""
    reached, gone = asyncio.Event(), asyncio.Event()
    left = at

    async def cut(record: Record) -> None:
        nonlocal left
        left -= 1
        said.update(entry["digest"] for entry in record.inbox if "digest" in entry)
        if left <= 0:
            reached.set()
            await gone.wait()

    store.after_commit = cut
    async with family.hosts() as hosts:
        control = Host(store=Line(store))
        await hosts[0].dispatch(task)
        deciding = asyncio.create_task(decide(control, task, said, whom))
        reaching = asyncio.create_task(reached.wait())
        await asyncio.wait([deciding, reaching], return_when=asyncio.FIRST_COMPLETED)
        for each in (deciding, reaching):
            each.cancel()
        for host in (*hosts, control):
            await crash(host)
        store.after_commit = None
        gone.set()
        await asyncio.wait([deciding, reaching])
    return reached.is_set()


@pytest.mark.slow
@pytest.mark.parametrize(("work", "whom"), [("asks twice", "leaf"), ("writes a batch", "root")])
@WAYS
@pytest.mark.rule("R13")
async def test_a_power_cut_after_any_commit_loses_nothing_and_doubles_nothing(
    way: str, work: str, whom: str, crash: Crash
) -> None:
    cuts = 0
    while True:
        world, store = World(), TappedStore()
        family = Family(way, 1, world, store)
        task = new_task(instructions=work)
        said: set[str] = set()
        if not await cut_short(family, store, cuts + 1, crash, task, said, whom):
            break
        cuts += 1
        async with family.hosts() as (host, *_):
            try:
                async with asyncio.timeout(10):
                    done = await decide(host, task, said, whom)
            except TimeoutError:
                tasks = [(each.status, each.metadata) for each in await family.tasks()]
                raise AssertionError(f"after commit {cuts} nobody goes on: {tasks}") from None
        assert done.status is TaskStatus.SUCCESS, (cuts, done.failure)
        if work == "asks twice":
            assert done.result == ["this", "that"], cuts
        assert len(world.done) == len(set(world.done)), (cuts, world.done)
    assert cuts > 10


Landed = Callable[[Record], bool]


def told_child(record: Record) -> bool:
    """The child has the decision."""
    return record.parent is not None and any(e["type"] == "engine/answer" for e in record.inbox)


def child_took_it(record: Record) -> bool:
    """The child has acted on it, and asks the next thing."""
    note: Any = record.task.metadata.get("engine/waiting_for") or {}
    return record.parent is not None and note.get("question") == "and then?"


def root_has_it(record: Record) -> bool:
    """The root has been told, and nobody else has."""
    return record.parent is None and any(e["type"] == "engine/answer" for e in record.inbox)


@pytest.mark.parametrize("landed", [root_has_it, told_child, child_took_it])
@WAYS
async def test_a_crash_on_the_way_loses_no_answer_and_gives_none_twice(
    way: str, landed: Landed, world: World, crash: Crash
) -> None:
    store = TappedStore()
    family = Family(way, 1, world, store)
    task = new_task(instructions="asks twice")

    async with family.hosts() as hosts:
        await hosts[0].dispatch(task)
        first = await asks(hosts[0], task)

        reached, gone = asyncio.Event(), asyncio.Event()

        async def cut(record: Record) -> None:
            if not reached.is_set() and landed(record):
                reached.set()
                await gone.wait()

        store.after_commit = cut
        async with Host(store=store) as control:
            answering = asyncio.create_task(control.answer(task.id, "this"))
            async with asyncio.timeout(30):
                await reached.wait()
            for host in hosts:
                await crash(host)
            gone.set()
            await answering
            async with family.hosts() as (second, *_):
                note = await asks(second, task, {first["digest"]})
                assert note["question"] == "and then?"
                await control.answer(task.id, "that")
                assert (await second.wait(task.id)).result == ["this", "that"]
