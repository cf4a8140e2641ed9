"""Guard: stands between a model and its tools."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Principal
from agentic_kernel_engine.edges import instance, seconds, whole

from . import approvals, handles
from .canonical import canonical, digest
from .causes import caused, coded, shortened
from .drivers import DriverCall, Indeterminate, NoEffect, Progress
from .errors import GuardError
from .firewall import Cut, Firewall, Frame, FrameLimits, RawResult, ResponseMode
from .firewall.redact.redactor import TAIL
from .grants import (
    DEEPEST,
    ApprovalNeeded,
    CapabilityRequest,
    Denied,
    Narrower,
    assumed,
    bound,
    check_arguments,
)
from .ids import lettered, new_id
from .policy import Constraints, Decision, GuardRules, Request
from .ports import Routes, Shows
from .principals import AsGiven, Resolver, resolved
from .registry import Found, Registry
from .rules import Approval, Near
from .rules.ruleset import limit_reason
from .spec import CapabilitySpec, SafetyClass
from .stores import ApprovalRequest, Begin, GuardStore, Kept, Seen
from .taint import Reading, remembered, told
from .tokens import Claims, Keyring, TokenRefused, mint, opened
from .trace import ActionTrace, Head, signed, traced

HOLDS: Final = 300.0
"""Seconds that a token holds, if the grant says nothing."""
LONGEST_REASON: Final = 2_000
"""The most characters of a justification."""
REMEMBERED: Final = 90 * 24 * 3_600
"""Seconds for which taint is remembered."""
IN_THE_LOOP: Final = 20_000
"""The most characters that are looked at in the event loop's own thread."""
MOST_GIVEN: Final = 1_000_000
"""The most characters of the arguments of one call."""
LONGEST_SAID: Final = 3_000
"""The most characters of a message that are looked at."""
RUNS: Final = 256
"""The most runs whose taint is kept in memory, beside the store."""


Told = ParamSpec("Told")
Answer = TypeVar("Answer")


def _redacting(
    method: Callable[Concatenate[Guard, Told], Coroutine[Any, Any, Answer]],
) -> Callable[Concatenate[Guard, Told], Coroutine[Any, Any, Answer]]:
    """A method whose errors and their causes tell no secret of the arguments or the driver."""

    @wraps(method)
    async def cleaned(self: Guard, /, *args: Told.args, **kwargs: Told.kwargs) -> Answer:
        try:
            return await method(self, *args, **kwargs)
        except GuardError as error:
            error.message = shortened(self._clean(error.message))
            error.args = error.code, error.message
            caused(error, self._clean)
            raise
        except InvalidValue as error:
            error.path, error.reason = self._clean(error.path), self._clean(error.reason)
            error.args = error.path, error.reason
            caused(error, self._clean)
            raise

    return cleaned


class Unknown(InvalidValue):
    """The trace has no such action."""


class NotShown(GuardError):
    """The call has run, and its result cannot be shown in the mode that was asked for."""

    def __init__(self, capability: str, mode: str, why: str = "") -> None:
        why = why or f"has no form of JSON and cannot be shown as {mode}; ask for a summary"
        super().__init__(
            "guard/not_shown", f"{capability[:200]} was carried out, but its result {why}"
        )


class ResultGone(GuardError):
    """The call was carried out before, and what may be seen now of its result is not kept."""

    def __init__(self, action: str) -> None:
        super().__init__(
            "guard/result_gone",
            f"the action {action} was carried out before; less of its result may be seen now, and "
            "the result is not kept any more; look at the target, or use a new key to call again",
        )


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
        self.registry: Final = registry
        self.policy: Final = policy
        self.store: Final = store
        self._router = router
        self._firewall = Firewall() if firewall is None else firewall
        self._keys = instance(keys, "keys", Keyring)
        self._resolver = resolver
        self._name = name
        self._clock = clock
        self._readings: dict[str, tuple[int, Reading]] = {}

    async def request_capabilities(self, goal: str, most: int = 10) -> tuple[Found, ...]:
        """The capabilities that share words with a goal. Being found grants nothing."""
        return self.registry.search(goal, most)

    @_redacting
    async def decide(
        self, request: CapabilityRequest, principal: Principal, justification: str = ""
    ) -> Decision:
        """What the policy says to a request, with a look at its rate limits.

        Nothing is granted, spent or recorded.

        Raises:
            UnknownCapability: The registry has no such capability.
            UnknownPrincipal: The resolver does not know the principal.
        """
        asked = await self._question(request, principal, justification)
        return (await self._decided(asked))[0]

    @_redacting
    async def explain_policy(
        self, request: CapabilityRequest, principal: Principal, justification: str = ""
    ) -> tuple[Decision, tuple[Near, ...]]:
        """What `decide` says, and which rules failed on one thing only."""
        asked = await self._question(request, principal, justification)
        return (await self._decided(asked))[0], self.policy.near(asked)

    @_redacting
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
        spec = self.registry.spec(request.capability)
        if not isinstance(justification, str) or len(justification) > LONGEST_REASON:
            raise InvalidValue(
                "justification", f"use a text of up to {LONGEST_REASON:,} characters"
            )
        dig, pat = bound(request.arguments, request.pattern)
        if request.uses is not None:
            whole(request.uses, "request.uses", 1)
        if request.arguments is not None:
            self._check_schema(spec, request.arguments)
        holds = HOLDS if request.seconds is None else seconds(request.seconds, "request.seconds")
        who = await resolved(self._resolver, principal)
        asked = await self._tainted(self._asked(request, spec, who, justification), request.task)
        now = self._now()
        action = new_id("g")
        decision, _ = await self._decided(asked)
        if dig is None:
            decision = self._left_open(asked, decision)
        said = self._entry(
            action, "granted", now, who, spec, dig=dig or "", decision=decision,
            justification=justification, task=request.task, key=request.key,
        )  # fmt: skip
        by, asking, until = request.approved_by, "", now + int(holds * 1_000)
        if request.ask and not by and dig and decision.effect == "require_approval":
            found, verdict = await self._approval(asked, decision, said)
            by, asking, until = verdict.by, found.id, min(until, found.until)
            action = said["action"] = asking
        self._refuse_unless_allowed(decision, by, dig, who, action, said)
        if said["kind"] == "denied":
            facts = {} if dig is None else await self._facts(asked, decision)
            await self.store.append(_written(said | facts))
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
        await self.store.append(_written({**said, "token": claims.jti}))
        return token

    @_redacting
    async def attenuate(self, token: str, narrower: Narrower) -> str:
        """A token that grants less. It is revoked with its parent, and takes its uses from it.

        Raises:
            TokenRefused: The token does not hold, or has too many parents, or the child would
                grant more.
            InvalidValue: A part of `narrower` is wrong.
        """
        parent = self._opened(token)
        if len(parent.par) + 1 > DEEPEST:
            raise TokenRefused("too_deep", f"the token has {DEEPEST} parents; ask for a new grant")
        dig, pat = parent.dig, parent.pat
        if narrower.arguments is not None or narrower.pattern is not None:
            one, more = bound(narrower.arguments, narrower.pattern)
            if one is not None:
                assert narrower.arguments is not None, "there is a digest of them"
                check_arguments(parent, narrower.arguments)
                dig = one
            pat = (*pat, *more)
        uses = parent.uses if narrower.uses is None else whole(narrower.uses, "narrower.uses", 1)
        if parent.uses is not None and uses is not None and uses > parent.uses:
            raise TokenRefused(
                "wider", f"the parent has {parent.uses} uses; a child cannot have {uses}"
            )
        now = self._now()
        exp = parent.exp
        if narrower.seconds is not None:
            exp = min(exp, now + int(seconds(narrower.seconds, "narrower.seconds") * 1_000))
        con = Constraints.of_json(parent.con)
        con = con if narrower.constraints is None else con.narrowed(narrower.constraints)
        child = msgspec.structs.replace(
            parent, dig=dig, pat=pat, uses=uses, exp=exp, iat=now, nbf=max(parent.nbf, now),
            con=con.as_json(), jti=new_id("t"), par=parent.chain,
        )  # fmt: skip
        made = mint(child, self._keys)
        entry = {
            "action": new_id("g"), "kind": "attenuated", "at": now,
            "principal": child.sub, "tenant": child.ten, "capability": child.cap,
            "operation": child.op, "token": child.jti, "parent": parent.jti,
        }  # fmt: skip
        await self.store.append(_written(entry))
        return made

    async def revoke(self, token: str) -> None:
        """Revoke a token and its children, in every process that shares the store.

        Raises:
            TokenRefused: It does not hold anyway.
        """
        claims = self._opened(token)
        entry = {
            "action": new_id("r"), "kind": "revoked", "at": self._now(),
            "principal": claims.sub, "tenant": claims.ten, "capability": claims.cap,
            "operation": claims.op, "token": claims.jti,
        }  # fmt: skip
        await self.store.revoke(claims.jti, claims.exp, _written(entry))

    @_redacting
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
        claims = self._opened(token)
        if (claims.sub, claims.ten) != (principal.name, principal.tenant):
            raise TokenRefused("principal", "the token is another principal's; ask for your own")
        spec = self.registry.spec(claims.cap)
        if claims.op != spec.operation:
            raise TokenRefused("operation", "the capability has another operation now")
        self._check_schema(spec, arguments)
        given = check_arguments(claims, arguments)
        who = await resolved(self._resolver, principal)
        now = self._now()
        request = Request(
            spec, who, _moment(now), arguments, claims.why, claims.agt, claims.lab, claims.stp,
            claims.dur,
        )  # fmt: skip
        request = await self._tainted(request, claims.tsk)
        action = _action(claims)
        decision, spent = await self._decided(request, look=dry_run)
        shown = Constraints.of_json(claims.con).narrowed(decision.constraints)
        said = self._entry(
            action, "began", now, who, spec, dig=given, decision=decision,
            justification=claims.why, task=claims.tsk, key=claims.key, token=claims.jti,
        )  # fmt: skip
        said |= await self._facts(request, decision)
        self._refuse_unless_allowed(decision, claims.apv, claims.dig, who, action, said)
        if said["kind"] == "denied":
            raise await self._denied(said, decision)
        try:
            self._firewall.check(response_mode, _limits(shown))
        except GuardError as refused:
            await self._denied({**said, "reason": refused.message}, decision)
            raise
        if dry_run:
            return None
        what = _print(claims.sub, claims.ten, spec, given)
        begun = await self.store.begin(
            Begin(action, what, claims.chain, claims.exp, spent, now, _written(said))
        )
        # An answer to a call that changes nothing twice may have been lost in a crash. But an
        # approval is for one call, and that may still run.
        lost = begun.result is None and spec.repeatable and not claims.req
        if begun.state == "known" and not lost:
            frame = await self._again(begun.result, action, who, response_mode, shown)
            await self._reshown(frame, action, claims.tsk, who, spec)
            return frame
        if begun.state not in ("begun", "known"):
            reason = _REFUSED[begun.state]
            if begun.state == "limited" and decision.verdict and decision.verdict.limit:
                reason = limit_reason(decision.rule, decision.verdict.limit)
            denial = await self._denied({**said, "reason": reason}, decision)
            raise denial if begun.state == "limited" else TokenRefused(begun.state, reason)
        limits = shown.as_json()
        call = DriverCall(
            spec.name, spec.operation, arguments, action, limits, timeout, who, claims.tsk,
            progress,
        )  # fmt: skip
        return await self._run(call, spec, who, shown, response_mode, said)

    @_redacting
    async def repeated(
        self,
        key: str,
        principal: Principal,
        capability: str,
        arguments: Mapping[str, Any],
        response_mode: ResponseMode = "summary",
        *,
        task: str = "",
    ) -> Frame | None:
        """The answer of an action that was begun before with this key; None if it may be made.

        It needs no token: nothing is called. What the policy says now limits what is shown, and
        does not take the answer away.

        Args:
            task: The Task that sees it, for taint.

        Raises:
            TokenRefused: The key was used for another action.
            Indeterminate: The action was begun and may have had an effect.
            NoEffect: It failed.
            RawRefused, ResultGone: As of `invoke`.
        """
        spec = self.registry.spec(capability)
        known = await self.store.recorded(_action_of(principal.name, principal.tenant, key))
        if known is None:
            return None
        given = digest(arguments, "arguments")
        if known[0] != _print(principal.name, principal.tenant, spec, given):
            raise TokenRefused("other", _REFUSED["other"])
        if known[1] is None and spec.repeatable:
            return None
        who = await resolved(self._resolver, principal)
        now = _moment(self._now())
        shown = self.policy.decide(Request(spec, who, now, arguments)).constraints
        self._firewall.check(response_mode, _limits(shown))
        action = _action_of(principal.name, principal.tenant, key)
        frame = await self._again(known[1], action, who, response_mode, shown)
        await self._reshown(frame, action, task, who, spec)
        return frame

    @_redacting
    async def expand(
        self,
        handle: str,
        principal: Principal,
        query: handles.Query | None = None,
        *,
        task: str = "",
    ) -> Frame:
        """A part of a kept result, under the same budgets and redaction as before.

        Args:
            task: The Task that sees it, for taint; the one of the call unless it is given.

        Raises:
            HandleRefused: There is no such handle for this principal.
        """
        query = query or handles.Query()
        who = await resolved(self._resolver, principal)
        now = self._now()
        stored = await handles.found(self.store, handle, who, now)
        spec = self.registry.spec(stored.capability)
        # A role that was taken away since shows less now.
        shown = Constraints.of_json(stored.constraints).narrowed(
            self.policy.decide(Request(spec, who, _moment(now))).constraints
        )
        limits = _limits(shown)
        for name, wanted in query.equals:
            # Filtering by what is not shown would tell its values one by one.
            if self._firewall.hides(name, limits) or self._firewall.redactor.value(wanted)[1]:
                shown_name = self._clean(name)[:80]
                raise InvalidValue("query.equals", f"cannot filter by {shown_name!a}: hidden")
        equals, show = dict(query.equals), self._firewall

        def made() -> Frame:
            part = show.select(
                stored.value, fields=query.fields, equals=equals, offset=query.offset,
                limit=query.limit,
            )  # fmt: skip
            raw = RawResult(part, stored.driver, stored.source)
            return show.frame(raw, mode="table", constraints=limits, handle=handle)

        frame = await _off_the_loop(made, stored.value)
        entry = self._entry(new_id("x"), "expanded", now, who, spec)
        # The id of a handle opens it; the trace has its digest.
        entry["handle"] = hashlib.sha256(handle.encode()).hexdigest()
        await self.store.append(_written(entry), self._saw(frame, task or stored.task, who))
        return frame

    async def explain(self, action_id: str) -> ActionTrace:
        """One action whole, from the trace. Show it to operators, not to models.

        Raises:
            Unknown: The trace has no such action.
        """
        links = await self.store.of_action(action_id)
        if not links:
            raise Unknown("action_id", "no such action is in the trace; check the id and the store")
        return traced(action_id, links)

    async def head(self) -> Head | None:
        """The signed end of the chain, to keep elsewhere; None if nothing was recorded."""
        last = await self.store.last()
        return None if last is None else signed(last.seq, last.hash, self._now(), self._keys)

    async def _approval(
        self, asked: Request, decision: Decision, said: dict[str, Any]
    ) -> tuple[ApprovalRequest, approvals.Verdict]:
        """The approval of a call that needs one; without one it is asked for.

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
            await self.store.append(_written({**said, "kind": "denied", "reason": error.message}))
            raise Denied(error.message, said["action"], decision) from error
        waiting = await self.store.approvals(now, approvals.MOST_OPEN)
        full = len(waiting) == approvals.MOST_OPEN
        if full and all(each.print != wanted.print for each in waiting):
            reason = f"{decision.reason}; {len(waiting)} requests wait already; decide some first"
            await self.store.append(_written({**said, "kind": "denied", "reason": reason}))
            raise Denied(reason, said["action"], decision)
        said |= await self._facts(asked, decision) | {"kind": "asked", "action": wanted.id}
        found = await self.store.ask(wanted, _written(said))
        try:
            verdict = approvals.checked(found, self._keys)
        except approvals.ApprovalRefused as error:
            forged = {**said, "kind": "denied", "action": found.id, "reason": error.message}
            await self.store.append(_written(forged))
            raise
        if verdict is None:
            if found.id != wanted.id:
                await self.store.append(_written({**said, "action": found.id}))
            reason = f"{decision.reason}; it waits for an approval: request {found.id}"
            raise ApprovalNeeded(reason, found.id, decision)
        if not verdict.approved:
            note = f": {verdict.note}" if verdict.note else ""
            reason = f"{decision.reason}; {verdict.by} refused the request {found.id}{note}"
            safe = self._firewall.redactor.text(reason)[0]
            entry = {**said, "kind": "denied", "action": found.id, "reason": safe}
            await self.store.append(_written(entry))
            raise Denied(reason, found.id, decision)
        for name in _FACTS:
            said.pop(name, None)
        said["kind"] = "granted"
        return found, verdict

    def _opened(self, token: str) -> Claims:
        claims = opened(token, self._keys, self._now())
        if (claims.aud, claims.iss) != (self._name, self._name):
            raise TokenRefused("audience", "the token is for another guard")
        return claims

    def _check_schema(self, spec: CapabilitySpec, arguments: Any) -> None:
        said = self.registry.mismatch(spec.name, arguments)
        if said is not None:
            raise InvalidValue("arguments", f"do not fit the schema of {spec.name}: {said}")

    async def _question(
        self, request: CapabilityRequest, principal: Principal, why: str
    ) -> Request:
        who = await resolved(self._resolver, principal)
        asked = self._asked(request, self.registry.spec(request.capability), who, why)
        return await self._tainted(asked, request.task)

    def _asked(
        self, request: CapabilityRequest, spec: CapabilitySpec, who: Principal, why: str
    ) -> Request:
        arguments = request.arguments
        if arguments is None:
            arguments = assumed(request.pattern or {})
        return Request(
            spec, who, _moment(self._now()), arguments, why, request.agent, request.labels,
            request.step_count, request.duration_ms,
        )  # fmt: skip

    async def _tainted(self, request: Request, task: str) -> Request:
        """The request with the taint of its arguments and of its run."""
        if not self.policy.taints:
            return request
        run = _run_of(task, request.principal)
        last, reading = self._readings.get(run, (0, Reading()))
        for number, source, text in await self.store.seen(run, last):
            if number > last:
                reading.add(source, text)
                last = number
        self._readings.pop(run, None)
        self._readings[run] = last, reading
        if len(self._readings) > RUNS:
            del self._readings[next(iter(self._readings))]
        carries = reading.carried(request.arguments)
        return replace(request, carries=carries, has_read=reading.sources)

    def _saw(self, frame: Frame, task: str, who: Principal) -> Seen | None:
        """What to remember of a frame that is about to be shown."""
        if not self.policy.taints or not frame.taint:
            return None
        until = self._now() + REMEMBERED * 1_000
        return Seen(_run_of(task, who), frame.source, remembered(frame), until)

    def _heard(self, message: str, source: str, task: str, who: Principal) -> Seen | None:
        """What to remember of a driver's message that is about to be shown."""
        if not self.policy.taints:
            return None
        until = self._now() + REMEMBERED * 1_000
        return Seen(_run_of(task, who), source, told(message), until)

    async def _decided(
        self, request: Request, *, look: bool = True
    ) -> tuple[Decision, tuple[tuple[str, int, int], ...]]:
        """The policy's decision, and the counters to spend."""
        decision = self.policy.decide(request)
        verdict = decision.verdict
        if verdict is None or verdict.limit is None or decision.effect == "deny":
            return decision, ()
        limit = verdict.limit
        span = int(limit.seconds * 1_000)
        if look and await self.store.count(verdict.counter, self._now() - span) >= limit.calls:
            reason = limit_reason(verdict.rule, limit)
            return Decision("deny", reason, decision.constraints, verdict), ()
        return decision, ((verdict.counter, limit.calls, span),)

    def _left_open(self, asked: Request, decision: Decision) -> Decision:
        """The decision for a pattern: a rule that lacks one argument only decides at the call."""
        if decision.effect == "deny" and not decision.rule:
            for near in self.policy.near(asked):
                if near.effect == "allow" and near.failed.startswith("arguments."):
                    reason = f"the rule {near.rule} decides at each call"
                    return Decision("allow", reason, decision.constraints)
        return decision

    def _refuse_unless_allowed(
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
            elif approved_by == who.name:
                reason = f"{decision.reason}; nobody approves a call of their own"
            elif approvers and approved_by not in approvers:
                reason = f"{decision.reason}; {approved_by!a} is none of its approvers"
            else:
                reason = ""
                said["approved_by"] = approved_by
        if reason:
            said |= {"kind": "denied", "reason": self._clean(reason)}

    async def _run(
        self, call: DriverCall, spec: CapabilitySpec, who: Principal, shown: Constraints,
        mode: ResponseMode, said: dict[str, Any],
    ) -> Frame:  # fmt: skip
        ended = {key: value for key, value in said.items() if key not in _FACTS} | {"kind": "ended"}
        ends = asyncio.get_running_loop().time() + call.timeout
        try:
            raw = await self._router.run(call, spec.idempotent)
        except NoEffect as error:
            error.code = coded(error.code)
            # A model reads the message, so it is a result like any other.
            error.message = shortened(self._clean(error.message))
            seen = self._heard(error.message, error.source or spec.name, call.task, who)
            await self._end(ended, "failed", error.code, _Result(error=error.code), seen=seen)
            raise
        except Exception as error:
            name = self._clean(type(error).__name__)[:80]
            code = coded(error.code) if isinstance(error, Indeterminate) else name
            if spec.safety is SafetyClass.READ:
                await self._end(ended, "failed", code, _Result(error=code))
                raise NoEffect(f"{spec.name} failed: {code}", "guard/failed") from error
            await self._end(ended, "indeterminate", code, _Result())
            raise Indeterminate(
                f"{spec.name} failed ({code}) and may have had an effect; look at the target "
                f"before it is called again (action {call.key})"
            ) from error
        until = self._now() + handles.LIVES * 1_000
        kept: Kept | None = None

        def made() -> tuple[Frame, _Result, Seen | None]:
            nonlocal kept
            kept = handles.kept(raw, who, spec.name, shown, until, call.task)
            frame = self._firewall.frame(
                raw, mode=mode, constraints=_limits(shown), handle=kept.handle if kept else None
            )
            result = _Result(frame=frame.as_json(), shown=shown.as_json())
            msgspec.json.encode(result)
            return frame, result, self._saw(frame, call.task, who)

        try:
            frame, result, seen = await _off_the_loop(made, raw.value, ends)
        except Exception as error:
            # The call has run; only what it answered cannot be shown.
            code, why = getattr(error, "code", type(error).__name__), ""
            if isinstance(error, _TooLarge):
                why = f"has over {handles.MOST:,} characters; ask for a part of it"
            elif isinstance(error, TimeoutError):
                why = f"could not be shown within the {call.timeout:g} seconds of the call"
            await self._end(ended, "succeeded", code, _Result(error=code), kept)
            raise NotShown(spec.name, mode, why) from error
        await self._end(ended, "succeeded", _ANSWERED if raw.failed else "", result, kept, seen)
        return frame

    async def _again(
        self, result: str | None, action: str, who: Principal, mode: ResponseMode,
        shown: Constraints,
    ) -> Frame:  # fmt: skip
        """The answer to an action that was carried out before, for what may be seen now."""
        known = _recorded(result, action)
        frame = _frame_of(known.frame or {})
        if known.shown is not None:
            before = Constraints.of_json(known.shown)
            if before.narrowed(shown) == before:
                return frame
            shown = before.narrowed(shown)
        try:
            stored = await handles.found(self.store, frame.handle, who, self._now())
        except handles.HandleRefused as gone:
            raise ResultGone(action) from gone
        raw = RawResult(stored.value, stored.driver, stored.source, stored.failed)
        limits = _limits(shown)
        return await _off_the_loop(
            lambda: self._firewall.frame(raw, mode=mode, constraints=limits, handle=frame.handle),
            raw.value,
        )

    async def _reshown(
        self, frame: Frame, action: str, task: str, who: Principal, spec: CapabilitySpec
    ) -> None:
        """Remember that a run, perhaps another one than before, sees a recorded frame."""
        seen = self._saw(frame, task, who)
        if seen is not None:
            entry = self._entry(new_id("y"), "repeated", self._now(), who, spec, task=task)
            await self.store.append(_written({**entry, "of": action}), seen)

    async def _denied(self, said: dict[str, Any], decision: Decision) -> Denied:
        """Record a denial of an action; the error to raise."""
        action = new_id("d")
        entry = {**said, "kind": "denied", "action": action, "of": said["action"]}
        await self.store.append(_written(entry))
        return Denied(said["reason"], action, decision)

    async def _end(
        self, entry: dict[str, Any], outcome: str, code: str, result: _Result,
        kept: Kept | None = None, seen: Seen | None = None,
    ) -> None:  # fmt: skip
        entry = {**entry, "at": self._now(), "outcome": outcome, "code": code}
        text = msgspec.json.encode(result).decode()
        await self.store.finish(entry["action"], text, _written(entry), kept, seen)

    def _entry(
        self, action: str, kind: str, now: int, who: Principal, spec: CapabilitySpec, *,
        dig: str = "", decision: Decision | None = None, justification: str = "", task: str = "",
        key: str = "", token: str = "",
    ) -> dict[str, Any]:  # fmt: skip
        return {
            "action": action,
            "kind": kind,
            "at": now,
            "principal": who.name,
            "tenant": who.tenant,
            "capability": spec.name,
            "operation": spec.operation,
            "digest": dig,
            "rule": decision.rule if decision else "",
            "reason": self._clean(decision.reason) if decision else "",
            "justification": self._clean(justification),
            "task": self._clean(task),
            "key": self._clean(key),
            "token": token,
        }

    async def _facts(self, request: Request, decision: Decision) -> dict[str, Any]:
        """What `replayed` asks other rules about."""
        given = dict(request.arguments)
        try:
            arguments, hidden = await _off_the_loop(
                lambda: self._firewall.redactor.value(given), given, most=MOST_GIVEN
            )
        except _TooLarge:
            raise InvalidValue(
                "arguments", f"have over {MOST_GIVEN:,} characters; send less in one call"
            ) from None
        labels = dict(request.labels)
        return {
            "arguments": arguments,
            "redacted": hidden,
            "effect": decision.verdict.effect if decision.verdict else decision.effect,
            "roles": sorted(request.principal.roles),
            "agent": self._clean(request.agent),
            "safety": request.spec.safety.value,
            "labels": self._firewall.redactor.value(labels)[0] if labels else labels,
            "step_count": request.step_count,
            "duration_ms": request.duration_ms,
            "carries": sorted(request.carries),
            "has_read": sorted(request.has_read),
        }

    def _clean(self, text: str) -> str:
        if len(text) <= LONGEST_SAID:
            return self._firewall.redactor.text(text)[0]
        # No half of a secret is at the end of what is left.
        start = self._firewall.redactor.text(text[:LONGEST_SAID])[0]
        return f"{start[:-TAIL]}… [{len(text):,} characters]"

    def _now(self) -> int:
        return int(self._clock() * 1_000)


class _Result(msgspec.Struct):
    """What is recorded of an action's end; without both fields it is not known."""

    frame: dict[str, Any] | None = None
    error: str = ""
    shown: dict[str, Any] | None = None
    """The `Constraints` under which the frame was made."""


_ANSWERED: Final = "guard/answered_failed"
"""The code of a call that was carried out, and whose target answered that it failed."""
_FACTS: Final = frozenset(
    "arguments redacted effect roles agent safety labels step_count duration_ms carries has_read"
    .split()
)  # fmt: skip
"""The fields of an entry that `_facts` makes. The entry of an action's end has none of them."""

_REFUSED: Final = {
    "other": "the key was used for another action; use a new key",
    "revoked": "the token or a parent of it was revoked; ask for a new grant",
    "used_up": "the token or a parent of it has no uses left; ask for a new grant",
    "limited": "a rate limit is used up; try again later",
}


def _recorded(result: str | None, action: str) -> _Result:
    """The recorded answer of an action that was begun before.

    Raises:
        NoEffect: It failed.
        Indeterminate: Its end is not recorded.
    """
    found = _Result() if result is None else msgspec.json.decode(result, type=_Result)
    if found.frame is not None:
        return found
    if found.error:
        raise NoEffect(f"the action {action} was tried before and failed: {found.error}")
    raise Indeterminate(
        f"the action {action} was begun before and may have had an effect; look at the target"
    )


class _TooLarge(Exception):
    """A result is too large to be looked at."""


async def _off_the_loop(
    made: Callable[[], Answer], value: Any, ends: float | None = None, most: int | None = None
) -> Answer:
    """Look at a value; in a thread if it is large, so that the event loop goes on.

    A thread cannot be ended. After its time is over it goes on until it is done, which the most
    characters of a result and the limits of a frame bound.
    """
    if handles.weight(value, IN_THE_LOOP) <= IN_THE_LOOP:
        return made()

    def bounded() -> Answer:
        bound = handles.MOST if most is None else most
        if handles.weight(value, bound) > bound:
            raise _TooLarge
        return made()

    async with asyncio.timeout_at(ends):
        return await asyncio.to_thread(bounded)


def _frame_of(data: Mapping[str, Any]) -> Frame:
    lists = {"rows": tuple(data["rows"]), "taint": tuple(data["taint"])}
    return Frame(**{**data, **lists, "cuts": tuple(Cut(**cut) for cut in data["cuts"])})


def _action(claims: Claims) -> str:
    """The id of an action: the same for the same approval, or for the same key and principal."""
    if claims.req:
        return claims.req
    if not claims.key:
        return new_id("a")
    return _action_of(claims.sub, claims.ten, claims.key)


def _action_of(name: str, tenant: str, key: str) -> str:
    return f"k_{lettered(digest([name, tenant, key])[:40])}"


def _print(name: str, tenant: str, spec: CapabilitySpec, given: str) -> str:
    """The digest of what an action is."""
    return approvals.print_of(name, tenant, spec.name, spec.operation, given)


def _run_of(task: str, who: Principal) -> str:
    """What taint goes with: a Task, or else the principal."""
    return digest([who.name, who.tenant, task])


def _limits(shown: Constraints) -> FrameLimits:
    return FrameLimits(shown.max_rows, shown.allowed_fields, shown.sensitive_fields, shown.raw)


def _moment(now: int) -> datetime:
    return datetime.fromtimestamp(now / 1_000, UTC)


def _written(entry: Mapping[str, Any]) -> str:
    return canonical(entry, "entry").decode()
