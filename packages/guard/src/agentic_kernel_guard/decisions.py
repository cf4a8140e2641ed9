"""Decisions: what the policy, and a person where the policy wants one, say to a request."""

from __future__ import annotations

from typing import Any, Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Principal
from agentic_kernel_engine.edges import instance

from . import approvals
from .entries import FACTS, Entries, moment, written
from .grants import ApprovalNeeded, CapabilityRequest, Denied, assumed
from .ids import new_id
from .policy import Decision, GuardRules, Request
from .principals import AsGiven, Resolver, resolved
from .readings import Readings
from .registry import Registry
from .rules import Approval
from .rules.ruleset import limit_reason
from .rules.visible import alike, name_fault
from .spec import CapabilitySpec
from .stores import GuardStore
from .tokens import Keyring

LONGEST_REASON: Final = 2_000
"""The most characters of a justification."""


class Decisions:
    """Asks the policy, and persons by way of the store."""

    def __init__(
        self,
        registry: Registry,
        policy: GuardRules,
        store: GuardStore,
        keys: Keyring,
        resolver: Resolver | AsGiven,
        entries: Entries,
        readings: Readings,
    ) -> None:
        self._registry = registry
        self._policy = policy
        self._store = store
        self._keys = keys
        self._resolver = resolver
        self._entries = entries
        self._readings = readings

    async def question(self, request: CapabilityRequest, principal: Principal, why: str) -> Request:
        instance(request, "request", CapabilityRequest)
        who = await resolved(self._resolver, principal)
        asked = self.asked(request, self._registry.spec(request.capability), who, why)
        return await self._readings.tainted(asked, request.task)

    def asked(
        self, request: CapabilityRequest, spec: CapabilitySpec, who: Principal, why: str
    ) -> Request:
        if not isinstance(why, str) or len(why) > LONGEST_REASON:
            raise InvalidValue(
                "justification", f"use a text of up to {LONGEST_REASON:,} characters"
            )
        arguments = request.arguments
        if arguments is None:
            arguments = assumed(request.pattern or {})
        return Request(
            spec, who, moment(self._entries.now()), arguments, why, request.agent, request.labels,
            request.step_count, request.duration_ms,
        )  # fmt: skip

    async def decided(
        self, request: Request, *, look: bool = True
    ) -> tuple[Decision, tuple[tuple[str, int, int], ...]]:
        """The policy's decision, and the counters to spend."""
        decision = self._policy.decide(request)
        verdict = decision.verdict
        if verdict is None or verdict.limit is None or decision.effect == "deny":
            return decision, ()
        limit = verdict.limit
        span = int(limit.seconds * 1_000)
        if (
            look
            and await self._store.count(verdict.counter, self._entries.now() - span) >= limit.calls
        ):
            reason = limit_reason(verdict.rule, limit)
            return Decision("deny", reason, decision.constraints, verdict), ()
        return decision, ((verdict.counter, limit.calls, span),)

    def left_open(self, asked: Request, decision: Decision) -> Decision:
        """The decision for a pattern: a rule that lacks one argument only decides at the call."""
        if decision.effect == "deny" and not decision.rule:
            for near in self._policy.near(asked):
                if near.effect == "allow" and near.failed.startswith("arguments."):
                    reason = f"the rule {near.rule} decides at each call"
                    return Decision("allow", reason, decision.constraints)
        return decision

    def refuse_unless_allowed(
        self, decision: Decision, approved_by: str, dig: str | None, who: Principal, action: str,
        said: dict[str, Any],
    ) -> None:  # fmt: skip
        """Turn an entry into a denial, unless the policy allows the call or it is approved."""
        reason = "" if decision.effect == "allow" else decision.reason
        if decision.effect == "require_approval":
            approvers = decision.verdict.approval.approvers if decision.verdict else ()
            if not approved_by:
                reason = f"{decision.reason}; it needs an approval"
            elif dig is None:
                reason = f"{decision.reason}; an approval is for arguments, not for a pattern"
            elif fault := name_fault(approved_by):
                reason = f"{decision.reason}; the approver {approved_by!a} {fault}"
            elif alike(approved_by, who.name):
                reason = f"{decision.reason}; nobody approves a call of their own"
            elif approvers and approved_by not in approvers:
                reason = f"{decision.reason}; {approved_by!a} is none of its approvers"
            else:
                reason = ""
                said["approved_by"] = approved_by
        if reason:
            said |= {"kind": "denied", "reason": self._entries.clean(reason)}

    async def approval(
        self, asked: Request, decision: Decision, said: dict[str, Any]
    ) -> approvals.PendingApproval:
        """The approved request of a call that needs one; without one it is asked for.

        Raises:
            ApprovalNeeded: It waits for a person.
            Denied: A person refused it, or too many requests wait.
        """
        now, spec, who = said["at"], asked.spec, asked.principal
        rule = decision.verdict.approval if decision.verdict else Approval()
        call = approvals.Asked(
            principal=who.name, tenant=who.tenant, capability=spec.name, operation=spec.operation,
            safety=spec.safety.value, arguments=dict(asked.arguments),
            justification=asked.justification, rule=decision.rule, reason=decision.reason,
            approvers=rule.approvers,
        )  # fmt: skip
        try:
            wanted = approvals.new_request(new_id("q"), call, rule, now)
        except approvals.ApprovalRefused as error:
            await self._entries.write({**said, "kind": "denied", "reason": error.message})
            raise Denied(error.message, said["action"], decision) from error
        waiting = await self._store.approvals(now, approvals.MOST_OPEN)
        full = len(waiting) == approvals.MOST_OPEN
        if full and all(each.print != wanted.print for each in waiting):
            reason = f"{decision.reason}; {len(waiting)} requests wait already; decide some first"
            await self._entries.write({**said, "kind": "denied", "reason": reason})
            raise Denied(reason, said["action"], decision)
        said |= await self._entries.facts(asked, decision) | {"kind": "asked", "action": wanted.id}
        found = await self._store.ask(wanted, written(said))
        try:
            verdict = approvals.checked(found, self._keys)
        except approvals.ApprovalRefused as error:
            forged = {**said, "kind": "denied", "action": found.id, "reason": error.message}
            await self._entries.write(forged)
            raise
        if verdict is None:
            if found.id != wanted.id:
                await self._entries.write({**said, "action": found.id})
            reason = f"{decision.reason}; it waits for an approval: request {found.id}"
            raise ApprovalNeeded(reason, found.id, decision)
        if not verdict.approved:
            note = f": {verdict.note}" if verdict.note else ""
            reason = f"{decision.reason}; {verdict.by} refused the request {found.id}{note}"
            safe = self._entries.clean(reason)
            entry = {**said, "kind": "denied", "action": found.id, "reason": safe}
            await self._entries.write(entry)
            raise Denied(reason, found.id, decision)
        for name in FACTS:
            said.pop(name, None)
        approved = approvals.PendingApproval.of(found)
        # The call runs under the justification that the person has read.
        read = self._entries.clean(approved.asked.justification)
        if said["justification"] != read:
            said |= {"justification": read, "said": said["justification"]}
        said |= {"kind": "granted", "action": found.id}
        return approved
