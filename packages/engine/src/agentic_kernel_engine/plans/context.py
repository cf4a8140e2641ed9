"""Context: what the planner is shown at one step. Built anew each time, never stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agentic_kernel import Task

from .limits import Remaining
from .plan import Plan
from .transcript import Entry

if TYPE_CHECKING:
    from ..seams.planner import Planner
    from ..tools.registry import Tool


class Principal:
    """On whose behalf a run acts, as the host knows it and never as a caller claims.

    Args:
        name: Who, e.g. ``user:42``.
        tenant: Whose data may be seen.
        scopes: What may be done; tools require some of them.
        trace: Id of the trace that the run belongs to.
    """

    __slots__ = ("name", "scopes", "tenant", "trace")

    def __init__(
        self,
        name: str = "",
        tenant: str = "",
        scopes: frozenset[str] = frozenset(),
        trace: str = "",
    ) -> None:
        self.name = name
        self.tenant = tenant
        self.scopes = scopes
        self.trace = trace


NOBODY: Final = Principal()
"""When the host did not say: no tenant, no scopes."""


class Context(msgspec.Struct, eq=False):
    """One step's view of the run. Middleware may change it; the Loop never reads it back.

    The sequences belong to the Loop: they are not copied for each step, so keep none of them
    beyond it.
    """

    task: Task
    step: int
    """Steps that are behind this one."""
    transcript: Sequence[Entry]
    """What was said and done, oldest first; it begins with the instructions, or before these
    with what came over from an earlier Task."""
    tools: Sequence[Tool]
    """What may be called, after capabilities and policy."""
    goals: Sequence[str]
    """The outermost first; the last one is current."""
    remaining: Remaining
    principal: Principal
    variables: dict[str, Any]
    """The host's scratch, durable with the next commit."""
    instructions: Sequence[str]
    """Beside the Task's own, from the capabilities of its Agent."""
    memories: Sequence[str]
    """What was remembered for this step."""
    output_schema: Mapping[str, Any] | None
    """What a final answer must fit, as JSON Schema; None for anything."""
    continuation: str
    """The beginning of an answer that a pause cut short; "" if there is none."""
    planner: Planner | None = None
    """Who is asked in the place of the Loop's own planner, since a `Recovery` said so."""
    failures: int = 0
    """How often the planner failed to answer at this step."""
    response: Plan | None = None
    """Set by middleware to answer in the planner's place."""
