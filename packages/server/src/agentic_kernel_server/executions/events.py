"""Events: the types of the events of an execution, stored and on the wire.

A stored event becomes at most one event of the wire. The types here are stored as they are; the
events of the Host's verbs have a type of the wire each, if they have one (`FROM_HOST`).
"""

from __future__ import annotations

from typing import Any, Final

from agentic_kernel import Task
from agentic_kernel_engine import Event

from ..identity import agent_id, labels_of, sequence, shown
from .encoding import input_of

CREATED: Final = "execution.created"
"""The execution was created. Payload: ``agent_id``, ``labels``, ``input``."""
STARTED: Final = "execution.started"
"""An agent has it. Payload: ``session_id``, ``consumer_id``."""
RESET: Final = "execution.reset"
"""The agent was lost; another agent gets the execution. Payload: ``session_id``, ``reason``."""
COMPLETED: Final = "execution.completed"
"""Payload: ``output``."""
FAILED: Final = "execution.failed"
"""Payload: ``error``, ``code``."""
CANCELLED: Final = "execution.cancelled"
"""No payload."""
DENIED: Final = "intent.denied"
"""The policy denied a call. Payload: ``tool_id``, ``arguments``, ``reason``, ``rule``."""
STEP_CREATED: Final = "step.created"
"""Payload: ``tool_id``, ``arguments``, ``remote``, and ``pending_approval`` if it waits for one."""
STEP_DISPATCHED: Final = "step.dispatched"
"""Payload: ``attempt``, and ``runner_id`` for a remote step."""
STEP_STARTED: Final = "step.started"
"""Payload: ``attempt``."""
STEP_RETRIED: Final = "step.retried"
"""A new attempt begins after ``delay`` seconds. Payload: ``attempt``, ``error``, ``delay``."""
STEP_SUCCEEDED: Final = "step.succeeded"
"""Payload: ``result``."""
STEP_FAILED: Final = "step.failed"
"""Payload: ``error``."""
STEP_TIMED_OUT: Final = "step.timed_out"
"""Payload: ``error``."""
STEP_CANCELLED: Final = "step.cancelled"
"""Payload: ``error``."""
APPROVAL_RESOLVED: Final = "approval.resolved"
"""Payload: ``step_id``, ``approved``, ``by``, ``reason``."""
SIGNAL_AWAITED: Final = "signal.awaited"
"""Payload: ``signal_type``."""
SIGNAL_RECEIVED: Final = "signal.received"
"""Payload: ``signal_type``, ``payload``, ``by``."""
REPLIED: Final = "server.replied"
"""The answer to a request that reached another process; not on the wire. Data: ``request``,
``status``, ``body``."""

OWN_KEY: Final = "server:"
"""The beginning of the keys that the server gives to calls without one; not on the wire."""
FROM_HOST: Final = {
    "task.dispatched": CREATED,
    "task.completed": COMPLETED,
    "task.failed": FAILED,
    "task.killed": CANCELLED,
}
"""The events of a Host's verbs that are events of the wire."""
ENDS: Final = frozenset({COMPLETED, FAILED, CANCELLED})
OWN: Final = frozenset(
    {
        STARTED,
        RESET,
        DENIED,
        STEP_CREATED,
        STEP_DISPATCHED,
        STEP_STARTED,
        STEP_RETRIED,
        STEP_SUCCEEDED,
        STEP_FAILED,
        STEP_TIMED_OUT,
        STEP_CANCELLED,
        APPROVAL_RESOLVED,
        SIGNAL_AWAITED,
        SIGNAL_RECEIVED,
    }
)
"""The events that the substrate stores and the wire shows."""


def on_wire(event: Event, task_id: str, task: Task | None) -> dict[str, Any] | None:
    """A stored event as the wire shows it; None if the wire does not show it.

    Args:
        task: The execution's Task after the event; only an event of `FROM_HOST` needs it.
    """
    assert event.id is not None
    assert event.at is not None
    if event.type in OWN:
        kind, data = event.type, event.data
    elif event.type in FROM_HOST:
        assert task is not None
        kind = FROM_HOST[event.type]
        data = {"payload": _of_host(kind, event, task)}
    else:
        return None
    number = sequence(event.id)
    shape: dict[str, Any] = {
        "id": f"{task_id}:{number}",
        "execution_id": task_id,
        "type": kind,
        "schema_version": 1,
        "timestamp": shown(event.at),
        "payload": data.get("payload", {}),
        "sequence": number,
    }
    if data.get("step_id"):
        shape["step_id"] = data["step_id"]
    key = data.get("idempotency_key", "")
    if key and not key.startswith(OWN_KEY):
        shape["idempotency_key"] = key
    return shape


def _of_host(kind: str, event: Event, task: Task) -> dict[str, Any]:
    if kind == CREATED:
        return {
            "agent_id": agent_id(task.agent_name),
            "labels": labels_of(task),
            "input": input_of(task),
        }
    if kind == COMPLETED:
        return {"output": task.result}
    if kind == FAILED:
        return {"error": str(event.data.get("message", "")), "code": str(event.data.get("code"))}
    return {}
