"""Random histories of one Task: several hosts, callers, crashes and slow writes.

What must hold in each: a reader never sees the Task run backwards, every step of the work is on
record once, every extra that was acknowledged is there once and no other is, of the transitions
that were acknowledged each happened, nothing is written after the end, and nobody is stuck.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from agentic_kernel import IllegalTransition, Task, TaskStatus
from agentic_kernel.invariants import check, follows
from agentic_kernel_engine import Host, Job, Record

from ..conftest import Crash
from ..crashing import Line
from ..histories import JitteryStore, play

STEPS = 6


class Walk:
    """One history: the substrate, the callers, and what they were told."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.store = JitteryStore(self.chance)
        self.task = Task.new(summary="", instructions="", runtime_kind="test", id=f"task-{seed}")
        self.acknowledged: list[str] = []
        self.offered: list[str] = []
        self.changes: Counter[str] = Counter()
        self.seen: list[Task] = []
        self.runs: Counter[str] = Counter()
        """The number of times that a run began, by its owner."""

    async def execute(self, job: Job) -> Any:
        self.runs[job._run.owner] += 1
        step = job.state or 0
        swallows = self.chance.random() < 0.2
        while step < STEPS:
            job.emit({"type": "run.delta", "text": f"<{step}>"})
            try:
                for _ in range(self.chance.randrange(5)):
                    await asyncio.sleep(0)
                step += 1
                write = job.checkpoint if self.chance.random() < 0.7 else job.commit
                await write(step, [{"type": "test.step", "n": step}])
            except asyncio.CancelledError:
                if not swallows:
                    raise
                swallows = False
        return "done"

    async def caller(self, host: Host, number: int) -> None:
        for turn in range(self.chance.randrange(1, 6)):
            verb = self.chance.choice(
                ["pause", "pause", "resume", "resume", "resume", "kill", "complete", "claim"]
                if self.chance.random() < 0.3
                else ["pause", "resume", "resume", "read"]
            )
            await asyncio.sleep(0)
            if verb == "read":
                self.seen.append(await host.get(self.task.id))
                continue
            extra = f"{number}.{turn}"
            if verb == "resume":
                self.offered.append(extra)
                receipt = await host.resume(self.task.id, extra)
                if receipt.changed:
                    self.acknowledged.append(extra)
            elif verb == "complete":
                try:
                    receipt = await host.complete(self.task.id, extra)
                except IllegalTransition:
                    continue
            else:
                receipt = await getattr(host, verb)(self.task.id)
            if receipt.changed:
                self.changes[verb] += 1
            after = await host.get(self.task.id)
            assert follows(receipt.snapshot, after), "a caller did not read its own write"

    async def watch(self) -> None:
        last = await self.store.load(self.task.id)
        while not last.task.status.terminal:
            record = await self.store.load(self.task.id)
            check(record.task)
            assert record.version >= last.version
            assert follows(last.task, record.task), (last.task, record.task)
            last = record

    async def run(self, crash: Callable[[Host], Any]) -> None:
        def host() -> Host:
            return Host(self, Line(self.store), interval=0.001, grace=0, unwind_timeout=0.05)

        hosts = [host() for _ in range(3)]
        await hosts[0].dispatch(self.task)
        watch = asyncio.create_task(self.watch())
        callers = [
            asyncio.create_task(self.caller(hosts[n % 3], n))
            for n in range(self.chance.randrange(6))
        ]
        await asyncio.gather(*callers)
        for doomed in hosts[: self.chance.randrange(3)]:
            await crash(doomed)
        survivor = hosts[-1]
        while not (await survivor.wait(self.task.id, TaskStatus.PAUSED)).status.terminal:
            self.offered.append("last")
            if (await survivor.resume(self.task.id, "last")).changed:
                self.acknowledged.append("last")
        await watch
        final = await survivor.record(self.task.id)
        events = [event async for event in survivor.stream(self.task.id)]
        for each in hosts:
            await each.close()
        assert (await self.store.load(self.task.id)) == final, "written after the end"
        self.judge(final, events)

    def judge(self, final: Record, events: list[Any]) -> None:
        steps = [event.data["n"] for event in events if event.type == "test.step"]
        assert steps == sorted(set(steps)), "a step is on record twice or out of order"
        assert steps == list(range(1, len(steps) + 1)), "a step was lost"
        extras = Counter(final.task.supplements)
        assert extras == Counter(self.acknowledged), "extras lost, doubled or invented"
        kinds = Counter(event.type for event in events)
        ends = sum(kinds[f"task.{end}"] for end in ("completed", "failed", "killed"))
        assert ends == 1
        assert kinds["task.resumed"] == len(self.acknowledged)
        if final.task.status is TaskStatus.SUCCESS and final.task.result == "done":
            assert len(steps) == STEPS
        assert all(follows(seen, final.task) for seen in self.seen)
        assert final.task.failure is None, final.task.failure
        assert set(self.runs.values()) <= {1}, "a run began twice"


@pytest.mark.rule("R1")
async def test_random_histories_lose_nothing_and_do_nothing_twice(crash: Crash) -> None:
    await play(range(200), lambda seed: Walk(seed).run(crash))


@pytest.mark.torture
@pytest.mark.rule("R1")
async def test_ten_thousand_random_histories(crash: Crash) -> None:
    await play(range(10_000, 20_000), lambda seed: Walk(seed).run(crash))
