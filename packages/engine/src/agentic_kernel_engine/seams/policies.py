"""Policies: by a tool's name and effect, by scopes, by risk; and several at once."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection
from fnmatch import fnmatchcase
from typing import Final, get_args

from agentic_kernel import InvalidValue

from ..faults import kind_of, report
from ..plans.action import Action, ToolCall
from ..plans.context import Context
from ..plans.decision import ALLOW, Decision, Verdict, deny, require_approval
from ..tools.registry import SideEffect, Tool
from .policy import Policy, decided

EFFECTS: Final[frozenset[str]] = frozenset(get_args(SideEffect))
STRICTNESS: Final[dict[Verdict, int]] = {"allow": 0, "require_approval": 1, "deny": 2, "stop": 3}
"""How much a verdict keeps from being done."""

Classifier = Callable[[Action, Context], float | Awaitable[float]]
"""How risky an action is: 0 for not at all, 1 for as much as can be."""


class BasicPolicy:
    """Decides about tool calls by the tool's name and by its effect; other actions are allowed.

    Each rule is an effect (``none``, ``read``, ``write``, ``destructive``), or a pattern of names
    as in file names (``rm*``); a tool that is named like an effect is matched by ``[w]rite``. A
    denial always holds. Beyond that a name says more than an effect, and an approval is asked for
    where both it and a permission would do. What no rule is about is allowed if it has no effect
    on the world, and needs an approval if it has.

    Args:
        allow: What is done.
        approve: What a person decides about.
        deny: What is not done.
    """

    def __init__(
        self,
        *,
        allow: Collection[str] = (),
        approve: Collection[str] = (),
        deny: Collection[str] = (),
    ) -> None:
        self._allow = _Rules("allow", allow)
        self._approve = _Rules("approve", approve)
        self._deny = _Rules("deny", deny)

    async def authorize(self, action: Action, context: Context) -> Decision:
        if not isinstance(action, ToolCall):
            return ALLOW
        tool = _tool(action, context)
        if self._deny.names(action.tool) or (tool and tool.effect in self._deny.effects):
            return deny(f"{action.tool} is not allowed here")
        if tool is None:  # Nothing can come of it, and the planner is told why.
            return ALLOW
        ask = require_approval(f"{tool.name} has the effect {tool.effect!r}")
        if self._approve.names(tool.name):
            return ask
        if self._allow.names(tool.name):
            return ALLOW
        if tool.effect in self._approve.effects:
            return ask
        return ask if tool.has_effect and tool.effect not in self._allow.effects else ALLOW


class PermissionPolicy:
    """Denies the tools whose scopes the principal lacks.

    Args:
        hide: Whether the planner does not even see them. If it does, a call is denied with what
            is missing.
    """

    def __init__(self, *, hide: bool = True) -> None:
        self._hide = hide

    async def authorize(self, action: Action, context: Context) -> Decision:
        tool = _tool(action, context) if isinstance(action, ToolCall) else None
        missing = tool.scopes - context.principal.scopes if tool else None
        if tool and missing:
            return deny(f"{tool.name} needs what is not allowed: {', '.join(sorted(missing))}")
        return ALLOW

    def visible(self, tool: Tool, context: Context) -> bool:
        return not self._hide or tool.scopes <= context.principal.scopes


class PolicyPipeline:
    """Several policies of which the strictest holds: stop, deny, require_approval, allow.

    Of several that are as strict, the first one's reason is kept. A policy that raises has denied.
    A tool is visible if it is so to all of them.

    Raises:
        InvalidValue: There is none, so that nobody would decide.
    """

    def __init__(self, *policies: Policy) -> None:
        if not policies:
            raise InvalidValue("policies", "is empty; give one, or leave the policy out")
        self._policies = policies
        self._visible = [each.visible for each in policies if hasattr(each, "visible")]

    async def authorize(self, action: Action, context: Context) -> Decision:
        strictest = ALLOW
        for policy in self._policies:
            decision = await decided(policy, action, context, type(policy).__name__)
            if STRICTNESS[decision.verdict] > STRICTNESS[strictest.verdict]:
                strictest = decision
        return strictest

    def visible(self, tool: Tool, context: Context) -> bool:
        return all(visible(tool, context) for visible in self._visible)


class RiskPolicy:
    """Decides by how risky an action is.

    A classifier that raises, or gives anything but a number from 0 to 1, has not said that the
    action is safe: it is denied.

    Args:
        classify: Says how risky an action is.
        approve: From this risk on, a person decides.
        deny: From this risk on, it is not done.

    Raises:
        InvalidValue: Not 0 ≤ approve ≤ deny ≤ 1.
    """

    def __init__(self, classify: Classifier, *, approve: float = 0.5, deny: float = 0.9) -> None:
        if not 0 <= approve <= deny <= 1:
            raise InvalidValue(
                "approve, deny", f"are {approve} and {deny}; use 0 ≤ approve ≤ deny ≤ 1"
            )
        self._classify = classify
        self._approve = approve
        self._deny = deny

    async def authorize(self, action: Action, context: Context) -> Decision:
        try:
            risk = self._classify(action, context)
            if inspect.isawaitable(risk):
                risk = await risk
        except Exception as error:
            report(error, context.task.id, context.step, "the classifier of RiskPolicy")
            return deny(f"its risk is not known: the classifier raised {kind_of(error)}")
        if isinstance(risk, bool) or not isinstance(risk, (int, float)) or not 0 <= risk <= 1:
            return deny("its risk is not known: the classifier gave no number from 0 to 1")
        if risk >= self._deny:
            return deny(f"its risk is {risk:.2f}, and {self._deny:.2f} is too much")
        if risk >= self._approve:
            return require_approval(f"its risk is {risk:.2f}")
        return ALLOW


class _Rules:
    """Effects, and patterns of names."""

    def __init__(self, path: str, rules: Collection[str]) -> None:
        if isinstance(rules, str):
            raise InvalidValue(path, "is one string; give a collection of effects and patterns")
        self.effects = EFFECTS & set(rules)
        self._patterns = tuple(set(rules) - EFFECTS)

    def names(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._patterns)


def _tool(call: ToolCall, context: Context) -> Tool | None:
    """What would be called; None if the planner has no such tool."""
    return next((tool for tool in context.tools if tool.name == call.tool), None)
