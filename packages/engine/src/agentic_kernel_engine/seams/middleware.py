"""Middleware: may change what goes to a model or a tool, and what comes back.

Policy decides, Observer watches, Middleware changes. A middleware is any object with some of the
hooks below; the Loop calls only those that are there, in the order in which the middlewares were
given, and those behind a call (``after_…``, ``on_run_end``) in the reverse order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, Protocol

from ..loop.context import Context
from ..loop.observation import Observation
from ..loop.plan import Plan
from .tools import Invocation


class Middleware(Protocol):
    """All the hooks; an implementation has those that it needs."""

    async def on_run_start(self, state: Any) -> None:
        """Once per run, however often it pauses or crashes; ``state`` is its `State`."""

    async def on_run_end(self, state: Any, outcome: Any) -> None:
        """Once per run, before its end is committed; ``outcome`` is its `End`."""

    async def before_model(self, context: Context) -> None:
        """Before each call of the planner; may set ``context.response`` to answer instead."""

    async def after_model(self, context: Context, plan: Plan) -> Plan | None:
        """After the answer, before its usage is counted; may return another plan."""

    async def before_tool(self, invocation: Invocation) -> Observation | None:
        """Before each tool call; may change its arguments, or return an observation instead."""

    async def after_tool(
        self, invocation: Invocation, observation: Observation
    ) -> Observation | None:
        """After each tool call; may return another observation."""

    async def on_error(self, context: Context, error: Exception) -> Recovery | None:
        """When the planner failed; None leaves it to the next middleware, and in the end: fail."""


class Recovery:
    """What a middleware wants done about a planner's failure.

    Args:
        verb: ``retry`` the call, take ``plan`` as a ``fallback`` answer, ``skip`` the step, or
            ``fail`` the Task.
        plan: The answer of a fallback.
        delay: Seconds to wait before a retry.
    """

    __slots__ = ("delay", "plan", "verb")

    def __init__(
        self,
        verb: Literal["retry", "fallback", "skip", "fail"],
        plan: Plan | None = None,
        delay: float = 0.0,
    ) -> None:
        self.verb = verb
        self.plan = plan
        self.delay = delay


HOOKS: Final = (
    "on_run_start", "on_run_end", "before_model", "after_model", "before_tool", "after_tool",
    "on_error",
)  # fmt: skip
_BEHIND: Final = frozenset({"on_run_end", "after_model", "after_tool"})


class Hooks:
    """The hooks of several middlewares, sorted once, so that what nobody uses costs nothing."""

    __slots__ = HOOKS

    on_run_start: Sequence[Callable[..., Any]]
    on_run_end: Sequence[Callable[..., Any]]
    before_model: Sequence[Callable[..., Any]]
    after_model: Sequence[Callable[..., Any]]
    before_tool: Sequence[Callable[..., Any]]
    after_tool: Sequence[Callable[..., Any]]
    on_error: Sequence[Callable[..., Any]]

    def __init__(self, middlewares: Sequence[Any]) -> None:
        for hook in HOOKS:
            order = reversed(middlewares) if hook in _BEHIND else middlewares
            found = [getattr(each, hook) for each in order if hasattr(each, hook)]
            setattr(self, hook, tuple(found))
