"""The processes of a crash trial of the Loop: one that kills itself, and those that go on after it.

``python -m integration.loop_crash_worker`` is the template of them all; see `crash_worker`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

from agentic_kernel import Task
from agentic_kernel_engine import Host, Loop, Store
from agentic_kernel_engine.loop import Limits

from .crash_points import Knife, open_store
from .crash_worker import VICTIM, Order, say, serve
from .loop_crash_points import (
    Journal,
    JournalledPlanner,
    Knives,
    PointedStore,
    journalled_tools,
)

TASK: Final = "task"


class LoopOrder(Order):
    """The order to one process; all processes of a trial run the same Loop."""

    shapes: list[str]
    """The steps of the Task, in their order."""
    limits: dict[str, int]


class LoopWorker:
    """One process: a Host on the trial's store, and the Loop that it runs."""

    def __init__(self, order: LoopOrder) -> None:
        folder = Path(order["folder"])
        journal = Journal(folder / "journal", order["name"])
        self.knife = Knife(order["point"], order["at"])
        self.store = open_store("file", folder)
        loop = Loop(
            JournalledPlanner(journal, order["shapes"]),
            journalled_tools(journal, self.knife),
            limits=Limits(**order["limits"]),
            middleware=[Knives(self.knife)],
        )
        store = cast("Store", PointedStore(self.store, self.knife))
        self.host = Host(loop, store, claims=False, interval=0.02)

    async def work(self) -> None:
        """Run the Task to its end, which is a good one if nobody dies."""
        say("host", "", self.host.name)
        async with self.host:
            task = Task.new(id=TASK, summary="", instructions="do it", runtime_kind="loop")
            await self.host.dispatch(task)
            say("dispatched", TASK)
            done = await self._to_its_end(TASK)
        if done.failure is not None:
            raise RuntimeError(f"the run failed: {done.failure}")
        say("passed", "", self.knife.passed)

    async def go_on(self) -> None:
        """Take over what a dead Host left, or see others do so."""
        say("host", "", self.host.name)
        async with self.host:
            for task_id in await self.host.recover():
                say("claimed", task_id)
            for task in await self.host.find():
                await self._to_its_end(task.id)

    async def _to_its_end(self, task_id: str) -> Task:
        done = await self.host.wait(task_id)
        say("ended", task_id)
        return done


async def live(order: LoopOrder) -> None:
    """Be the process that is ordered."""
    worker = LoopWorker(order)
    await (worker.work() if order["name"] == VICTIM else worker.go_on())
    worker.store.close()


if __name__ == "__main__":
    serve(live)
