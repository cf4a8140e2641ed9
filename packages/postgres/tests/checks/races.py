"""Two writers of one version, and news that is lost."""

from __future__ import annotations

import asyncio

import psycopg

from agentic_kernel import Task
from agentic_kernel_engine import Conflict, Host, Job

from ..bench import SOON, Bench
from ..proxy import Proxy
from ..records import ended, paused, running, step


async def of_two_writers_of_one_version_one_lands(bench: Bench) -> None:
    """Also where both have looked before either writes, which a lock on the rows sees to."""
    async with bench.store() as one, bench.store() as other:
        for following in (step, paused, ended):
            task_id = following.__name__
            record = running(task_id, owner="host:1")
            await one.insert(record)
            await other.load(task_id)
            ours, theirs = following(record), following(record).changed(state=b'"theirs"')
            with psycopg.connect(bench.server) as holding:
                holding.execute(f"LOCK TABLE {bench.schema}.heads IN EXCLUSIVE MODE")
                writes = asyncio.gather(
                    one.commit(record, ours), other.commit(record, theirs), return_exceptions=True
                )
                await bench.blocked(2)
            outcomes = await writes
            landed = [outcome is None for outcome in outcomes]
            assert sorted(landed) == [False, True], f"{sum(landed)} of two writes landed"
            refusal = next(outcome for outcome in outcomes if outcome is not None)
            assert isinstance(refusal, Conflict), f"the other one hears {refusal!r:.80}"
            found, right = await one.load(task_id), ours if landed[0] else theirs
            assert found == right, "stored is not what landed"


async def what_no_news_came_of_is_noticed_all_the_same(bench: Bench) -> None:
    """A kill from elsewhere while no connection held takes effect when there are some again."""
    substrate = _Waiting()
    async with (
        Proxy(bench.server) as proxy,
        bench.store(proxy.place) as here,
        bench.store() as there,
        Host(substrate, here, interval=0.05) as host,
        Host(store=there) as control,
    ):
        task = Task.new(summary="", instructions="", runtime_kind="test")
        await host.dispatch(task)
        await substrate.begun.wait()
        await proxy.lose()
        await control.kill(task.id)
        proxy.down = False
        try:
            async with asyncio.timeout(SOON):
                await substrate.ended.wait()
        except TimeoutError:
            raise AssertionError(f"a kill went unnoticed for {SOON:g} s") from None


class _Waiting:
    """Runs until it is told to end, and writes nothing meanwhile."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()

    async def execute(self, job: Job) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
