"""Following: the Tasks of an execution's remote steps, dispatched and watched for its run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Any, Final

from agentic_kernel import CannotStart, KernelError, Task, TaskExists, TaskNotFound, TaskStatus
from agentic_kernel_engine import Principal, StoreError
from agentic_kernel_engine.faults import said

from ..identity import tool_name
from ..mailbox import Mailbox
from ..parts import Parts
from ..tools.jobs import ASSIGNED, RETRIED, STARTED, TIMED_OUT
from .encoding import TOOL_KIND, text_of
from .requests import ChildEnded, ChildMoved, Request
from .state import Step
from .step import OVER
from .taking import held

_log = logging.getLogger(__name__)
_TRIGGERS: Final = {ASSIGNED: "dispatch", STARTED: "start", RETRIED: "retry"}
_AGAIN: Final = 0.5


class Following:
    """The Tasks of the remote steps of one execution.

    A Task has the step's id, so a second dispatch of it finds it stored and does nothing.

    A Task that runs in this process tells its follower directly, so nothing is read from the store.

    Args:
        parts: The parts that the server shares.
        parent: The execution.
        principal: The principal of the execution, for which its remote steps act.
        box: Gets what happens to the Tasks.
    """

    def __init__(
        self, parts: Parts, parent: Task, principal: Principal, box: Mailbox[Request]
    ) -> None:
        self._parts = parts
        self._parent = parent
        self._principal = principal
        self._box = box
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self.ending: set[str] = set()
        """The steps whose time is over, and whose Tasks are being ended."""

    async def ended(self, step_ids: Collection[str]) -> list[ChildEnded]:
        """The ends of those steps whose Tasks have ended.

        Raises:
            StoreError: The store failed.
        """
        found = await self._parts.tools.get_many(list(step_ids))
        return [end_of(task) for task in found.values() if task.status.terminal]

    def begin(self, step: Step) -> None:
        """Dispatch the Task of a step, unless it is stored, and follow it to its end."""
        if step.id not in self._tasks:
            self._tasks[step.id] = self._parts.start(self._follow(self._child(step)))

    def time_out(self, step_id: str) -> None:
        """End the Task of a step whose time is over, and tell the run how the Task has ended.

        If its result was stored before, that is its end. A Task that a person pauses is ended after
        its resume.
        """
        if step_id not in self.ending:
            self.ending.add(step_id)
            followed = self._tasks.get(step_id)
            self._tasks[step_id] = self._parts.start(self._time_out(step_id, followed))

    async def _time_out(self, step_id: str, followed: asyncio.Task[Any] | None) -> None:
        if followed is not None and not followed.done():
            followed.cancel()  # It would tell of the kill.
            await asyncio.wait({followed})
        late = ChildEnded(step_id, "time_out", error=OVER)
        while True:
            try:
                record = await self._parts.store.load(step_id)
                if held(record):
                    # A person pauses it, so its time takes effect at the resume.
                    await asyncio.sleep(_AGAIN)
                    continue
                task = record.task
                if not task.status.terminal:
                    task = (await self._parts.tools.kill(step_id)).snapshot
                ended = end_of(task)
            except TaskNotFound:
                ended = late
            except KernelError as fault:
                _log.warning("step %s cannot be ended yet: %s", step_id, said(fault))
                await asyncio.sleep(_AGAIN)
                continue
            self._box.put(late if ended.trigger == "cancel" else ended)
            return

    def end(self, step_id: str, *, cancel: bool) -> None:
        """Follow a Task no more.

        Args:
            cancel: True to kill it, because its step has ended without it.
        """
        self.ending.discard(step_id)
        task = self._tasks.pop(step_id, None)
        if task is None:
            return
        if cancel and not task.done():
            self._parts.start(_kill(self._parts, step_id))
        task.cancel()

    def abandon(self) -> None:
        """Kill the Tasks that have not ended, because the execution has."""
        for step_id in list(self._tasks):
            self.end(step_id, cancel=True)

    def stop(self) -> None:
        """Follow nothing more; the Tasks go on."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    def _child(self, step: Step) -> Task:
        job = {
            "execution_id": self._parent.id,
            "step_id": step.id,
            "tool_id": step.tool,
            "arguments": step.arguments,
            "deadline": step.deadline,
        }
        return Task.new(
            summary=f"the remote step {step.id}",
            instructions=text_of(job),
            runtime_kind=TOOL_KIND,
            agent_name=tool_name(step.tool),
            id=step.id,
        )

    async def _follow(self, child: Task) -> None:
        if await self._followed_here(child):
            return
        while True:
            try:
                async for event in self._parts.tools.stream(child.id):
                    moved = moved_by(child.id, event.type, event.data)
                    if moved is not None:
                        self._box.put(moved)
                self._box.put(end_of(await self._parts.tools.get(child.id)))
                return
            except TaskNotFound:
                self._box.put(ChildEnded(child.id, "fail", error="the step's Task is gone"))
                return
            except StoreError as fault:
                _log.warning("step %s cannot be followed yet: %s", child.id, said(fault))
                await asyncio.sleep(_AGAIN)

    async def _followed_here(self, child: Task) -> bool:
        """Dispatch a Task here, and follow it while it runs here; False if it has not ended."""
        ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def tell(news: ChildMoved | ChildEnded | None) -> None:
            if ended.done():
                return
            if news is not None:
                self._box.put(news)
            if not isinstance(news, ChildMoved):
                ended.set_result(news is not None)

        followers = self._parts.followers
        followers[child.id] = tell
        try:
            return await self._dispatch(child) and await ended
        finally:
            if followers.get(child.id) is tell:
                del followers[child.id]

    async def _dispatch(self, child: Task) -> bool:
        """Dispatch a Task; False if it was dispatched before."""
        while True:
            try:
                await self._parts.tools.spawn(child, self._parent.id, principal=self._principal)
                return True
            except TaskExists:
                return False
            except (StoreError, CannotStart) as fault:
                _log.warning("step %s cannot be dispatched yet: %s", child.id, said(fault))
                await asyncio.sleep(_AGAIN)


def moved_by(step_id: str, type: str, data: Mapping[str, Any]) -> ChildMoved | None:
    """An event of a remote step's Task, as its execution hears of it; None if it does not."""
    trigger = _TRIGGERS.get(type)
    if trigger is None:
        return None
    shown = {key: data[key] for key in ("attempt", "runner_id", "error", "delay") if key in data}
    return ChildMoved(step_id, trigger, int(data.get("attempt", 1)), shown)


def end_of(task: Task) -> ChildEnded:
    """The end of a remote step, as its execution hears of it."""
    if task.status is TaskStatus.SUCCESS:
        return ChildEnded(task.id, "succeed", task.result)
    if task.status is TaskStatus.CANCELLED:
        return ChildEnded(task.id, "cancel", error="the step was cancelled")
    failure = task.failure
    assert failure is not None
    trigger = "time_out" if failure.code == TIMED_OUT else "fail"
    return ChildEnded(task.id, trigger, error=failure.message)


async def _kill(parts: Parts, task_id: str) -> None:
    try:
        await parts.tools.kill(task_id)
    except TaskNotFound:
        pass
    except KernelError as fault:
        _log.warning("step %s could not be cancelled: %s", task_id, said(fault))
