"""Receipt: the effect of one verb of a Host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentic_kernel import Task

Effect = Literal["transition", "requested", "withdrawn", "claimed", "posted", "none"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """The effect of one verb, on which its caller may rely.

    R3: of several callers that race for one transition, exactly one gets ``changed=True``: the
    caller whose own commit succeeded.
    """

    snapshot: Task
    """The Task after the verb."""
    changed: bool
    """True if this verb's own commit changed the Task's status."""
    version: int
    """The record's version; `Host.resume` takes it as ``at_version`` to answer this very pause."""
    effect: Effect = "none"
    """``transition``; ``requested`` (a pause waits for the next safe point); ``withdrawn`` (a
    resume took back a waiting pause and dropped its own extra); ``claimed`` (this Host now runs
    the Task); ``posted`` (a decision waits in the inbox, and the Task's status is as before);
    ``none``."""
