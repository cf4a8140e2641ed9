"""Context: what the planner is shown at one step. Built anew each time, never stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from agentic_kernel import Task

from .limits import Remaining
from .plan import Plan
from .transcript import Entry

if TYPE_CHECKING:
    from ..seams.planner import Planner
    from ..seams.tools import Tool


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


class Context:
    """One step's view of the run. Middleware may change it; the Loop never reads it back.

    The sequences belong to the Loop: they are not copied for each step, so keep none of them
    beyond it.
    """

    __slots__ = (
        "continuation", "failures", "goals", "instructions", "memories", "output_schema", "planner",
        "principal", "remaining", "response", "step", "task", "tools", "transcript", "variables",
    )  # fmt: skip

    def __init__(
        self,
        task: Task,
        step: int,
        transcript: Sequence[Entry],
        tools: Sequence[Tool],
        goals: Sequence[str],
        remaining: Remaining,
        principal: Principal,
        variables: dict[str, Any],
        instructions: Sequence[str],
        memories: Sequence[str],
        output_schema: Mapping[str, Any] | None,
        continuation: str,
    ) -> None:
        self.task = task
        self.step = step
        """Steps that are behind this one."""
        self.transcript = transcript
        """What was said and done, oldest first; it begins with the instructions, or before these
        with what came over from an earlier Task."""
        self.tools = tools
        """What may be called, after capabilities and policy."""
        self.goals = goals
        """The outermost first; the last one is current."""
        self.remaining = remaining
        self.principal = principal
        self.variables = variables
        """The host's scratch, durable with the next commit."""
        self.instructions = instructions
        """Beside the Task's own, from the capabilities of its Agent."""
        self.memories = memories
        """What was remembered for this step."""
        self.output_schema = output_schema
        """What a final answer must fit, as JSON Schema; None for anything."""
        self.continuation = continuation
        """The beginning of an answer that a pause cut short; "" if there is none."""
        self.planner: Planner | None = None
        """Who is asked in the place of the Loop's own planner, since a `Recovery` said so."""
        self.failures = 0
        """How often the planner failed to answer at this step."""
        self.response: Plan | None = None
        """Set by middleware to answer in the planner's place."""
