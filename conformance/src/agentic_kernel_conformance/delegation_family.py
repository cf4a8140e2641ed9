"""Family: a substrate on which Tasks give work to others, and on which those others do it.

A parent lends its `Job` to the test, and waits for whatever the test has it wait for. The
instructions of a child are a script: ``run`` (until stopped), ``ask`` (people, for four decisions,
two at a time; its result is what it was told) and ``refuse``, which cannot be started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Job
from agentic_kernel_engine.plans.reasons import WAITING_FOR

KIND: Final = "kit"
"""The runtime kind of every parent."""
RUN: Final = "run"
ASK: Final = "ask"
REFUSE: Final = "refuse"
ASKED: Final = (("one", "two"), ("three", "four"))
"""The digests that a child asks for, in the order in which it does."""
_PARENT: Final = "give work to others"
_LOOK: Final = 0.001
"""Seconds between two safe points of a child."""

Waiting = Callable[[Job], Awaitable[Any]]


def decision(digest: str) -> dict[str, Any]:
    """What somebody decided about what a child asked for."""
    return {"type": "engine/approval", "digest": digest, "granted": True, "by": "ann", "why": "so"}


class Parent:
    """A running Task, and what a test does in its name.

    Attributes:
        task: As it was dispatched.
        job: Its run's hold on it.
    """

    job: Job

    def __init__(self, agent: str | None) -> None:
        self.task = Task.new(
            summary="a parent", instructions=_PARENT, runtime_kind=KIND, agent_name=agent
        )
        self.runs = asyncio.Event()
        self._waits: asyncio.Future[Waiting] = asyncio.get_running_loop().create_future()

    def wait_for(self, waiting: Waiting) -> None:
        """Have the run itself wait, in place of a task of the test."""
        self._waits.set_result(waiting)

    async def live(self, job: Job) -> Any:
        """The run."""
        self.job = job
        self.runs.set()
        waiting = await self._waits
        return (await waiting(job)).id


class Family:
    """The substrate of parents and of their children."""

    def __init__(self) -> None:
        self.parents: dict[str, Parent] = {}
        self.started: list[str] = []
        """The ids of the children that were begun, once for each time."""

    async def accept(self, task: Task) -> None:
        """Refuse what says that it is to be refused."""
        if task.instructions == REFUSE:
            raise CannotStart("this child is not to be started", task.id)

    async def execute(self, job: Job) -> Any:
        """Live as a parent, or follow the script of a child."""
        parent = self.parents.get(job.task.id)
        if parent is not None:
            return await parent.live(job)
        # What is there at entry; later is too late.
        inbox = tuple(job.inbox)
        if job.state is None:
            self.started.append(job.task.id)
        if job.task.instructions == ASK:
            return await _ask(job, inbox)
        while True:
            await job.checkpoint(True)
            await asyncio.sleep(_LOOK)


async def _ask(job: Job, inbox: Sequence[Mapping[str, Any]]) -> Any:
    """Use what was decided, and ask for what comes next; its end comes early if some is missing."""
    told: list[Any] = job.state or []
    for asks in ASKED:
        missing = set(asks) - {each["digest"] for each in told}
        for entry in inbox:
            if entry.get("digest") in missing:
                told.append({name: value for name, value in entry.items() if name != "id"})
                missing.remove(entry["digest"])
        if missing == set(asks):
            requests: list[dict[str, Any]] = [
                {"digest": each, "type": "tool_call", "action": {}} for each in asks
            ]
            job.note(WAITING_FOR, {"kind": "approval", "requests": requests})
            consumed = [entry["id"] for entry in inbox]
            await job.pause(told, [], "interrupt", consumed=consumed)
        if missing:
            break
    return told
