"""GuardPolicy: the guard's policy as the policy of a Loop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine.edges import instance, names, part
from agentic_kernel_engine.loop import (
    Action,
    Context,
    Decision,
    ToolCall,
    deny,
    require_approval,
)
from agentic_kernel_engine.seams import AllowAll, Policy

from ..errors import GuardError
from ..guard import Guard
from ..registry import UnknownCapability
from .asking import asked, parted
from .tools import EXPAND


class GuardPolicy:
    """Asks the guard's policy about each call of a capability, before a person is asked.

    A call of any other tool is denied, unless it is listed. It spends nothing: rate limits are
    looked at here, and spent by the tool. `GuardedTools` asks the policy once more when the call is
    made, because an approval may take days.

    Args:
        guard: The guard of the `GuardedTools`.
        unguarded: The names of other tools that may be called.
        then: Another policy, for what the guard does not deny and for all that is no call of a
            tool. If both would ask a person, the guard's reason is shown.
    """

    def __init__(
        self, guard: Guard, *, unguarded: Iterable[str] = (), then: Policy | None = None
    ) -> None:
        self.guard: Final = instance(guard, "guard", Guard)
        self._free = names(unguarded, "unguarded") | {EXPAND}
        self._then: Policy = AllowAll() if then is None else part(then, "then", Policy)

    async def authorize(self, action: Action, context: Context) -> Decision:
        """Decide about an action."""
        said = None
        if isinstance(action, ToolCall) and action.tool not in self._free:
            said = await self._guarded(action, context)
            if said is not None and said.verdict == "deny":
                return said
        other = await self._then.authorize(action, context)
        return said if said is not None and other.verdict not in ("deny", "stop") else other

    async def _guarded(self, action: ToolCall, context: Context) -> Decision | None:
        """The guard's refusal, or its wish for an approval; None if it allows the call."""
        try:
            spec = self.guard.registry.of_tool(action.tool)
        except UnknownCapability:
            return deny("the tool is not guarded; list it under `unguarded` to allow it")
        arguments, why = parted(spec, action.arguments)
        request = asked(spec, arguments, context.task, context.step)
        try:
            decision = await self.guard.decide(request, context.principal, why)
        except GuardError as error:
            return deny(error.message)
        except InvalidValue as error:
            return deny(str(error))
        if decision.effect == "allow":
            return None
        if decision.effect == "require_approval":
            return require_approval(decision.reason)
        return deny(decision.reason)
