"""The calls of clients: create, find and direct executions, and read their events."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from agentic_kernel import (
    CannotStart,
    InvalidValue,
    Task,
    TaskExists,
    TaskNotFound,
    TaskStatus,
)
from agentic_kernel_engine import Cursor, Event, HostClosed, Principal, Record, StoreError
from agentic_kernel_engine.events import from_stored

from .. import identity, wire
from ..errors import Refused, not_found, unavailable
from ..executions import requests as r
from ..executions.encoding import KIND, input_of, text_of
from ..executions.events import ENDS, FROM_HOST, OWN, on_wire
from ..executions.run import TIMEOUT
from ..executions.sending import load, send
from ..executions.state import decoded
from ..executions.step import WAITS_NOT
from ..executions.tables import ExecutionStatus
from ..parts import Parts
from ..streaming.sse import BEAT, Cut, EventStream, frame
from .operation import Asked, Operation

_MOST_LABELS: Final = 64
_LONGEST_LABEL: Final = 256
_PAGES: Final = 20
"""The most pages of the store that one list reads."""
_ENDED: Final = {
    TaskStatus.SUCCESS: ExecutionStatus.COMPLETED,
    TaskStatus.FAILURE: ExecutionStatus.FAILED,
    TaskStatus.CANCELLED: ExecutionStatus.CANCELLED,
}
_BY_STATUS: Final[Mapping[str, TaskStatus | None]] = {
    "completed": TaskStatus.SUCCESS,
    "failed": TaskStatus.FAILURE,
    "cancelled": TaskStatus.CANCELLED,
    "pending": None,
    "running": None,
    "blocked": None,
}
_PAGE: Final = 500
_PIECE: Final = 128 * 1024
"""The bytes of a replay that are sent as one piece."""
MOST_PAYLOAD: Final = 255 * 1024
"""The longest payload of a signal: it may have to wait in the execution's inbox."""
APPROVE: Final = "step.approve"
"""The type of the signal that resolves an approval."""


async def create(asked: Asked) -> Any:
    """Create an execution; the same idempotency key creates no second one."""
    body: wire.CreateExecution = asked.body
    parts: Parts = asked.server.parts
    tenant = asked.caller.tenant
    agent = identity.checked(body.agent_id, "agent_id")
    labels = body.labels or {}
    _check_labels(labels)
    key = body.idempotency_key or asked.headers.get("idempotency-key", "")
    metadata: dict[str, Any] = identity.encoded_labels(labels)
    if body.timeout is not None:
        if not 0 < body.timeout <= 365 * 86_400:
            raise Refused(
                "VALIDATION_ERROR",
                f"timeout is {body.timeout:g} seconds; use more than 0 and at most 31,536,000",
            )
        metadata[TIMEOUT] = body.timeout
    task = Task.new(
        summary=f"an execution of the agent {agent}",
        instructions=text_of(body.input),
        runtime_kind=KIND,
        agent_name=identity.agent_name(agent),
        id=_id(tenant, key),
        metadata=metadata,
    )
    try:
        if key:
            known = await _known(parts, task, tenant)
            if known is not None:
                return known
        await asked.server.bounds.execution(asked.caller)
        principal = Principal(asked.caller.name, tenant)
        receipt = await parts.executions.dispatch(task, principal=principal)
    except InvalidValue as wrong:
        raise Refused("VALIDATION_ERROR", str(wrong)) from wrong
    except TaskExists:
        known = await _known(parts, task, tenant)
        if known is None:
            raise not_found("execution", task.id) from None
        return known
    except CannotStart as refused:
        raise unavailable(refused) from refused
    parts.measure.count("executions_created")
    return _shown(receipt.snapshot, ExecutionStatus.PENDING, receipt.snapshot.created_at)


def _id(tenant: str, key: str) -> str:
    """The id of an execution; the same for the same key of a tenant."""
    if not key:
        return str(uuid.uuid4())
    text = text_of([tenant, key])
    return "k-" + hashlib.sha256(text.encode()).hexdigest()[:40]


async def _known(parts: Parts, task: Task, tenant: str) -> Any:
    """The execution that an earlier request with the same key created.

    Raises:
        Refused: That request asked for something else.
    """
    try:
        record = await load(parts, task.id, tenant)
    except Refused:
        return None
    before = record.task
    same = (
        before.agent_name == task.agent_name
        and before.instructions == task.instructions
        and identity.labels_of(before) == identity.labels_of(task)
        and before.metadata.get(TIMEOUT) == task.metadata.get(TIMEOUT)
    )
    if not same:
        raise Refused(
            "CONFLICT",
            "the idempotency key was used for another request; use a new key",
            {"execution_id": task.id},
        )
    return await _execution(parts, record)


def _check_labels(labels: Mapping[str, str]) -> None:
    if len(labels) > _MOST_LABELS:
        raise Refused("VALIDATION_ERROR", f"labels are {len(labels)}; use at most {_MOST_LABELS}")
    for key, value in labels.items():
        identity.checked(key, "a label's key")
        if len(value) > _LONGEST_LABEL:
            raise Refused(
                "VALIDATION_ERROR",
                f"the label {key!r} has {len(value)} characters; use at most {_LONGEST_LABEL}",
            )


async def get(asked: Asked) -> Any:
    """One execution."""
    parts: Parts = asked.server.parts
    record = await load(parts, asked.path["id"], asked.caller.tenant)
    return await _execution(parts, record)


async def _execution(parts: Parts, record: Record, alive: dict[str, bool] | None = None) -> Any:
    status = await _status(parts, record, {} if alive is None else alive)
    return _shown(record.task, status, _updated(record))


async def _status(parts: Parts, record: Record, alive: dict[str, bool]) -> ExecutionStatus:
    """The status on the wire.

    Args:
        alive: True or False for each owner that was asked about already.
    """
    status = record.task.status
    if status in _ENDED:
        return _ENDED[status]
    state = decoded(record.state)
    if state is None:
        return ExecutionStatus.PENDING
    if status is TaskStatus.RUNNING:
        owner = record.owner
        if owner is None:
            return ExecutionStatus.PENDING
        if owner not in alive:
            alive[owner] = await parts.store.alive(owner)
        if not alive[owner]:
            return ExecutionStatus.PENDING
    return state.status


def _updated(record: Record) -> datetime:
    task, state = record.task, decoded(record.state)
    moments = [task.created_at]
    if task.started_at is not None:
        moments.append(task.started_at)
    if state is not None and state.at:
        moments.append(datetime.fromtimestamp(state.at, UTC))
    if task.ended_at is not None:
        moments.append(task.ended_at)
    return max(moments)


def _shown(task: Task, status: ExecutionStatus, updated: datetime) -> wire.Execution:
    shape = _summary(task, status, updated)
    shape.input = input_of(task)
    if status is ExecutionStatus.COMPLETED:
        shape.output = task.result
    if task.failure is not None:
        shape.error = task.failure.message
    return shape


def _summary(task: Task, status: ExecutionStatus, updated: datetime) -> wire.Execution:
    return wire.Execution(
        task.id, status.value, identity.agent_id(task.agent_name), identity.labels_of(task),
        identity.shown(task.created_at), identity.shown(updated),
    )  # fmt: skip


async def find(asked: Asked) -> Any:
    """One page of executions, newest first."""
    query: wire.ListQuery = asked.query
    parts: Parts = asked.server.parts
    if not 1 <= query.limit <= 200:
        raise Refused("VALIDATION_ERROR", f"limit is {query.limit}; use 1 to 200")
    if query.status and query.status not in _BY_STATUS:
        raise Refused("VALIDATION_ERROR", f"status must be one of {', '.join(sorted(_BY_STATUS))}")
    options: dict[str, Any] = {
        "kinds": {KIND},
        "realms": {asked.caller.tenant},
        "newest": True,
        "limit": query.limit,
        "labels": identity.encoded_labels(_labels(query.label)),
    }
    if query.agent_id:
        options["agent"] = identity.agent_name(query.agent_id)
    if query.status and _BY_STATUS[query.status] is not None:
        options["status"] = _BY_STATUS[query.status]
    after = identity.place_of(query.cursor) if query.cursor else None
    found: list[wire.Execution] = []
    alive: dict[str, bool] = {}
    cursor = ""
    for _ in range(_PAGES):
        page = await parts.store.find(after=after, **options)
        for record in page:
            after = record.task.created_at, record.task.id
            cursor = identity.page_cursor(record.task)
            status = await _status(parts, record, alive)
            if query.status in ("", status.value):
                found.append(_summary(record.task, status, _updated(record)))
            if len(found) == query.limit:
                return wire.ExecutionList(found, cursor)
        if len(page) < query.limit:
            return wire.ExecutionList(found)
    return wire.ExecutionList(found, cursor)


def _labels(texts: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        key, colon, value = text.partition(":")
        if not colon or not key:
            raise Refused("VALIDATION_ERROR", f"label must be key:value; it is {ascii(text)[:60]}")
        if found.setdefault(key, value) != value:
            raise Refused("VALIDATION_ERROR", f"label {key!r} is given with two values")
    return found


async def cancel(asked: Asked) -> Any:
    """Cancel an execution."""
    parts: Parts = asked.server.parts
    id, tenant = asked.path["id"], asked.caller.tenant
    reply = await send(parts, id, tenant, r.Cancel(asked.caller.name))
    reply.unwrap()
    return await _execution(parts, await load(parts, id, tenant))


async def signal(asked: Asked) -> Any:
    """Send a signal; the signal ``step.approve`` resolves an approval."""
    body: wire.SignalBody = asked.body
    parts: Parts = asked.server.parts
    id, tenant, by = asked.path["id"], asked.caller.tenant, asked.caller.name
    kind = identity.checked(body.signal_type, "signal_type")
    length = len(text_of(body.payload))
    if length > MOST_PAYLOAD:
        raise Refused(
            "VALIDATION_ERROR",
            f"payload has {length:,} characters of JSON; the limit is {MOST_PAYLOAD:,}, so store "
            "it elsewhere and send a reference",
        )
    request: r.Sent
    if kind == APPROVE:
        asked.caller.require("approver")
        request = _approval(body.payload, by)
        await _check_approval(parts, id, tenant, request)
    else:
        asked.caller.require("client")
        request = r.Signal(kind, body.payload, by, uuid.uuid4().hex)
    reply = await send(parts, id, tenant, request, waits=False)
    return dict(reply.unwrap())


def _approval(payload: Any, by: str) -> r.Approve:
    fits = isinstance(payload, dict) and isinstance(payload.get("step_id"), str)
    if not fits or not isinstance(payload.get("approved"), bool):
        raise Refused(
            "VALIDATION_ERROR",
            "payload of step.approve must be an object with step_id (text) and approved (true or "
            "false), and may have a reason",
        )
    reason = payload.get("reason") or ""
    if not isinstance(reason, str):
        raise Refused("VALIDATION_ERROR", "payload.reason must be text")
    return r.Approve(payload["step_id"], payload["approved"], reason, by)


async def _check_approval(parts: Parts, id: str, tenant: str, request: r.Approve) -> None:
    """Refuse what the owner would refuse, because no request waits for its answer."""
    record = await load(parts, id, tenant)
    state = decoded(record.state)
    step = None if state is None else state.steps.get(request.step)
    if step is None or step.approval is None:
        made = 0 if state is None else state.made
        known = request.step in {f"{id}.{number}" for number in range(1, made + 1)}
        known = known or record.task.status.terminal
        raise Refused(
            "CONFLICT" if known else "NOT_FOUND",
            f"step {request.step[:200]!r} "
            + (WAITS_NOT if known else "does not exist in this execution"),
        )
    allowed = step.approval.approvers
    if allowed and request.by not in allowed:
        raise Refused(
            "FORBIDDEN",
            f"{request.by or 'the caller'!r} may not approve {step.tool!r}; the rule names "
            f"{', '.join(allowed)}",
        )


async def events(asked: Asked) -> Any:
    """One page of an execution's events."""
    query: wire.EventsQuery = asked.query
    parts: Parts = asked.server.parts
    if not 1 <= query.limit <= 1_000:
        raise Refused("VALIDATION_ERROR", f"limit is {query.limit}; use 1 to 1,000")
    after = _cursor(query.after_sequence)
    record = await load(parts, asked.path["id"], asked.caller.tenant)
    id = record.task.id
    shown: list[Any] = []
    while True:
        page = await parts.store.events(id, after, _PAGE)
        for cursor, text in page:
            after = cursor
            shape = await _shape(parts, id, from_stored(cursor, text))
            if shape is None:
                continue
            if len(shown) == query.limit:
                return {"events": shown, "latest_sequence": await _latest(parts, record)}
            shown.append(shape)
        if len(page) < _PAGE:
            break
    if shown:
        latest = shown[-1]["sequence"]
    else:
        latest = min(query.after_sequence, await _latest(parts, record))
    return {"events": shown, "latest_sequence": latest}


async def _latest(parts: Parts, record: Record) -> int:
    """The sequence of the last event; if the last commit wrote none, a number just after it."""
    latest = (record.version + 1) << identity.PLACES
    after = record.version - 1, 1 << identity.PLACES
    for cursor, text in await parts.store.events(record.task.id, after, _PAGE):
        if from_stored(cursor, text).type in OWN | FROM_HOST.keys():
            latest = identity.sequence(cursor)
    return latest


async def _shape(parts: Parts, task_id: str, event: Event) -> dict[str, Any] | None:
    """An event as the wire shows it; None if the wire does not show it, or it was pruned."""
    task = None
    if event.type in FROM_HOST:
        try:
            task = await parts.executions.get(task_id)
        except TaskNotFound:
            return None
    return on_wire(event, task_id, task)


def _cursor(sequence: int | None) -> Cursor | None:
    if sequence is None:
        return None
    if not 0 <= sequence <= identity.LAST_SEQUENCE:
        raise Refused(
            "VALIDATION_ERROR",
            f"the sequence must be from 0 to {identity.LAST_SEQUENCE:,}; it is {sequence}",
        )
    return identity.cursor_of(sequence)


async def stream(asked: Asked) -> Any:
    """An execution's events from a place on, and then live, until it has ended."""
    query: wire.AfterQuery = asked.query
    server, parts = asked.server, asked.server.parts
    last = asked.headers.get("last-event-id")
    after = query.after_sequence
    if last:
        if not last.isascii() or not last.isdigit() or len(last) > 19:
            raise Refused("VALIDATION_ERROR", "Last-Event-ID must be a sequence of this stream")
        after = int(last)
    cursor = _cursor(after)
    record = await load(parts, asked.path["id"], asked.caller.tenant)
    held = server.bounds.stream(asked.caller)
    return EventStream(_frames(parts, record.task.id, cursor), held)


async def _frames(parts: Parts, task_id: str, after: Cursor | None) -> AsyncIterator[bytes]:
    yield BEAT
    while True:
        try:
            page = await parts.store.events(task_id, after, _PAGE)
        except TaskNotFound:
            return  # It was pruned.
        except StoreError:
            raise Cut from None
        piece: list[bytes] = []
        size = 0
        for cursor, text in page:
            after = cursor
            shape = await _shape(parts, task_id, from_stored(cursor, text))
            if shape is None:
                continue
            piece.append(frame(shape["type"], shape, shape["sequence"]))
            size += len(piece[-1])
            if shape["type"] in ENDS:
                yield b"".join(piece)
                return
            if size >= _PIECE:
                yield b"".join(piece)
                piece, size = [], 0
        if piece:
            yield b"".join(piece)
        if len(page) < _PAGE:
            break
    async for each in _live(parts, task_id, after):
        yield each


async def _live(parts: Parts, task_id: str, after: Cursor | None) -> AsyncIterator[bytes]:
    """The events that come, with heartbeats between them, until the execution has ended."""
    told = parts.executions.stream(task_id, after)
    following = aiter(told)
    pending: asyncio.Future[Event] | None = None
    try:
        while True:
            if pending is None:
                pending = asyncio.ensure_future(anext(following))
            done, _ = await asyncio.wait({pending}, timeout=parts.settings.heartbeat)
            if not done:
                yield BEAT
                continue
            try:
                event = pending.result()
            except StopAsyncIteration:
                return
            except TaskNotFound:
                return  # It was pruned.
            except (HostClosed, StoreError):
                raise Cut from None  # Its reader asks another process, or later.
            pending = None
            shape = await _shape(parts, task_id, event)
            if shape is not None:
                yield frame(shape["type"], shape, shape["sequence"])
                if shape["type"] in ENDS:
                    return
    finally:
        if pending is not None:
            pending.cancel()
            await asyncio.wait({pending})


OPERATIONS: Final = (
    Operation(
        "POST", "/v0/executions", "client", "Create an execution", create,
        wire.CreateExecution, None, wire.Execution, 201,
    ),
    Operation(
        "GET", "/v0/executions", "client", "List executions", find,
        None, wire.ListQuery, wire.ExecutionList,
    ),
    Operation("GET", "/v0/executions/{id}", "client", "Get an execution", get,
        None, None, wire.Execution),
    Operation("POST", "/v0/executions/{id}/cancel", "client", "Cancel an execution", cancel,
        None, None, wire.Execution),
    Operation("POST", "/v0/executions/{id}/signal", "", "Send a signal", signal,
        wire.SignalBody, None, wire.StatusAnswer),
    Operation("GET", "/v0/executions/{id}/events", "client", "List events", events,
        None, wire.EventsQuery, wire.EventList),
    Operation("GET", "/v0/executions/{id}/stream", "client", "Follow events", stream,
        None, wire.AfterQuery, None, streams=True),
)  # fmt: skip
"""The calls of clients."""
