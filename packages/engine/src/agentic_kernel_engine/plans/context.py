"""Context: the planner's view of the run at one step. Built for each step, never stored."""

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
    """The user or program that a run acts for. The host sets it; a caller cannot claim it.

    Args:
        name: Its name, e.g. ``user:42``.
        tenant: The tenant whose data the run may see.
        scopes: Its permissions; a tool may require some of them.
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
"""The principal if the host gave none: no tenant, no scopes."""


class Context(msgspec.Struct, eq=False):
    """One step's view of the run, which Middleware may change.

    Of such changes the Loop itself uses ``response``, ``planner``, ``tools`` and ``variables``;
    the others reach only the planner. The sequences belong to the Loop, which does not copy them
    for each step: do not keep one after the step.
    """

    task: Task
    step: int
    """Number of steps before this one."""
    transcript: Sequence[Entry]
    """All that was said and done, oldest first. It begins with the instructions; if entries came
    over from an earlier Task, they stand before the instructions."""
    tools: Sequence[Tool]
    """The tools that may be called, after capabilities and policy."""
    goals: Sequence[str]
    """The outermost first; the last one is current."""
    remaining: Remaining
    principal: Principal
    variables: dict[str, Any]
    """Scratch space of the host; durable with the next commit."""
    instructions: Sequence[str]
    """Instructions of the Agent's capabilities, beside the Task's own."""
    memories: Sequence[str]
    """Texts from memory for this step."""
    output_schema: Mapping[str, Any] | None
    """JSON Schema that a final answer must fit; None if any answer fits."""
    continuation: str
    """The beginning of an answer that a pause cut short; "" if there is none."""
    planner: Planner | None = None
    """The planner that a `Recovery` chose in place of the Loop's own; None for the Loop's own."""
    failures: int = 0
    """Number of failed calls of the planner at this step."""
    response: Plan | None = None
    """An answer that middleware gives in the planner's place; None to ask the planner."""
