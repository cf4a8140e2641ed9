"""Shared by tests of approvals: a policy that asks people, and the requests of a Task."""

from __future__ import annotations

from typing import Any

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Host
from agentic_kernel_engine.plans.action import Action, ToolCall
from agentic_kernel_engine.plans.decision import ALLOW, Decision, require_approval
from agentic_kernel_engine.seams.planner import Context


class AskForWrites:
    """A policy that wants a person to look at every write."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        writes = isinstance(action, ToolCall) and action.tool in ("write", "put")
        return require_approval("it writes") if writes else ALLOW


def write(text: str) -> ToolCall:
    return ToolCall("write", {"text": text})


async def paused(host: Host, *, id: str) -> list[dict[str, Any]]:
    task = await host.wait(id, TaskStatus.PAUSED)
    assert task.status is TaskStatus.PAUSED
    waiting: Any = task.metadata["engine/waiting_for"]
    assert waiting["kind"] == "approval"
    return list(waiting["requests"])
