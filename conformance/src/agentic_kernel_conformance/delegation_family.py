"""Family: a substrate that runs parent Tasks and their children.

A parent lends its `Job` to the test, and awaits the call that the test gives it. The instructions
of a child are a script: ``run`` runs until it is stopped; ``ask`` asks people for four decisions,
two at a time, and ends with these decisions as its result; ``refuse`` cannot be started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Job
from agentic_kernel_engine.waiting import WAITING_FOR

KIND: Final = "kit"
"""The runtime kind of every parent."""
RUN: Final = "run"
ASK: Final = "ask"
REFUSE: Final = "refuse"
ASKED: Final = (("one", "two"), ("three", "four"))
"""The digests that a child asks for, in this order."""
_PARENT: Final = "give work to others"
_LOOK: Final = 0.001
"""Seconds between two safe points of a child."""

Waiting = Callable[[Job], Awaitable[Any]]


def decision(digest: str) -> dict[str, Any]:
    """Return a decision about the request with this digest."""
    return {"type": "engine/approval", "digest": digest, "granted": True, "by": "ann", "why": "so"}


class Parent:
    """A parent Task, in whose name a test calls the Delegation.

    Attributes:
        task: The Task as it was dispatched.
        job: The Job of its run; set when the run begins.
    """

    job: Job

    def __init__(self, agent: str | None) -> None:
        self.task = Task.new(
            summary="a parent", instructions=_PARENT, runtime_kind=KIND, agent_name=agent
        )
        self.runs = asyncio.Event()
        self._waits: asyncio.Future[Waiting] = asyncio.get_running_loop().create_future()

    def wait_for(self, waiting: Waiting) -> None:
        """Let the run itself await ``waiting``, instead of an asyncio task of the test."""
        self._waits.set_result(waiting)

    async def live(self, job: Job) -> Any:
        """Run the parent: set ``job``, then await the call that `wait_for` gives."""
        self.job = job
        self.runs.set()
        waiting = await self._waits
        return (await waiting(job)).id


class Family:
    """The substrate of parents and of their children."""

    def __init__(self) -> None:
        self.parents: dict[str, Parent] = {}
        self.started: list[str] = []
        """The id of a child, once for each time that it began."""

    async def accept(self, task: Task) -> None:
        """Refuse a Task whose instructions are ``refuse``."""
        if task.instructions == REFUSE:
            raise CannotStart("this child is not to be started", task.id)

    async def execute(self, job: Job) -> Any:
        """Run a parent, or the script of a child."""
        parent = self.parents.get(job.task.id)
        if parent is not None:
            return await parent.live(job)
        # Only decisions that are there at entry count: `tell` delivers before the child goes on.
        inbox = tuple(job.inbox)
        if job.state is None:
            self.started.append(job.task.id)
        if job.task.instructions == ASK:
            return await _ask(job, inbox)
        while True:
            await job.checkpoint(True)
            await asyncio.sleep(_LOOK)


async def _ask(job: Job, inbox: Sequence[Mapping[str, Any]]) -> Any:
    """Use the decisions and ask for the next two; end early if only one of the two is there."""
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
