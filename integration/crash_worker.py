"""The processes of a crash trial: one that kills itself, and those that go on after it.

``python -m integration.crash_worker`` is the template of them all. It reads one JSON list of
orders a line, forks a process for each, lets them begin at the same moment, waits for all, and
answers with their exit codes. What a process says goes to a file of its own, one JSON list a line:
what, which Task, and a value. Nothing is said that was not acknowledged to the process before.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, NoReturn, TypedDict, cast

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Job, Store

from .crash_points import ANSWER, WORK, CutStore, Knife, expire, open_store

VICTIM: Final = "victim"
PATIENCE: Final = 30
"""Seconds after which a process counts as stuck and is ended by the system."""
SHORT: Final = ("short-0", "short-1", "short-2")
"""Tasks of one step that have ended when the long one begins; all but the last are pruned."""
LONG: Final = "long"
STEPS: Final = 6
PAUSES: Final = (1, 4)
"""Steps of the long Task that ask for a pause, honoured by the commit that observes them."""


class Order(TypedDict):
    """The order to one process."""

    name: str
    """`VICTIM`, or an heir's name."""
    kind: str
    """Which store."""
    folder: str
    """The folder of the trial."""
    point: str | None
    """Where the victim kills itself; None for nowhere."""
    at: int
    """At which passing of that point."""
    dead: str
    """The name of the victim's Host, for its heirs."""


Life = Callable[[Any], Coroutine[Any, Any, None]]
"""The work of a process on its order."""


class Worker:
    """One process: a Host on the trial's store, and the substrate that it runs.

    Each step of a Task appends one line to the file of effects, which is not idempotent. It is
    prepared by a commit before, and observed by the commit after. Who finds a step prepared and
    not observed cannot know whether it happened: it is marked indeterminate, never done again.
    """

    def __init__(self, order: Order) -> None:
        self.name = order["name"]
        self.folder = Path(order["folder"])
        self.knife = Knife(order["point"], order["at"])
        if self.name == VICTIM:
            self.store = open_store(order["kind"], self.folder, self.knife)
            store = cast("Store", CutStore(self.store, self.knife))
        else:
            self.store = store = open_store(order["kind"], self.folder)
        self.host = Host(self, store, claims=False, interval=0.02)

    async def execute(self, job: Job) -> Any:
        """Do the steps that are left; the result says which were observed and which were not."""
        task = job.task.id
        state = job.state or {"observed": [], "indeterminate": []}
        if "prepared" in state:
            step = state.pop("prepared")
            state["indeterminate"].append(step)
            await job.commit(state, [self._event("indeterminate", step)])
            self.answered("indeterminate", task, step)
        begun = len(state["observed"]) + len(state["indeterminate"])
        for step in range(begun, int(job.task.instructions)):
            await job.commit({**state, "prepared": step}, [self._event("prepared", step)])
            self.answered("prepared", task, step)
            self.knife.passes(WORK)
            self._effect(task, step)
            self.knife.passes(WORK)
            if task == LONG and step in PAUSES:
                await self.host.pause(task)
                self.answered("pause", task)
            state["observed"].append(step)
            await job.checkpoint(state, [self._event("observed", step)])
            self.answered("observed", task, step)
        return state

    async def work(self) -> None:
        """Run the short Tasks, then the long one; prune while it runs."""
        say("host", "", self.host.name)
        async with self.host:
            for task_id in SHORT:
                await self._dispatch(task_id, 1)
                await self._to_its_end(task_id)
            await self._dispatch(LONG, STEPS)
            await self.host.wait(LONG, TaskStatus.PAUSED)
            await self._resume(LONG)
            await self._prune()
            await self._to_its_end(LONG)
        say("passed", "", self.knife.passed)

    async def go_on(self, dead: str) -> None:
        """Take over what a dead Host left, and see every Task to its end."""
        say("host", "", self.host.name)
        if (self.folder / "state.db").exists():
            expire(self.folder, dead)
        async with self.host:
            for task_id in await self.host.recover():
                self.answered("claimed", task_id)
            found = await self.host.find()
            await asyncio.gather(*(self._to_its_end(task.id) for task in found))

    def answered(self, what: str, task_id: str, value: Any = None) -> None:
        """Say what was acknowledged to this process, if it is still there to say it."""
        self.knife.passes(ANSWER)
        say(what, task_id, value)

    async def _dispatch(self, task_id: str, steps: int) -> None:
        task = Task.new(id=task_id, summary="", instructions=str(steps), runtime_kind="steps")
        await self.host.dispatch(task)
        self.answered("dispatched", task_id)

    async def _to_its_end(self, task_id: str) -> None:
        """Resume the Task whenever it is paused, until it is terminal."""
        while not (await self.host.wait(task_id, TaskStatus.PAUSED)).status.terminal:
            await self._resume(task_id)
        self.answered("ended", task_id)

    async def _resume(self, task_id: str) -> None:
        """Answer the pause that the Task is in, if nobody else does."""
        record = await self.host.record(task_id)
        extra = f"{self.name} at {record.version}"
        receipt = await self.host.resume(task_id, extra, at_version=record.version)
        if receipt.changed:
            self.answered("resumed", task_id, [record.version, extra])

    async def _prune(self) -> None:
        """Remove every short Task but the last."""
        *gone, last = SHORT
        bound = (await self.host.get(last)).ended_at
        assert bound is not None
        for task_id in gone:
            say("pruning", task_id)
        removed = await self.host.store.prune(bound)
        assert removed == len(gone), f"{removed} Tasks were pruned, not {len(gone)}"
        for task_id in gone:
            self.answered("pruned", task_id)

    def _event(self, what: str, step: int) -> dict[str, Any]:
        return {"type": f"step.{what}", "step": step, "by": self.name}

    def _effect(self, task: str, step: int) -> None:
        append(self.folder / "effects", f"{task} {step}\n")


def append(path: Path, line: str) -> None:
    """Append one line in one write."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, line.encode())
    os.close(fd)


def say(what: str, task_id: str = "", value: Any = None) -> None:
    """Write one line to the standard output, in one write."""
    os.write(1, (json.dumps([what, task_id, value]) + "\n").encode())


async def live(order: Order) -> None:
    """Be the process that is ordered."""
    worker = Worker(order)
    await (worker.work() if worker.name == VICTIM else worker.go_on(order["dead"]))
    worker.store.close()


def begin(order: Order, gate: int, live: Life) -> NoReturn:
    """Become that process once the gate is open; never returns."""
    code = 1
    try:
        signal.alarm(PATIENCE)
        folder = Path(order["folder"])
        for fd, path in ((0, Path(os.devnull)), (1, folder / f"{order['name']}.said"),
                         (2, folder / f"{order['name']}.trouble")):  # fmt: skip
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), fd)
        os.read(gate, 1)
        asyncio.run(live(order))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def start(orders: list[Order], live: Life) -> list[int]:
    """Run these processes, all at once; returns their exit codes, negative for a signal."""
    gate, opener = os.pipe()
    started = []
    for order in orders:
        process = os.fork()
        if process == 0:
            os.close(opener)
            begin(order, gate, live)
        started.append(process)
    os.close(gate)
    os.close(opener)  # nobody can write to the pipe any more: whoever reads from it goes on
    return [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in started]


def serve(live: Life) -> None:
    """Be the template of processes that live such a life, until the input ends."""
    for line in sys.stdin:
        print(json.dumps(start(json.loads(line), live)), flush=True)


if __name__ == "__main__":
    serve(live)
