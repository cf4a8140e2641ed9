"""Sending: a request reaches the run that owns its Task, in this process or in another one."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any, Final

from agentic_kernel import IllegalTransition, InvalidValue, Task, TaskNotFound, TaskStatus
from agentic_kernel_engine import Host, HostClosed, InboxFull, Record

from ..errors import Refused, not_found
from ..mailbox import Left
from ..parts import Parts
from ..tools import jobs
from . import requests as r
from .encoding import KIND, TOOL_KIND
from .events import REPLIED
from .run import key_of
from .state import decoded
from .taking import take

_TRIES: Final = 100
"""The most times that a request is sent again because the run left meanwhile."""


async def load(parts: Parts, task_id: str, tenant: str, kind: str = KIND) -> Record:
    """The record of an execution or of a remote step.

    Raises:
        Refused: It does not exist, or belongs to another tenant.
    """
    what = "execution" if kind == KIND else "step"
    try:
        record = await parts.store.load(task_id)
    except (TaskNotFound, InvalidValue):
        raise not_found(what, task_id) from None
    if record.realm != tenant or record.task.runtime_kind != kind:
        raise not_found(what, task_id)
    return record


async def send(
    parts: Parts, task_id: str, tenant: str, request: r.Sent, *, waits: bool = True
) -> r.Reply:
    """Send a request to an execution, and return its answer.

    Args:
        waits: False if the answer of another process is not waited for: the request is durable
            when this returns.

    Raises:
        Refused: The execution does not exist, or its owner did not answer in time.
    """
    until = parts.now() + parts.settings.hold
    for _ in range(_TRIES):
        _check_open(parts)
        run = parts.runs.get(task_id)
        if run is not None and run.tenant == tenant:
            try:
                return await run.box.ask(request)
            except Left:
                await asyncio.sleep(0.001)
                continue
        record = await load(parts, task_id, tenant)
        if record.task.status.terminal:
            return ended(record, request)
        key = key_of(record.task, decoded(record.state))
        here = isinstance(request, r.Cancel)  # It needs no agent, so any process can do it.
        here = here or (key is not None and parts.agents.find(key) is not None)
        id = uuid.uuid4().hex
        # A Host that runs executions takes a paused one in the same write.
        host = parts.executions if here else parts.control
        version = await _leave(host, task_id, r.to_decision(request, id))
        if version is None:
            continue
        if here and record.task.status is TaskStatus.RUNNING:
            await take(parts, record)
        if not waits:
            return r.Reply.ok(status="delivered")
        reply = await _answer(parts, parts.executions.stream, task_id, id, version, until)
        if reply is not None:
            return reply
    raise Refused("SERVICE_UNAVAILABLE", f"execution {task_id!r} changes hands; try again")


async def send_job(parts: Parts, task_id: str, tenant: str, request: jobs.Sent) -> r.Reply:
    """Send a request to a remote step, and return its answer.

    Raises:
        Refused: The step does not exist or has ended, or its owner did not answer in time.
    """
    until = parts.now() + parts.settings.hold
    for _ in range(_TRIES):
        _check_open(parts)
        run = parts.jobs.get(task_id)
        if run is not None and run.tenant == tenant:
            try:
                return await run.box.ask(request)
            except Left:
                await asyncio.sleep(0.001)
                continue
        record = await load(parts, task_id, tenant, TOOL_KIND)
        if record.task.status.terminal:
            why = f"step {task_id!r} has ended; the report is late"
            return r.Reply.refusal(Refused("CONFLICT", why))
        id = uuid.uuid4().hex
        version = await _leave(parts.control, task_id, jobs.to_decision(request, id))
        if version is None:
            continue
        reply = await _answer(parts, parts.tools.stream, task_id, id, version, until)
        if reply is not None:
            return reply
    raise Refused("SERVICE_UNAVAILABLE", f"step {task_id!r} changes hands; try again")


def _check_open(parts: Parts) -> None:
    if parts.draining:
        raise Refused("SERVICE_UNAVAILABLE", "the server is stopping; use another one")


async def _leave(host: Host, task_id: str, decision: dict[str, Any]) -> int | None:
    """Leave a decision for the owner; None if the Task has ended meanwhile."""
    try:
        return (await host.decide(task_id, decision)).version
    except IllegalTransition:
        return None
    except InboxFull as full:
        raise Refused("RATE_LIMITED", str(full), retry_after=1.0) from full
    except InvalidValue as wrong:
        raise Refused("VALIDATION_ERROR", str(wrong)) from wrong


async def _answer(
    parts: Parts, stream: Callable[..., Any], task_id: str, id: str, version: int, until: float
) -> r.Reply | None:
    """The answer that the owner stores; None if the Task ended without one.

    Raises:
        Refused: No answer came in time. The request is durable, and may be carried out later.
    """
    try:
        async with asyncio.timeout(max(0.0, until - parts.now())):
            async for event in stream(task_id, (version - 1, 1 << 20)):
                if event.type == REPLIED and event.data.get("request") == id:
                    return r.Reply(event.data["status"], event.data["body"])
    except TimeoutError:
        hold = parts.settings.hold
        raise Refused(
            "SERVICE_UNAVAILABLE",
            f"no process that owns {task_id!r} answered in {hold:g} s; send the request again",
        ) from None
    except TaskNotFound:
        raise not_found("execution", task_id) from None
    except HostClosed:
        raise Refused("SERVICE_UNAVAILABLE", "the server is stopping") from None
    return None


def ended(record: Record, request: r.Sent) -> r.Reply:
    """The answer about an execution that has ended: a repeated end is answered like the first."""
    task, state = record.task, decoded(record.state)
    session = None if state is None else state.session
    if isinstance(request, (r.Complete, r.Fail)):
        wanted = TaskStatus.SUCCESS if isinstance(request, r.Complete) else TaskStatus.FAILURE
        if task.status is wanted and session is not None and session.id == request.session:
            return r.Reply.ok(accepted=True)
    if isinstance(request, r.Cancel) and task.status is TaskStatus.CANCELLED:
        return r.Reply.ok()
    return r.Reply.refusal(Refused("CONFLICT", f"the execution has ended: {_word(task)}"))


def _word(task: Task) -> str:
    return {
        TaskStatus.SUCCESS: "completed",
        TaskStatus.FAILURE: "failed",
        TaskStatus.CANCELLED: "cancelled",
    }[task.status]
