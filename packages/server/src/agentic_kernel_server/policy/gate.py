"""Gate: decides about each tool call of an agent, by the policy that is in use."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, Final

from agentic_kernel_engine import StoreError
from agentic_kernel_engine.faults import said
from agentic_kernel_guard.rules import Asked

from ..ports import Ruling, ToolCall
from .files import NO_POLICY, Policies, PolicyError, read
from .rates import Rates

_log: Final = logging.getLogger(__name__)
REPEATED: Final = "server/repeated"
"""The label that rules see beside those of the execution: ``true`` if an earlier session began the
same local step, else ``false``. A label of this name that a client gave is not seen."""


class Policy:
    """The policy that is in use, until a reload replaces it.

    Args:
        path: A rule file, or a directory with one for each agent; None for no policy.

    Raises:
        PolicyError: The policy cannot be used.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = path
        self.rules: Policies = NO_POLICY if path is None else read(path)
        self.problem: str = ""
        """The reason why the newest policy is not in use; empty if it is."""

    def reload(self) -> bool:
        """Read the policy again, and use it from the next call on.

        If it cannot be used, the earlier policy stays as a whole, and the log says why.

        Returns:
            True if the new policy is in use.
        """
        if self._path is None:
            return True
        try:
            rules = read(self._path)
        except PolicyError as error:
            self.problem = str(error)
            _log.error("%s; the earlier policy stays", said(error))
            return False
        self.rules, self.problem = rules, ""
        _log.info("the policy %s is in use, with %d rules", ascii(str(self._path)), rules.count)
        return True


class Gate:
    """A `Decide` by rules. Without a policy, it denies every tool.

    Args:
        policy: The policy, or the path of one.
        rates: The counters of rate limits.

    Raises:
        PolicyError: The policy cannot be used.
    """

    def __init__(self, policy: Policy | str | os.PathLike[str] | None, rates: Rates) -> None:
        self.policy: Final = policy if isinstance(policy, Policy) else Policy(policy)
        self._rates = rates

    async def __call__(self, call: ToolCall) -> Ruling:
        """Decide about a call. A call that a limited rule lets pass is counted.

        It never raises: a call is denied if its rate limit cannot be looked up.
        """
        policies = self.policy.rules
        if policies is NO_POLICY:
            return Ruling("deny", "the server has no policy; start it with --policy")
        arguments: Any = {} if call.arguments is None else call.arguments
        if not isinstance(arguments, Mapping):
            # No rule can look into them, so a rule that denies would not hold either.
            return Ruling("deny", "the arguments are no JSON object; send them by name")
        verdict = policies.of(call.agent_id).decide(
            Asked(
                call.tool_id,
                arguments,
                call.at,
                principal=call.principal,
                tenant=call.tenant,
                agent=call.agent_id,
                labels={**call.labels, REPEATED: "true" if call.repeated else "false"},
                step_count=call.step_count,
                duration_ms=call.duration_ms,
            )
        )
        limit = verdict.limit
        if verdict.effect != "deny" and limit is not None:
            # Rules of different agents may share a name.
            owner = policies.owner(call.agent_id, verdict.rule)
            try:
                spent = await self._rates.spend(f"{owner}\x1f{verdict.counter}", limit)
            except StoreError as error:
                _log.error("the rate limit of the rule %s: %s", verdict.rule, said(error))
                return Ruling(
                    "deny",
                    f"the rate limit of the rule {verdict.rule} cannot be looked up; try again",
                    verdict.rule,
                )
            if not spent.allowed:
                return Ruling(
                    "deny",
                    f"the rule {verdict.rule} allows {limit.calls:,} calls in {limit.seconds:g} s "
                    f"for each {limit.per}; try again in {spent.retry_after:.3g} s",
                    verdict.rule,
                )
        approval = verdict.approval
        return Ruling(
            verdict.effect, verdict.reason, verdict.rule, approval.approvers, approval.timeout
        )
