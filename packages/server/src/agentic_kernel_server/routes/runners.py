"""The calls of runners: their stream, their results, and what they offer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from agentic_kernel_engine import Principal

from .. import identity, wire
from ..agents.consumers import Key
from ..errors import Refused
from ..executions.sending import send_job
from ..runners.offers import MOST_GLOBS, is_glob
from ..runners.registry import MOST_BYTES, MOST_TOOLS
from ..streaming.sse import EventStream
from ..tools import jobs
from .operation import Asked, Operation


async def stream(asked: Asked) -> Any:
    """The stream by which a runner gets jobs."""
    query: wire.RunnerQuery = asked.query
    server = asked.server
    runner = identity.checked(query.runner_id, "runner_id")
    if "/" in runner or runner in (".", ".."):
        raise Refused(
            "VALIDATION_ERROR",
            f"runner_id is {runner!r}; it is a part of paths, so use no slash, and not . or ..",
        )
    consumer = identity.checked(query.consumer_id, "consumer_id")
    key = Key(asked.caller.tenant, runner, consumer)
    offered = [name.strip() for name in query.capabilities.split(",") if name.strip()]
    _check_tools(offered)
    server.check_open()
    frames = _frames(server, _principal(asked), key, offered)
    return EventStream(frames, server.bounds.stream(asked.caller))


async def _frames(
    server: Any, principal: Principal, key: Key, offered: list[str]
) -> AsyncIterator[bytes]:
    runners = server.parts.runners
    consumer = runners.open(key)
    opened = server.parts.start(server.registry.opened(principal, consumer))
    runners.declare(key, offered)
    try:
        async for each in consumer.frames(server.parts.settings.heartbeat):
            yield each
    finally:
        runners.close(consumer)
        server.parts.start(_closed(server, opened, consumer))


async def _closed(server: Any, opened: Any, consumer: Any) -> None:
    await opened
    await server.registry.closed(consumer)


def _principal(asked: Asked) -> Principal:
    return Principal(asked.caller.name, asked.caller.tenant)


def _check_tools(names: list[str]) -> None:
    if len(names) > MOST_TOOLS:
        raise Refused("VALIDATION_ERROR", f"{len(names)} tools are offered; use {MOST_TOOLS}")
    for name in names:
        identity.checked(name, "a tool's id")
    globs = sum(map(is_glob, names))
    if globs > MOST_GLOBS:
        raise Refused(
            "VALIDATION_ERROR",
            f"{globs} capabilities are globs; use {MOST_GLOBS} at most, and name the other tools",
        )


async def result(asked: Asked) -> Any:
    """Report the result of a job. A late result is refused, and frees the runner."""
    body: wire.JobResultBody = asked.body
    parts, runner = asked.server.parts, asked.path["id"]
    request = jobs.Result(
        body.job_id, body.success, body.data, body.error or "", body.retryable, runner,
        body.consumer_id, body.execution_id,
    )  # fmt: skip
    try:
        reply = await send_job(parts, body.step_id, asked.caller.tenant, request)
        reply.unwrap()
    finally:
        parts.runners.free(body.job_id, Key(asked.caller.tenant, runner, body.consumer_id))
    return wire.AcceptedAnswer(True)


async def started(asked: Asked) -> Any:
    """Say that a runner began with a step."""
    body: wire.StepStartedBody = asked.body
    request = jobs.Began(body.runner_id, body.execution_id)
    reply = await send_job(asked.server.parts, asked.path["id"], asked.caller.tenant, request)
    reply.unwrap()
    return wire.AcceptedAnswer(True)


async def capabilities(asked: Asked) -> Any:
    """Replace what a runner offers."""
    body: wire.CapabilitiesBody = asked.body
    _check_tools(body.tools)
    registry = asked.server.registry
    await registry.declare(asked.caller.tenant, asked.path["id"], body.tools)
    return wire.AcceptedAnswer(True)


async def publish(asked: Asked) -> Any:
    """Replace the tools that a runner publishes."""
    body: wire.PublishTools = asked.body
    runner = identity.checked(asked.path["id"], "runner_id")
    _check_tools([tool.id for tool in body.tools])
    tools = [msgspec.to_builtins(tool) for tool in body.tools]
    length = len(msgspec.json.encode(tools))
    if length > MOST_BYTES:
        raise Refused(
            "VALIDATION_ERROR",
            f"the tools have {length:,} bytes; a runner publishes {MOST_BYTES:,} at most, so "
            "shorten the descriptions and schemas, or use several runners",
        )
    count = await asked.server.registry.publish(_principal(asked), runner, tools)
    return wire.PublishedAnswer(count)


async def unregister(asked: Asked) -> Any:
    """Forget a runner."""
    await asked.server.registry.withdraw(asked.caller.tenant, asked.path["id"])
    return wire.AcceptedAnswer(True)


async def tools(asked: Asked) -> Any:
    """The tools that runners published."""
    query: wire.ToolsQuery = asked.query
    return await asked.server.registry.tools(asked.caller.tenant, query.prefix)


OPERATIONS: Final = (
    Operation("GET", "/v0/runners/stream", "runner", "Open a runner's stream", stream,
        None, wire.RunnerQuery, None, streams=True),
    Operation("POST", "/v0/runners/{id}/results", "runner", "Report a job", result,
        wire.JobResultBody, None, wire.AcceptedAnswer),
    Operation("POST", "/v0/runners/steps/{id}/started", "runner", "Report a start", started,
        wire.StepStartedBody, None, wire.AcceptedAnswer),
    Operation("POST", "/v0/runners/{id}/capabilities", "runner", "Offer tools", capabilities,
        wire.CapabilitiesBody, None, wire.AcceptedAnswer),
    Operation("POST", "/v0/runners/{id}/tools", "runner", "Publish tools", publish,
        wire.PublishTools, None, wire.PublishedAnswer),
    Operation("DELETE", "/v0/runners/{id}", "runner", "Forget a runner", unregister,
        None, None, wire.AcceptedAnswer),
    Operation("GET", "/v0/tools", "", "List published tools", tools,
        None, wire.ToolsQuery, list[wire.ListedTool]),
)  # fmt: skip
"""The calls of runners."""
