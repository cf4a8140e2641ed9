"""Sending: a request reaches the run that owns its Task, in this process or in another one."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from agentic_kernel import IllegalTransition, InvalidValue, Task, TaskNotFound, TaskStatus
from agentic_kernel_engine import Host, HostClosed, InboxFull, Record
from agentic_kernel_engine.pause_request import pause_waits

from ..errors import Refused, not_found
from ..forwarding import Lost
from ..forwarding.frames import Kind
from ..mailbox import Left
from ..parts import Parts
from ..tools import jobs
from . import requests as r
from .encoding import KIND, TOOL_KIND, same
from .events import REPLIED
from .run import key_of
from .state import decoded
from .taking import held, take, take_again

_TRIES: Final = 1_000
"""The most times that a request looks at its Task again because the Task moved meanwhile."""
_AT_ONCE: Final = 3
"""The number of these looks that follow at once; each further one waits for a moment."""
_LONGEST: Final = 0.05
"""The longest of these waits, in seconds."""
_LOOK: Final = 1.0
"""Seconds after which a request looks again if a pause that was asked for took effect."""


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
    sending = _Sending(parts, "execution", task_id, tenant, request)
    while await sending.looks():
        run = parts.runs.get(task_id)
        if run is not None and run.tenant == tenant:
            try:
                return await run.box.ask(request, sending.named)
            except Left:
                await asyncio.sleep(0.001)
                continue
        reply = await sending.forward(parts.forwarder.owner_of(task_id))
        if reply is not None:
            return reply
        record = await load(parts, task_id, tenant)
        if record.task.status.terminal:
            return await sending.answered_before() or ended(record, request)
        reply = await sending.forward((record.owner, record.version))
        if reply is not None:
            return reply
        reply = r.answer_before(record.inbox, request) if isinstance(request, r.Approve) else None
        if reply is not None:
            return reply
        if not isinstance(request, r.Cancel) and (held(record) or pause_waits(record)):
            if waits:
                await sending.outlast(record)
            elif await _keep(parts, record, r.to_decision(request, sending.id)):
                return r.Reply.ok(status="delivered")
            continue
        key = key_of(record.task, decoded(record.state))
        here = isinstance(request, r.Cancel)  # It needs no agent, so any process can do it.
        here = here or (key is not None and parts.agents.find(key) is not None)
        # A Host that runs executions takes a paused one in the same write.
        host = parts.executions if here else parts.control
        version = await _leave(host, record, r.to_decision(request, sending.id))
        if version is None:
            continue
        if here and record.task.status is TaskStatus.RUNNING:
            await take(parts, record)
        if not waits:
            return r.Reply.ok(status="delivered")
        reply = await sending.answer(version)
        if reply is not None:
            return reply
    raise sending.restless()


async def send_job(parts: Parts, task_id: str, tenant: str, request: jobs.Sent) -> r.Reply:
    """Send a request to a remote step, and return its answer.

    Raises:
        Refused: The step does not exist or has ended, or its owner did not answer in time.
    """
    sending = _Sending(parts, "tool", task_id, tenant, request)
    while await sending.looks():
        run = parts.jobs.get(task_id)
        if run is not None and run.tenant == tenant:
            try:
                return await run.box.ask(request, sending.named)
            except Left:
                await asyncio.sleep(0.001)
                continue
        reply = await sending.forward(parts.forwarder.owner_of(task_id))
        if reply is not None:
            return reply
        record = await load(parts, task_id, tenant, TOOL_KIND)
        if record.task.status.terminal:
            return await sending.answered_before() or _ended_job(record, request)
        reply = await sending.forward((record.owner, record.version))
        if reply is not None:
            return reply
        if held(record) or pause_waits(record):
            await sending.outlast(record)
            continue
        version = await _leave(parts.control, record, jobs.to_decision(request, sending.id))
        if version is None:
            continue
        reply = await sending.answer(version)
        if reply is not None:
            return reply
    raise sending.restless()


class _Sending:
    """One request on its way to the run of its Task, under one id on every way.

    Args:
        parts: The parts that the server shares.
    """

    def __init__(
        self, parts: Parts, kind: Kind, task_id: str, tenant: str, request: r.Sent | jobs.Sent
    ) -> None:
        self._parts = parts
        self._kind: Kind = kind
        self._task_id = task_id
        self._tenant = tenant
        self._request = request
        self._until = parts.now() + parts.settings.hold
        self.id = uuid.uuid4().hex
        self._looks = 0
        self._refused_by = ""
        """The owner that did not have the run."""
        self._since: int | None = None
        """The version at which an owner was asked that was lost before it answered."""

    async def looks(self) -> bool:
        """Count a look at the Task; False after the last one.

        Raises:
            Refused: The server is stopping.
        """
        if self._parts.draining:
            raise Refused("SERVICE_UNAVAILABLE", "the server is stopping; use another one")
        self._looks += 1
        if self._looks > _AT_ONCE:
            # Many requests for one Task: each look of one is lost to the write of another.
            longest = min(_LONGEST, 0.001 * self._looks)
            await asyncio.sleep(random.uniform(0.0, longest))
        return self._looks <= _TRIES

    def restless(self) -> Refused:
        """The refusal of a request whose Task never stayed as it was when it was looked at."""
        return Refused(
            "SERVICE_UNAVAILABLE", f"{self._what} {self._task_id!r} changes hands; try again"
        )

    @property
    def _what(self) -> str:
        return "execution" if self._kind == "execution" else "step"

    @property
    def named(self) -> str:
        """The id, if the request may have been carried out already."""
        return "" if self._since is None else self.id

    async def forward(self, known: tuple[str | None, int] | None) -> r.Reply | None:
        """Ask the owner, if it is another process; None if the request goes through the store.

        Args:
            known: The owner, and a version of the Task's record; None if neither is known.
        """
        owner, version = known or (None, 0)
        if owner is None or owner == self._refused_by or self._since is not None:
            return None
        try:
            reply = await self._parts.forwarder.ask(
                owner, self._kind, self._task_id, self._tenant, self.id, self._request,
                self._until, version,
            )  # fmt: skip
        except Lost:
            self._since = version + 1
            return None
        if reply is None:
            self._refused_by = owner
        return reply

    async def answer(self, version: int) -> r.Reply | None:
        """The answer that the owner stores; None if the Task ended without one.

        Args:
            version: The version of the Task's record with the decision that carries the request.

        Raises:
            Refused: No answer came in time. The request is durable, and may be carried out later.
        """
        parts, task_id = self._parts, self._task_id
        host = parts.executions if self._kind == "execution" else parts.tools
        if self._since is not None:
            version = min(version, self._since)
        try:
            async with asyncio.timeout(max(0.0, self._until - parts.now())):
                async for event in host.stream(task_id, (version - 1, 1 << 20)):
                    if event.type == REPLIED and event.data.get("request") == self.id:
                        return r.Reply(event.data["status"], event.data["body"])
        except TimeoutError:
            hold = parts.settings.hold
            raise Refused(
                "SERVICE_UNAVAILABLE",
                f"no process that owns {task_id!r} answered in {hold:g} s; send the request again",
            ) from None
        except TaskNotFound:
            raise not_found(self._what, task_id) from None
        except HostClosed:
            raise Refused("SERVICE_UNAVAILABLE", "the server is stopping") from None
        return None

    async def outlast(self, record: Record) -> None:
        """Wait until a Task that a person pauses has moved on.

        Raises:
            Refused: It is still paused.
        """
        parts, what = self._parts, self._what
        host = parts.executions if self._kind == "execution" else parts.tools
        left = self._until - parts.now()
        if left <= 0:
            raise Refused(
                "SERVICE_UNAVAILABLE",
                f"{what} {self._task_id!r} is paused by a person; resume it, and send the request "
                "again",
            )
        paused = record.task.status is TaskStatus.PAUSED
        try:
            async with asyncio.timeout(left if paused else min(left, _LOOK)):
                await host.wait(self._task_id, TaskStatus.RUNNING if paused else TaskStatus.PAUSED)
        except TimeoutError:
            pass  # The next look says what follows.
        except TaskNotFound:
            raise not_found(what, self._task_id) from None
        except HostClosed:
            raise Refused("SERVICE_UNAVAILABLE", "the server is stopping") from None

    async def answered_before(self) -> r.Reply | None:
        """The answer that a lost owner stored before the Task ended; None if there is none."""
        return None if self._since is None else await self.answer(self._since)


async def _leave(host: Host, record: Record, decision: dict[str, Any]) -> int | None:
    """Leave a decision for the owner, and let the Task go on if the server paused it.

    Args:
        record: The record as the caller has judged it.

    Returns:
        The version of the record with the decision. None if the Task has moved on since it was
        read: a person may have paused it, and a request is no reason to go on.
    """
    with _explained():
        receipt = await host.decide(record.task.id, decision, at_version=record.version)
        return None if receipt.effect == "none" else receipt.version
    return None


async def _keep(parts: Parts, record: Record, decision: dict[str, Any]) -> bool:
    """Leave a decision that takes effect when a person lets the Task go on.

    Returns:
        False if the Task has ended meanwhile.
    """
    task_id = record.task.id
    with _explained():
        version = await parts.control.post(task_id, decision)
        if version != record.version + 1:
            # The pause may be over, and the server may have paused the Task: a post wakes no run.
            parts.start(take_again(parts, task_id))
        return True
    return False


@contextmanager
def _explained() -> Iterator[None]:
    """Explain a refusal of a decision to the client; the end of the Task is left to the caller."""
    try:
        yield
    except IllegalTransition:
        pass
    except InboxFull as full:
        raise Refused("RATE_LIMITED", str(full), retry_after=1.0) from full
    except InvalidValue as wrong:
        raise Refused("VALIDATION_ERROR", str(wrong)) from wrong


def ended(record: Record, request: r.Sent) -> r.Reply:
    """The answer about an execution that has ended: a repeated end is answered like the first."""
    task, state = record.task, decoded(record.state)
    session = None if state is None else state.session
    if isinstance(request, (r.Complete, r.Fail)):
        wanted = TaskStatus.SUCCESS if isinstance(request, r.Complete) else TaskStatus.FAILURE
        if task.status is wanted and session is not None and session.id == request.session:
            if _repeats(task, request):
                return r.Reply.ok(accepted=True)
            why = f"the execution has ended before, with another end: {_word(task)}"
            return r.Reply.refusal(Refused("CONFLICT", why))
    if isinstance(request, r.Cancel) and task.status is TaskStatus.CANCELLED:
        return r.Reply.ok()
    return r.Reply.refusal(Refused("CONFLICT", f"the execution has ended: {_word(task)}"))


def _repeats(task: Task, request: r.Complete | r.Fail) -> bool:
    """True if the end of an execution is the one that was reported before."""
    if isinstance(request, r.Complete):
        return same(task.result, request.output)
    error = "" if task.failure is None else task.failure.message
    return error == (request.error or r.NO_REASON)


def _ended_job(record: Record, request: jobs.Sent) -> r.Reply:
    """The answer about a step that has ended: a repeated report is answered like the first."""
    task, state = record.task, jobs.decoded(record.state)
    attempt = None if state is None else state.attempt
    if isinstance(request, jobs.Result) and attempt is not None and attempt.job == request.job:
        failed = task.failure
        if request.success:
            again = task.status is TaskStatus.SUCCESS and same(task.result, request.data)
        else:
            error = request.error or r.NO_MESSAGE
            again = (
                failed is not None and failed.code == jobs.TOOL_FAILED and failed.message == error
            )
        if again and request.runner in ("", attempt.runner):
            return r.Reply.ok(accepted=True)
    why = f"step {task.id!r} has ended; the report is late"
    return r.Reply.refusal(Refused("CONFLICT", why))


def _word(task: Task) -> str:
    return {
        TaskStatus.SUCCESS: "completed",
        TaskStatus.FAILURE: "failed",
        TaskStatus.CANCELLED: "cancelled",
    }[task.status]
