"""Receipt: what a Host's verb did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentic_kernel import Task

Effect = Literal["transition", "requested", "withdrawn", "claimed", "none"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one verb did, as its caller may rely on it (R3).

    Of several callers that race for one transition, exactly one gets ``changed=True``: the one
    whose own commit succeeded.
    """

    snapshot: Task
    """The Task after the verb."""
    changed: bool
    """Whether this verb's own commit changed the Task's status."""
    version: int
    """The record's version; `Host.resume` takes it as ``at_version`` to answer this very pause."""
    effect: Effect = "none"
    """``transition``; ``requested`` (a pause waits for the next safe point); ``withdrawn`` (a
    resume took back a waiting pause; its extra was dropped); ``claimed`` (this Host now runs
    it); ``none``."""
