"""Asking: what the guard is told about a call of a run. The policy and the tools tell the same."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from agentic_kernel import Task
from agentic_kernel_engine.search import LABEL

from ..grants import CapabilityRequest
from ..spec import CapabilitySpec, SafetyClass

JUSTIFICATION: Final = "justification"
"""The argument in which a model says why it changes something. No driver gets it."""


def justified(spec: CapabilitySpec) -> bool:
    """True if calls carry a justification."""
    return spec.safety is not SafetyClass.READ


def parted(spec: CapabilitySpec, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The arguments of the operation, and the justification."""
    left = dict(arguments)
    why = left.pop(JUSTIFICATION, "") if justified(spec) else ""
    return left, why if isinstance(why, str) else ""


def asked(
    spec: CapabilitySpec,
    arguments: Mapping[str, Any],
    task: Task | None,
    step: int,
    *,
    key: str = "",
    approved_by: str = "",
    ask: bool = False,
) -> CapabilityRequest:
    """The request for one call of a Task.

    The agent, the labels and the age are those of the Task, which no model writes.
    """
    if task is None:
        return CapabilityRequest(spec.name, arguments, key=key, approved_by=approved_by, ask=ask)
    since = task.started_at or task.created_at
    return CapabilityRequest(
        spec.name,
        arguments,
        task=task.id,
        key=key,
        agent=task.agent_name or "",
        labels=_labels(task),
        step_count=step,
        duration_ms=max(0, int((datetime.now(UTC) - since).total_seconds() * 1_000)),
        approved_by=approved_by,
        ask=ask,
    )


def _labels(task: Task) -> dict[str, str]:
    return {
        name.removeprefix(LABEL): value
        for name, value in task.metadata.items()
        if name.startswith(LABEL) and name not in task.noted and isinstance(value, str)
    }
