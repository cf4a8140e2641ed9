"""Tests of concurrent verbs on one Task, with concurrent readers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from agentic_kernel import TaskExists

from .level import Level
from .reading import PAUSED, RUNNING, TERMINAL, Reader, show
from .rules import broken, expect, in_time
from .system import Hold, SystemSuite
from .workbench import FAULT, Workbench, tolerating_paused

_RACERS = 4
_RESUMERS = 4
_READS = 1_000


class RuntimeRaces(SystemSuite):
    """The Concurrency Contract (C2, C3, C4, C6 and C7) within one process."""

    @pytest.mark.rule("C2")
    async def test_of_racing_dispatches_one_wins(self, bench: Workbench, level: Level) -> None:
        """The other dispatches raise ``TaskExists``."""
        for _ in range(level.rounds):
            task = bench.work.run_until_stopped()
            racers = (bench.dispatch(task) for _ in range(_RACERS))
            outcomes = await asyncio.gather(*racers, return_exceptions=True)
            won = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
            lost = [outcome for outcome in outcomes if isinstance(outcome, TaskExists)]
            fair = len(won) == 1 and len(lost) == _RACERS - 1
            expect(fair, "C2", f"{_RACERS} dispatches of one Task gave {outcomes!a}")
            await bench.kill(task.id)

    @pytest.mark.rule("C2", "C7")
    async def test_racing_ends_leave_one_end(self, bench: Workbench, level: Level) -> None:
        """Concurrent kill, complete, fail, pause and resume lead to one end that never changes."""
        for turn in range(level.rounds):
            task_id = await bench.dispatch_running()
            observer = bench.another_reader()
            watching = asyncio.create_task(observer.watch(task_id))
            verbs = [
                bench.system.kill(task_id),
                tolerating_paused(bench.system.complete(task_id, "completed")),
                tolerating_paused(bench.system.fail(task_id, FAULT)),
                bench.system.pause(task_id),
                bench.system.resume(task_id, bench.extra("too early")),
            ]
            turned = verbs[turn % len(verbs) :] + verbs[: turn % len(verbs)]
            await bench.within(asyncio.gather(*turned))
            ended = await bench.reader.until(task_id, *TERMINAL, rule="C2")
            await bench.within(watching)
            again = await bench.reader.get(task_id)
            expect(again == ended, "C2", f"{show(ended)} became {show(again)}")
            seen = observer.trace(task_id).latest
            expect(seen == ended, "C7", f"one saw {seen and show(seen)}, one {show(ended)}")

    @pytest.mark.feature("pauses")
    @pytest.mark.rule("C2")
    async def test_of_racing_resumes_one_wins(self, bench: Workbench, level: Level) -> None:
        """The winner's extra is appended; the extras of the other resumes are dropped."""
        task_id = await bench.dispatch_running()
        before = 0
        for turn in range(level.rounds):
            await bench.pause(task_id)
            extras = [bench.extra(f"{turn}.{index}") for index in range(_RESUMERS)]
            await bench.within(
                asyncio.gather(*(bench.system.resume(task_id, extra) for extra in extras))
            )
            read = await bench.reader.get(task_id)
            new = list(read.supplements[before:])
            expect(
                len(new) == 1 and new[0] in extras,
                "C2",
                f"{_RESUMERS} resumes of one pause appended {new!a}",
            )
            before = len(read.supplements)

    @pytest.mark.feature("pauses")
    @pytest.mark.rule("C2", "C6")
    async def test_no_extra_is_lost_doubled_or_invented(
        self, bench: Workbench, level: Level
    ) -> None:
        """Four callers resume and one pauses, until each of the four has read enough own extras."""
        task_id = await bench.dispatch_running()
        share = max(3, level.extras // 5)
        done = asyncio.Event()
        offered: set[str] = set()

        async def keep_pausing() -> None:
            while not done.is_set():
                await bench.system.pause(task_id)
                await asyncio.sleep(0)

        async def keep_resuming(name: int) -> None:
            reader, kept, turn = bench.another_reader(), set[str](), 0
            while len(kept) < share:
                if (await reader.get(task_id)).status is not PAUSED:
                    await asyncio.sleep(0.001)
                    continue
                turn += 1
                extra = bench.extra(f"{name}.{turn}")
                offered.add(extra)
                await bench.system.resume(task_id, extra)
                supplements = (await reader.get(task_id)).supplements
                lost = kept.difference(supplements)
                expect(not lost, "C2", f"extras that were seen and then vanished: {sorted(lost)}")
                if extra in supplements:
                    kept.add(extra)

        async with in_time("C2", bench.patience * 6, "resuming beside a pauser"):
            pausing = asyncio.create_task(keep_pausing())
            await asyncio.gather(*(keep_resuming(name) for name in range(_RESUMERS)))
            done.set()
            await pausing
        ended = await bench.kill(task_id)
        supplements = list(ended.supplements)
        expect(len(set(supplements)) == len(supplements), "C2", f"twice: {supplements!a}")
        invented = set(supplements) - offered
        expect(not invented, "C2", f"extras nobody offered: {sorted(invented)!a}")

    @pytest.mark.rule("C3", "C7")
    async def test_every_snapshot_is_whole_while_tasks_live_and_end(
        self, bench: Workbench, level: Level
    ) -> None:
        """Three observers read many short-lived Tasks, each observer by other methods."""
        for turn in range(level.rounds):
            task = (bench.work.succeed, bench.work.fail)[turn % 2]()
            await bench.dispatch(task)
            observers = [bench.another_reader() for _ in range(3)]
            for observer in observers:
                observer.expects(task)
            ways = (Reader.watch, _watch_many, _watch_pages)
            async with in_time("C4", bench.patience, "watching a short life"):
                await asyncio.gather(
                    *(way(o, task.id) for way, o in zip(ways, observers, strict=True))
                )
            ends = [observer.trace(task.id).latest for observer in observers]
            expect(ends[0] == ends[1] == ends[2], "C7", f"three ends of one Task: {ends!a}")

    @pytest.mark.rule("C4")
    @pytest.mark.feature("holdable")
    async def test_readers_do_not_wait_for_a_mutator_at_its_commit(
        self, bench: Workbench, hold: Hold
    ) -> None:
        """A thousand reads return while a mutator is held before its commit."""
        task_id = await bench.dispatch_running()
        async with hold():
            ending = asyncio.create_task(_returning(bench.system.complete(task_id, "held")))
            async with in_time("C4", bench.patience, f"{_READS} reads beside a held mutator"):
                for _ in range(_READS):
                    read = await bench.reader.get(task_id)
                    expect(read.status is RUNNING, "C4", f"before the commit: {show(read)}")
                    await asyncio.sleep(0)
            expect(not ending.done(), "kit", "`hold` did not keep the mutator from committing")
        await bench.within(ending)
        read = await bench.reader.get(task_id)
        expect(read.result == "held", "C6", f"after the mutator returned: {show(read)}")


async def _returning(call: Awaitable[Any]) -> Any:
    return await call


async def _watch_many(observer: Reader, task_id: str) -> None:
    status = RUNNING
    while not status.terminal:
        status = (await observer.get_many([task_id]))[task_id].status
        await asyncio.sleep(0)


async def _watch_pages(observer: Reader, task_id: str) -> None:
    """Alternate between pages and single reads, so that one trace checks the order of both."""
    while not (await observer.get(task_id)).status.terminal:
        for status in (RUNNING, *TERMINAL):
            for task in await observer.find(status=status, limit=1000):
                if task.status is not status:
                    raise broken("find", f"in a page of {status}: {show(task)}")
        await asyncio.sleep(0)
