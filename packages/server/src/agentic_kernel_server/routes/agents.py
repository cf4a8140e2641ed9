"""The calls of agents: their stream, their intents, and the results of their local steps."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any, Final

from .. import identity, wire
from ..agents.consumers import Consumer, Key
from ..errors import Refused
from ..executions import requests as r
from ..executions.events import OWN_KEY
from ..executions.sending import send
from ..parts import Parts
from ..streaming.sse import EventStream
from .operation import Asked, Operation


async def stream(asked: Asked) -> Any:
    """The stream by which an agent gets executions, results, approvals and signals."""
    query: wire.AgentQuery = asked.query
    server = asked.server
    agent = identity.checked(query.agent_id, "agent_id")
    consumer = identity.checked(query.consumer_id, "consumer_id")
    key = Key(asked.caller.tenant, agent, consumer)
    server.check_open()
    return EventStream(_frames(server.parts, key), server.bounds.stream(asked.caller))


async def _frames(parts: Parts, key: Key) -> AsyncIterator[bytes]:
    consumer: Consumer = parts.agents.open(key)
    try:
        async for each in consumer.frames(parts.settings.heartbeat):
            yield each
    finally:
        parts.agents.close(consumer)


async def intent(asked: Asked) -> Any:
    """Propose a tool call, the end of the execution, or a wait for a signal."""
    body: wire.SubmitIntent = asked.body
    reply = await send(asked.server.parts, body.execution_id, asked.caller.tenant, _request(body))
    return dict(reply.unwrap())


def _request(body: wire.SubmitIntent) -> r.Sent:
    intent, session = body.intent, body.session_id
    match intent.type:
        case "invoke_tool":
            # Without a key the call is new, and may still be sent twice inside the server.
            key = intent.idempotency_key or f"{OWN_KEY}{uuid.uuid4().hex}"
            return r.Invoke(session, intent.tool_id, intent.arguments, key, intent.remote)
        case "complete":
            return r.Complete(session, intent.output)
        case "fail":
            return r.Fail(session, intent.error or "")
        case "wait":
            return r.Wait(session, intent.signal_type)
    raise Refused(
        "VALIDATION_ERROR",
        f"intent.type is {ascii(intent.type)[:60]}; use invoke_tool, complete, fail or wait",
    )


async def step_result(asked: Asked) -> Any:
    """Report the result of a local step."""
    body: wire.StepResultBody = asked.body
    request = r.StepResult(body.session_id, body.step_id, body.success, body.data, body.error or "")
    reply = await send(asked.server.parts, body.execution_id, asked.caller.tenant, request)
    reply.unwrap()
    return wire.AcceptedAnswer(True)


OPERATIONS: Final = (
    Operation("GET", "/v0/agents/stream", "agent", "Open an agent's stream", stream,
        None, wire.AgentQuery, None, streams=True),
    Operation("POST", "/v0/agents/intent", "agent", "Submit an intent", intent,
        wire.SubmitIntent, None, wire.IntentAnswer),
    Operation("POST", "/v0/agents/step-result", "agent", "Report a local step", step_result,
        wire.StepResultBody, None, wire.AcceptedAnswer),
)  # fmt: skip
"""The calls of agents."""
