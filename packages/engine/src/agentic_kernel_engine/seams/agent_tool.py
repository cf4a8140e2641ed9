"""AgentTool: a Runtime as a tool, so that one agent can call another."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from agentic_kernel import CannotStart, Task, TaskExists, TaskNotFound, TaskStatus

from ..plans.observation import CHILD_FAILED, Observation
from ..tools.deadline import LEAST, Timed
from ..tools.exceptions import Unfinished
from ..tools.tool import Tool, ToolContext
from ..waiting import asked, surfaced
from .delegation import DelegationRefused, child_of
from .on_runtime import OnRuntime

if TYPE_CHECKING:
    from ..host.job import Job
    from ..router import Served

T = TypeVar("T")

LONGEST: Final = 2_000
"""The most of a child's failure that its parent sees, in characters."""
_ARGUMENTS: Final = {
    "type": "object",
    "properties": {
        "instructions": {"type": "string", "description": "All that is to be done, in full."},
        "summary": {"type": "string", "description": "The same in a few words."},
    },
    "required": ["instructions"],
    "additionalProperties": False,
}


class AgentTool(Tool):
    """A tool whose call runs a child Task on a Runtime, and returns the child's result.

    The id of the child follows from the key of the call, so a call that is repeated after a crash
    or a pause finds the child of the first one and waits for it (R13). If the child does not end in
    success, the observation is ``child_failed``, with the child's own code in its output. If the
    child asks people for something, the calling Task asks for it. A pause of the caller takes
    effect while the caller waits; the child goes on. A kill of the caller kills the child; see
    `OnRuntime`.

    Args:
        runtime: The Runtime of the child. If it has the caller's own store, the child's kind must
            be one that the caller's Host does not serve.
        name: Name of the tool.
        description: For the planner: what the agent is good at.
        runtime_kind: The child's runtime kind; None for the caller's.
        agent: The child's Agent, ``<scope>/<name>``.
        unmetered: As for `OnRuntime`.

    Raises:
        InvalidValue: The name is not valid for a tool.
    """

    __slots__ = ("_agent", "_kind", "delegation")

    delegation: OnRuntime
    """The place where the children of the calls run."""

    def __init__(
        self,
        runtime: Served,
        *,
        name: str,
        description: str,
        runtime_kind: str | None = None,
        agent: str | None = None,
        unmetered: bool = False,
    ) -> None:
        super().__init__(
            name, self._work, input_schema=_ARGUMENTS, description=description, effect="write",
            idempotent=True,
        )  # fmt: skip
        self.delegation = OnRuntime(runtime, unmetered=unmetered)
        self._kind = runtime_kind
        self._agent = agent

    async def _work(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        caller = context.caller
        if caller is None:
            return Observation(error=CHILD_FAILED, message="only a run of a Loop can call an agent")
        job, there = caller.job, self.delegation
        child = child_of(
            job.task, id=child_id(self.name, context.key),
            summary=arguments.get("summary", self.name), instructions=arguments["instructions"],
            kind=self._kind or job.task.runtime_kind, agent=self._agent,
        )  # fmt: skip
        try:
            child = caller.admit(job.task, child)
            await there.spawn(job, child)
            if caller.decisions:
                await there.tell(job, child.id, caller.decisions)
                caller.decisions.clear()
            task = await unless(job, caller.leaving, there.join(job, child.id))
            caller.joined = task
        except (CannotStart, DelegationRefused, TaskExists, TaskNotFound) as refused:
            return Observation(error=CHILD_FAILED, message=str(refused)[:LONGEST])
        if task is None:
            raise Unfinished(None)
        waiting = asked(task)
        if waiting is not None:
            raise Unfinished(surfaced(task, waiting))
        return task.result if task.status is TaskStatus.SUCCESS else child_failure(task)

    async def on_killed(self, caller: Task, key: str) -> None:
        """Kill the child, if any, of the call with this key; called after the caller was killed."""
        await self.delegation.on_killed(caller, child_id(self.name, key))


def child_id(tool: str, key: str) -> str:
    """The id of one call's child: the same for the same call, and different for any other."""
    return f"{tool}-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def child_failure(child: Task) -> Observation:
    """The parent's observation of a child that did not end in success."""
    code, why = child.status.value, "it was cancelled"
    if child.failure is not None:
        code, why = child.failure.code[:LONGEST], child.failure.message[:LONGEST]
    return Observation(
        {"child": child.id, "status": child.status.value, "code": code}, CHILD_FAILED,
        f"child {child.id} did not succeed ({code}): {why}",
    )  # fmt: skip


async def unless(
    job: Job, leaving: Callable[[], bool], work: Coroutine[Any, Any, T], timed: Timed | None = None
) -> T | None:
    """The outcome of a wait for children; None if the parent leaves first, which ends the wait.

    Args:
        job: The parent's job.
        leaving: Returns True if the parent leaves; called whenever there is news of the job.
        timed: The parent's clock, if `leaving` is to be called at its deadline, too.
    """
    waiting = asyncio.ensure_future(work)
    try:
        while not waiting.done() and not leaving():
            left = None if timed is None else timed.seconds_left
            late = None if left is None else max(left, LEAST)
            either: list[asyncio.Future[Any]] = [waiting, job.news()]
            await asyncio.wait(either, timeout=late, return_when=asyncio.FIRST_COMPLETED)
    finally:
        left_first = not waiting.done()
        if left_first:
            waiting.cancel()
            await asyncio.wait([waiting])
    return None if left_first and waiting.cancelled() else waiting.result()
