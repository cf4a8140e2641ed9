"""Guard: stands between a model and its tools."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Principal
from agentic_kernel_engine.edges import choice, flag, function, instance, part, seconds, text

from . import approvals, handles
from .calls import Calls
from .canonical import digest
from .causes import redacting
from .decisions import Decisions
from .drivers import DriverCall, Progress
from .entries import Entries, moment, written
from .errors import GuardError
from .firewall import Firewall, Frame, ResponseMode
from .firewall.firewall import MODES
from .grants import (
    ApprovalNeeded,
    CapabilityRequest,
    Denied,
    Narrower,
    bound,
    check_arguments,
    narrowed,
)
from .ids import action_of, new_id
from .policy import Constraints, Decision, GuardRules, Request
from .ports import Routes, Shows
from .principals import AsGiven, Resolver, resolved
from .readings import Readings
from .registry import Found, Registry
from .rules import Near
from .rules.ruleset import limit_reason
from .spec import CapabilitySpec
from .stores import Begin, GuardStore
from .tokens import Claims, Keyring, TokenRefused, mint, opened
from .tokens.token import REFUSED
from .trace import ActionTrace, Head, signed, traced

HOLDS: Final = 300.0
"""Seconds that a token holds, if the grant says nothing."""


class Unknown(InvalidValue):
    """The trace has no such action."""


class Guard:
    """Decides, carries out, shows and records.

    Args:
        registry: The capabilities.
        router: Carries calls out.
        policy: Decides.
        store: Keeps the state; the caller closes it.
        keys: Signs tokens and heads.
        resolver: Says what a principal is; `AsGiven` in a Host.
        firewall: Makes what a model may see; a `Firewall` with its defaults unless it is given.
        name: The guard's name: the issuer and the audience of its tokens.
        clock: Seconds since 1970.

    Raises:
        InvalidValue: An argument is of another type.
    """

    def __init__(
        self,
        registry: Registry,
        router: Routes,
        *,
        policy: GuardRules,
        store: GuardStore,
        keys: Keyring,
        resolver: Resolver | AsGiven,
        firewall: Shows | None = None,
        name: str = "guard",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.registry: Final = instance(registry, "registry", Registry)
        self.policy: Final[GuardRules] = part(policy, "policy", GuardRules)
        self.store: Final[GuardStore] = part(store, "store", GuardStore)
        shows = Firewall() if firewall is None else firewall
        self._firewall: Final[Shows] = part(shows, "firewall", Shows)
        self._keys = instance(keys, "keys", Keyring)
        if not isinstance(resolver, AsGiven):
            part(resolver, "resolver", Resolver)
        part(router, "router", Routes)
        function(clock, "clock")
        self._resolver: Final = resolver
        self._name = text(name, "name", empty=False)
        self._entries: Final = Entries(store, self._firewall.redactor, clock)
        self._readings: Final = Readings(store, policy, self._entries.now)
        self._decisions: Final = Decisions(
            registry, policy, store, self._keys, resolver, self._entries, self._readings
        )
        self._calls: Final = Calls(router, self._firewall, store, self._entries, self._readings)

    async def request_capabilities(self, goal: str, most: int = 10) -> tuple[Found, ...]:
        """The capabilities that share words with a goal. Being found grants nothing."""
        return self.registry.search(goal, most)

    @redacting
    async def decide(
        self, request: CapabilityRequest, principal: Principal, justification: str = ""
    ) -> Decision:
        """Return the policy's decision about a request, and look at its rate limits.

        Nothing is granted, spent or recorded.

        Raises:
            UnknownCapability: The registry has no such capability.
            UnknownPrincipal: The resolver does not know the principal.
        """
        asked = await self._decisions.question(request, principal, justification)
        return (await self._decisions.decided(asked))[0]

    @redacting
    async def explain_policy(
        self, request: CapabilityRequest, principal: Principal, justification: str = ""
    ) -> tuple[Decision, tuple[Near, ...]]:
        """The decision of `decide`, and the rules that failed on one condition only."""
        asked = await self._decisions.question(request, principal, justification)
        return (await self._decisions.decided(asked))[0], self.policy.near(asked)

    @redacting
    async def grant_capability(
        self, request: CapabilityRequest, principal: Principal, justification: str = ""
    ) -> str:
        """A token for a request that the policy allows.

        For a pattern, the policy is asked with the arguments that the pattern fixes. `invoke` asks
        it again with the real ones.

        Raises:
            Denied: The policy denies it.
            ApprovalNeeded: It needs an approval, and `approved_by` names none that counts.
            UnknownCapability: The registry has no such capability.
            UnknownPrincipal: The resolver does not know the principal.
            InvalidValue: A part of the request is wrong.
        """
        spec = self.registry.spec(instance(request, "request", CapabilityRequest).capability)
        dig, pat = bound(request.arguments, request.pattern)
        if request.arguments is not None:
            self._check_schema(spec, request.arguments)
        holds = HOLDS if request.seconds is None else seconds(request.seconds, "request.seconds")
        who = await resolved(self._resolver, principal)
        asked = await self._readings.tainted(
            self._decisions.asked(request, spec, who, justification), request.task
        )
        now = self._entries.now()
        action = new_id("g")
        decision, _ = await self._decisions.decided(asked)
        if dig is None:
            decision = self._decisions.left_open(asked, decision)
        said = self._entries.entry(
            action, "granted", now, who, spec, dig=dig or "", decision=decision,
            justification=justification, task=request.task, key=request.key,
        )  # fmt: skip
        by, asking, until = request.approved_by, "", now + int(holds * 1_000)
        if request.ask and not by and dig and decision.effect == "require_approval":
            found = await self._decisions.approval(asked, decision, said)
            assert found.verdict is not None, "it is approved"
            by, until, justification = found.verdict.by, min(until, found.until), found.why
            action = asking = found.id
        self._decisions.refuse_unless_allowed(decision, by, dig, who, action, said)
        if said["kind"] == "denied":
            facts = {} if dig is None else await self._entries.facts(asked, decision)
            await self._entries.write(said | facts)
            needed = decision.effect == "require_approval" and not asking
            kind = ApprovalNeeded if needed else Denied
            raise kind(said["reason"], action, decision)
        claims = Claims(
            iss=self._name, aud=self._name, sub=who.name, ten=who.tenant, cap=spec.name,
            op=spec.operation, dig=dig, pat=pat, con=decision.constraints.as_json(),
            tsk=request.task, key=request.key, iat=now, nbf=now, exp=until,
            jti=new_id("t"), uses=request.uses, par=(), why=justification,
            agt=request.agent, lab=dict(request.labels), apv=by, req=asking,
            stp=request.step_count, dur=request.duration_ms,
        )  # fmt: skip
        token = mint(claims, self._keys)
        await self._entries.write({**said, "token": claims.jti})
        return token

    @redacting
    async def attenuate(self, token: str, narrower: Narrower) -> str:
        """A token that grants less. It is revoked with its parent, and takes its uses from it.

        Raises:
            TokenRefused: The token does not hold, or has too many parents, or the child would
                grant more.
            InvalidValue: A part of `narrower` is wrong.
        """
        parent = self._opened(token)
        instance(narrower, "narrower", Narrower)
        now = self._entries.now()
        child = narrowed(parent, narrower, now)
        made = mint(child, self._keys)
        entry = {
            "action": new_id("g"), "kind": "attenuated", "at": now,
            "principal": child.sub, "tenant": child.ten, "capability": child.cap,
            "operation": child.op, "token": child.jti, "parent": parent.jti,
        }  # fmt: skip
        await self._entries.write(entry)
        return made

    async def revoke(self, token: str) -> None:
        """Revoke a token and its children, in every process that shares the store.

        Raises:
            TokenRefused: It does not hold anyway.
        """
        claims = self._opened(token)
        entry = {
            "action": new_id("r"), "kind": "revoked", "at": self._entries.now(),
            "principal": claims.sub, "tenant": claims.ten, "capability": claims.cap,
            "operation": claims.op, "token": claims.jti,
        }  # fmt: skip
        await self.store.revoke(claims.jti, claims.exp, written(entry))

    @redacting
    async def invoke(
        self,
        token: str,
        principal: Principal,
        arguments: Mapping[str, Any],
        response_mode: ResponseMode = "summary",
        *,
        dry_run: bool = False,
        timeout: float = 30.0,
        progress: Progress | None = None,
    ) -> Frame | None:
        """Carry out what a token grants, and show what may be seen of the result.

        The policy is asked again, with the roles that the principal has now. A token with a key
        answers a repeated call with the recorded frame. If the principal may see less by now, the
        frame is made again from the kept result.

        Args:
            dry_run: True to check everything that can be checked without spending or running;
                the answer is None.
            progress: Called with the numbers of a report of progress; its text is not shown.

        Raises:
            TokenRefused: The token is not for this call, is revoked, or has no uses left.
            Denied: The policy denies the call now, or a rate limit is used up.
            Indeterminate: The call may have had an effect; it is not repeated.
            NoEffect: The call failed and certainly had no effect.
            RawRefused: This principal may not see raw output; nothing was called.
            NotShown: The call has run, and its result cannot be shown in this mode.
            ResultGone: It has run before, and its result is not kept for what may be seen now.
        """
        seconds(timeout, "timeout", zero=False)
        flag(dry_run, "dry_run")
        if progress is not None:
            function(progress, "progress")
        instance(principal, "principal", Principal)
        claims = self._opened(token)
        if (claims.sub, claims.ten) != (principal.name, principal.tenant):
            raise TokenRefused("principal", "the token is another principal's; ask for your own")
        spec = self.registry.spec(claims.cap)
        if claims.op != spec.operation:
            raise TokenRefused("operation", "the capability has another operation now")
        self._check_schema(spec, arguments)
        given = check_arguments(claims, arguments)
        who = await resolved(self._resolver, principal)
        now = self._entries.now()
        request = Request(
            spec, who, moment(now), arguments, claims.why, claims.agt, claims.lab, claims.stp,
            claims.dur,
        )  # fmt: skip
        request = await self._readings.tainted(request, claims.tsk)
        action = claims.action or new_id("a")
        decision, spent = await self._decisions.decided(request, look=dry_run)
        limits, shown = claims.con, decision.constraints
        if limits != shown.as_json():  # They are equal, unless something changed since the grant.
            shown = Constraints.of_json(limits).narrowed(shown)
            limits = shown.as_json()
        said = self._entries.entry(
            action, "began", now, who, spec, dig=given, decision=decision,
            justification=claims.why, task=claims.tsk, key=claims.key, token=claims.jti,
        )  # fmt: skip
        facts = await self._entries.facts(request, decision)
        self._decisions.refuse_unless_allowed(decision, claims.apv, claims.dig, who, action, said)
        if said["kind"] == "denied":
            raise await self._entries.denied(said | facts, decision)
        try:
            self._firewall.check(response_mode, shown)
        except GuardError as refused:
            await self._entries.denied({**said, **facts, "reason": refused.message}, decision)
            raise
        if dry_run:
            return None
        # Only a key, or an approval, makes two calls the same action.
        same = claims.key or claims.req
        async with self._calls.alone(action, timeout) if same else nullcontext():
            what = _print(claims.sub, claims.ten, spec, given)
            begun = await self.store.begin(
                Begin(action, what, claims.chain, claims.exp, spent, now, written(said | facts))
            )
            # An answer to a call that changes nothing twice may have been lost in a crash. But an
            # approval is for one call, and that may still run.
            lost = begun.result is None and spec.repeatable and not claims.req
            if begun.state == "known" and not lost:
                frame = await self._calls.again(begun.result, action, who, response_mode, shown)
                await self._calls.reshown(frame, action, claims.tsk, who, spec)
                return frame
            if begun.state not in ("begun", "known"):
                reason = REFUSED[begun.state]
                if begun.state == "limited" and decision.verdict and decision.verdict.limit:
                    reason = limit_reason(decision.rule, decision.verdict.limit)
                denied = {**said, **facts, "reason": reason}
                denial = await self._entries.denied(denied, decision)
                raise denial if begun.state == "limited" else TokenRefused(begun.state, reason)
            call = DriverCall(
                spec.name, spec.operation, arguments, action, limits, timeout, who, claims.tsk,
                progress,
            )  # fmt: skip
            return await self._calls.run(call, spec, who, shown, response_mode, said)

    @redacting
    async def repeated(
        self,
        key: str,
        principal: Principal,
        capability: str,
        arguments: Mapping[str, Any],
        response_mode: ResponseMode = "summary",
        *,
        task: str = "",
        timeout: float = 30.0,
    ) -> Frame | None:
        """The answer of an action that was begun before with this key; None if it may be made.

        It needs no token: nothing is called. What the policy says now limits what is shown, and
        does not take the answer away.

        Args:
            task: The Task that sees it, for taint.
            timeout: The most seconds to wait for the action, if it runs in this process.

        Raises:
            TokenRefused: The key was used for another action.
            Indeterminate: The action was begun and may have had an effect, or it still runs.
            NoEffect: It failed.
            RawRefused, ResultGone: As of `invoke`.
        """
        spec = self.registry.spec(capability)
        instance(principal, "principal", Principal)
        for name, value in (("key", key), ("task", task)):
            text(value, name)
        seconds(timeout, "timeout", zero=False)
        choice(response_mode, "response_mode", MODES)
        self._check_schema(spec, arguments)
        action = action_of(principal.name, principal.tenant, key)
        await self._calls.ended(action, timeout)
        known = await self.store.recorded(action)
        if known is None:
            return None
        given = digest(arguments, "arguments")
        if known[0] != _print(principal.name, principal.tenant, spec, given):
            raise TokenRefused("other", REFUSED["other"])
        if known[1] is None and spec.repeatable:
            return None
        who = await resolved(self._resolver, principal)
        now = moment(self._entries.now())
        shown = self.policy.decide(Request(spec, who, now, arguments)).constraints
        self._firewall.check(response_mode, shown)
        frame = await self._calls.again(known[1], action, who, response_mode, shown)
        await self._calls.reshown(frame, action, task, who, spec)
        return frame

    @redacting
    async def expand(
        self,
        handle: str,
        principal: Principal,
        query: handles.Query | None = None,
        *,
        task: str = "",
        timeout: float = 30.0,
    ) -> Frame:
        """A part of a kept result, under the same budgets and redaction as before.

        Args:
            task: The Task that sees it, for taint; the one of the call unless it is given.
            timeout: The most seconds in which the part is made.

        Raises:
            HandleRefused: There is no such handle for this principal.
            NotShown: The part could not be made in this time.
        """
        query = handles.Query() if query is None else instance(query, "query", handles.Query)
        text(task, "task")
        seconds(timeout, "timeout", zero=False)
        who = await resolved(self._resolver, principal)
        now = self._entries.now()
        stored = await handles.found(self.store, handle, who, now)
        spec = self.registry.spec(stored.capability)
        # A role that was taken away since shows less now.
        shown = Constraints.of_json(stored.constraints).narrowed(
            self.policy.decide(Request(spec, who, moment(now))).constraints
        )
        frame = await self._calls.part(stored, handle, query, shown, timeout)
        entry = self._entries.entry(new_id("x"), "expanded", now, who, spec)
        # The id of a handle opens it; the trace has its digest.
        entry["handle"] = hashlib.sha256(handle.encode()).hexdigest()
        await self.store.append(written(entry), self._readings.saw(frame, task or stored.task, who))
        return frame

    async def explain(self, action_id: str) -> ActionTrace:
        """One action whole, from the trace. Show it to operators, not to models.

        Raises:
            Unknown: The trace has no such action.
        """
        links = await self.store.of_action(text(action_id, "action_id"))
        if not links:
            raise Unknown("action_id", "no such action is in the trace; check the id and the store")
        return traced(action_id, links)

    async def head(self) -> Head | None:
        """The signed end of the chain, to keep elsewhere; None if nothing was recorded."""
        last = await self.store.last()
        now = self._entries.now()
        return None if last is None else signed(last.seq, last.hash, now, self._keys)

    def _opened(self, token: str) -> Claims:
        claims = opened(token, self._keys, self._entries.now())
        if (claims.aud, claims.iss) != (self._name, self._name):
            raise TokenRefused("audience", "the token is for another guard")
        return claims

    def _check_schema(self, spec: CapabilitySpec, arguments: Any) -> None:
        said = self.registry.mismatch(spec.name, arguments)
        if said is not None:
            raise InvalidValue("arguments", f"do not fit the schema of {spec.name}: {said}")

    def _clean(self, text: str) -> str:
        return self._entries.clean(text)


def _print(name: str, tenant: str, spec: CapabilitySpec, given: str) -> str:
    """The digest of what an action is."""
    return approvals.print_of(name, tenant, spec.name, spec.operation, given)
