"""Policy: the port that decides whether an action is done, and `AllowAll`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, Protocol

from .. import edges
from ..faults import kind_of, report, reraise_run_end
from ..plans.action import Action, copy_of
from ..plans.action import kind_of as kind_of_action
from ..plans.decision import ALLOW, ROUTES, Decision, deny
from ..tools.tool import Tool
from .planner import Context


class Policy(Protocol):
    """Decides about actions. It changes nothing, and its decisions hold.

    A policy may also be `Hiding`.
    """

    async def authorize(self, action: Action, context: Context) -> Decision:
        """Decide whether this action may be done now. An exception counts as a denial."""
        ...


class Hiding(Protocol):
    """A policy that hides tools from the planner. Name it as a base class."""

    @abstractmethod
    def visible(self, tool: Tool, context: Context) -> bool:
        """False to hide the tool."""
        ...


LONGEST: Final = 2_000
"""The longest reason, in characters; a longer one is cut."""


async def decided(
    policy: Policy, action: Action, context: Context, who: str = "the policy"
) -> Decision:
    """A policy's decision about an action; a denial if it raises or gives no valid `Decision`.

    Both are bugs of the policy, and are logged. The policy gets a copy of the action, so it can
    change neither the action nor what another policy judges.

    Args:
        who: Name of the policy in the reason of a denial.
    """
    try:
        said = await policy.authorize(copy_of(action), context)
    except BaseException as fault:
        reraise_run_end(fault)
        report(fault, context.task.id, context.step, f"the policy {type(policy).__name__}")
        return deny(f"{who} failed: {kind_of(fault)}")
    if said is ALLOW:
        return said
    return _usable(policy, said, action, context)


def _usable(policy: object, said: object, action: Action, context: Context) -> Decision:
    if isinstance(said, Decision) and said.verdict in ROUTES and isinstance(said.reason, str):
        reason = said.reason
        if len(reason) <= LONGEST and reason.isascii() and "\0" not in reason:
            return said
        reason = reason[:LONGEST].replace("\0", "\\0")
        return Decision(said.verdict, reason.encode("utf-8", "backslashreplace").decode())
    wanted = "allow, deny, stop or require_approval"
    if isinstance(said, Decision):
        text = isinstance(said.reason, str)
        field, came = ("verdict", said.verdict) if text else ("reason", said.reason)
        wrong = f"a Decision whose {field} is {edges.came(came)}"
        wanted = f"a Decision with {'one of ' + wanted if text else 'a string'} there"
    else:
        came = "None" if said is None else f"a {type(said).__name__}"
        wrong, wanted = f"{came} and no Decision", f"a Decision: {wanted}"
    fault = TypeError(
        f"the policy {type(policy).__name__} gave {wrong} for a {kind_of_action(action)}; "
        f"authorize must give {wanted}"
    )
    report(fault, context.task.id, context.step, f"the policy {type(policy).__name__}")
    return deny(str(fault))


class AllowAll:
    """Allows every action; the tools' own checks still apply."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        return ALLOW
