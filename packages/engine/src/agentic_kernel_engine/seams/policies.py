"""Policies: by a tool's name and effect, by scopes, by risk; and several at once."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection
from fnmatch import fnmatchcase
from typing import Final, get_args

from agentic_kernel import InvalidValue

from .. import edges
from ..faults import kind_of, report
from ..plans.action import Action, ToolCall
from ..plans.decision import ALLOW, Decision, Verdict, deny, require_approval
from ..tools.tool import SideEffect, Tool
from .planner import Context
from .policy import Hiding, Policy, decided

EFFECTS: Final[frozenset[str]] = frozenset(get_args(SideEffect))
STRICTNESS: Final[dict[Verdict, int]] = {"allow": 0, "require_approval": 1, "deny": 2, "stop": 3}
"""The rank of each verdict; the highest is the strictest."""

Classifier = Callable[[Action, Context], float | Awaitable[float]]
"""Returns the risk of an action, from 0 (none) to 1 (the highest)."""


class BasicPolicy:
    """Decides about tool calls by the tool's name and by its effect; other actions are allowed.

    Each rule is an effect (``none``, ``read``, ``write``, ``destructive``), or a pattern of tool
    names as for file names (``rm*``). The pattern ``[w]rite`` matches a tool that is named like an
    effect. A denial always holds. Otherwise a rule about the name is stronger than a rule about the
    effect; between equally strong rules, ``approve`` is stronger than ``allow``. A call that no
    rule matches is allowed if its tool has no effect on the world, and else needs an approval.

    Args:
        allow: Rules for calls that are made.
        approve: Rules for calls that a person decides about.
        deny: Rules for calls that are not made.
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
        if tool is None:  # An unknown tool cannot be called, and the planner is told so.
            return ALLOW
        ask = require_approval(f"{tool.name} has the effect {tool.effect!r}")
        if self._approve.names(tool.name):
            return ask
        if self._allow.names(tool.name):
            return ALLOW
        if tool.effect in self._approve.effects:
            return ask
        return ask if tool.has_effect and tool.effect not in self._allow.effects else ALLOW


class PermissionPolicy(Hiding):
    """Denies the tools whose scopes the principal lacks.

    Args:
        hide: True to hide these tools from the planner. Otherwise it sees them, and a call is
            denied with the missing scopes.
    """

    def __init__(self, *, hide: bool = True) -> None:
        self._hide = hide

    async def authorize(self, action: Action, context: Context) -> Decision:
        tool = _tool(action, context) if isinstance(action, ToolCall) else None
        missing = tool.scopes - context.principal.scopes if tool else None
        if tool and missing:
            return deny(
                f"{tool.name} requires scopes that the principal lacks: "
                f"{', '.join(sorted(missing))}"
            )
        return ALLOW

    def visible(self, tool: Tool, context: Context) -> bool:
        return not self._hide or tool.scopes <= context.principal.scopes


def _hiding(policy: Policy) -> Hiding | None:
    found: Hiding | None = edges.optional(policy, "policies", Hiding)
    return found


class PolicyPipeline(Hiding):
    """Asks several policies; the strictest decision holds: stop, deny, require_approval, allow.

    If several decisions are equally strict, the first one's reason is kept. A policy that raises
    has denied. A tool is visible if it is visible to all policies.

    Raises:
        InvalidValue: No policy is given.
    """

    def __init__(self, *policies: Policy) -> None:
        if not policies:
            raise InvalidValue("policies", "is empty; give one, or leave the policy out")
        self._policies = policies
        self._visible = [each.visible for each in map(_hiding, policies) if each is not None]

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
    """Decides by the risk of an action.

    If the classifier raises, or does not return a number from 0 to 1, the action is denied.

    Args:
        classify: Returns the risk of an action.
        approve: From this risk on, a person decides.
        deny: From this risk on, the action is not done.

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
            return deny(f"its risk is {risk:.2f}; actions from {self._deny:.2f} on are denied")
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
    """The tool of a call; None if the planner has no such tool."""
    return next((tool for tool in context.tools if tool.name == call.tool), None)
