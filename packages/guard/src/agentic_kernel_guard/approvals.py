"""Approvals: calls that wait for a person, who decides in another process.

A request stands in the guard's store. A decision of it is signed, so that a program that can write
to the store, but has no key, cannot approve a call.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel.frozen import shown
from agentic_kernel_engine.edges import flag, instance, part, text, whole

from .canonical import canonical, digest
from .errors import GuardError
from .firewall import Redactor
from .grants import WAITS
from .ids import url_base64
from .rules import Approval
from .rules.visible import alike, name_fault
from .stores import ApprovalRequest, GuardStore
from .tokens import Keyring

MOST_OPEN: Final = 100
"""The most requests that wait for a decision at once, of all principals of a store."""
LONGEST: Final = 262_144
"""The most characters of a call, as JSON, that a person is asked about."""
LONGEST_NOTE: Final = 2_000
"""The most characters of a note to a decision."""
_DOMAIN: Final = b"agentic-kernel-guard/approval/1\0"


class ApprovalRefused(GuardError):
    """A request cannot be decided, or not by this person. The code says why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"guard/approval_{code}", message)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The call that a person decides about."""

    principal: str
    tenant: str
    capability: str
    operation: str
    safety: str
    arguments: dict[str, Any]
    """As they are, unredacted."""
    justification: str
    """Why the caller wants it. It is the word of a model."""
    rule: str
    reason: str
    approvers: tuple[str, ...] = ()
    """The persons who may approve it; empty for every person but the principal."""

    @property
    def print(self) -> str:
        """The digest of what the action is."""
        given = digest(self.arguments, "arguments")
        return print_of(self.principal, self.tenant, self.capability, self.operation, given)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A person's decision."""

    approved: bool
    by: str
    at: int
    """Milliseconds since 1970."""
    note: str
    key: str
    mac: str
    seen: str = ""
    """The digest of what the person saw; empty in decisions of earlier releases."""

    def message(self, request: ApprovalRequest) -> bytes:
        """The text that is signed."""
        said: list[Any] = [
            request.id, request.print, request.until, self.approved, self.by, self.at, self.note,
            self.key,
        ]  # fmt: skip
        if self.seen:
            said.append(digest(request.body))
        return _DOMAIN + canonical(said, "verdict")


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A request for an approval, read."""

    id: str
    asked: Asked
    at: int
    """The time of the request; milliseconds since 1970."""
    until: int
    """The end of the request, and of an approval of it."""
    verdict: Verdict | None

    @property
    def why(self) -> str:
        """The justification that the person reads, and under which the call runs."""
        return self.asked.justification

    @classmethod
    def of(cls, request: ApprovalRequest) -> PendingApproval:
        """The request of a store."""
        verdict = request.verdict
        return cls(
            request.id,
            msgspec.json.decode(request.body, type=Asked),
            request.asked,
            request.until,
            None if verdict is None else msgspec.json.decode(verdict, type=Verdict),
        )


def print_of(name: str, tenant: str, capability: str, operation: str, given: str) -> str:
    """The digest of what an action is: who does what, with arguments of which digest."""
    return digest([name, tenant, capability, operation, given])


def new_request(id: str, asked: Asked, rule: Approval, now: int) -> ApprovalRequest:
    """A request as a store keeps it.

    Raises:
        ApprovalRefused: The call is longer than a person could read.
    """
    body = canonical(msgspec.to_builtins(asked), "request").decode()
    if len(body) > LONGEST:
        raise ApprovalRefused(
            "too_long",
            f"the call has {len(body):,} characters, and a person is asked about up to "
            f"{LONGEST:,}; split it",
        )
    waits = WAITS if rule.timeout is None else rule.timeout
    return ApprovalRequest(id, asked.print, body, now, now + int(waits * 1_000))


def checked(request: ApprovalRequest, keys: Keyring) -> Verdict | None:
    """The decision of a request; None if there is none yet.

    Raises:
        ApprovalRefused: No live key has signed it.
    """
    if request.verdict is None:
        return None
    verdict = msgspec.json.decode(request.verdict, type=Verdict)
    mac = keys.mac(verdict.key, verdict.message(request))
    if mac is None or not hmac.compare_digest(_text(mac), verdict.mac):
        raise ApprovalRefused(
            "forged", f"no live key signed the decision of {request.id}; do not trust the store"
        )
    return verdict


async def pending(store: GuardStore, now: int, limit: int = MOST_OPEN) -> list[PendingApproval]:
    """The requests that wait for a decision, the oldest first."""
    part(store, "store", GuardStore)
    whole(now, "now", 0)
    whole(limit, "limit", 1)
    return [PendingApproval.of(each) for each in await store.approvals(now, limit)]


async def reasons(store: GuardStore, id: str) -> list[str]:
    """The different justifications of the calls that wait for a request, in order, as the trace
    has them.

    The first is that of the request. The approved call runs under that one, whatever a later call
    says; the others tell a person what else the caller has said.
    """
    found: dict[str, None] = {}
    for link in await store.of_action(text(id, "id")):
        entry = link.entry
        if entry["kind"] == "asked":
            found[entry.get("justification", "")] = None
    return list(found)


async def decide(
    store: GuardStore,
    keys: Keyring,
    id: str,
    *,
    by: str,
    approved: bool,
    now: int,
    note: str = "",
) -> PendingApproval:
    """Decide a request, once.

    Args:
        store: The guard's store.
        keys: The guard's keys.
        id: The request.
        by: The person, as the caller has authenticated them; never a model's word.
        approved: True to let the call run once.
        now: Milliseconds since 1970.
        note: Why; the caller reads it if the request is refused.

    Raises:
        ApprovalRefused: There is no such request, it is decided, used or over, this person may not
            approve it, or the person's name could be taken for another one.
        InvalidValue: Another argument is not accepted.
    """
    fault = name_fault(by)
    if fault:
        raise ApprovalRefused("name", f"the approver {shown(by)} {fault}")
    if len(text(note, "note")) > LONGEST_NOTE:
        raise InvalidValue("note", f"has {len(note):,} characters; use up to {LONGEST_NOTE:,}")
    flag(approved, "approved")
    part(store, "store", GuardStore)
    instance(keys, "keys", Keyring)
    whole(now, "now", 0)
    text(id, "id")
    found = await store.approval(id)
    if found is None:
        raise ApprovalRefused("unknown", f"there is no request {shown(id)}; check the id")
    request = PendingApproval.of(found)
    _check_open(request, now)
    if request.asked.print != found.print:
        raise ApprovalRefused("forged", f"{id} shows another call than it is for; refuse it")
    if approved:
        _check_approver(request, by)
    verdict = Verdict(
        approved=approved, by=by, at=now, note=note, key=keys.signing, mac="",
        seen=digest(found.body),
    )  # fmt: skip
    mac = keys.mac(keys.signing, verdict.message(found))
    assert mac is not None, "a keyring has its signing key"
    signed = msgspec.structs.replace(verdict, mac=_text(mac))
    asked = request.asked
    entry = {
        "action": id, "kind": "approved" if approved else "refused", "at": now, "by": by,
        "note": Redactor().text(note)[0], "principal": asked.principal, "tenant": asked.tenant,
        "capability": asked.capability, "operation": asked.operation,
    }  # fmt: skip
    written = canonical(msgspec.to_builtins(signed), "verdict").decode()
    settled = await store.settle(id, written, now, canonical(entry, "entry").decode())
    if settled is None:
        raise ApprovalRefused("unknown", f"there is no request {shown(id)} any more")
    after = PendingApproval.of(settled)
    if after.verdict != signed:
        _check_open(after, now)
        raise ApprovalRefused("used", f"the action of {id} has begun, or its time is over")
    return after


def _check_open(request: PendingApproval, now: int) -> None:
    if request.verdict is not None:
        said = "approved" if request.verdict.approved else "refused"
        raise ApprovalRefused(
            "decided", f"{request.verdict.by} has {said} {request.id}; a decision stays"
        )
    if now >= request.until:
        raise ApprovalRefused("over", f"the time of {request.id} is over; the call must ask again")


def _check_approver(request: PendingApproval, by: str) -> None:
    if alike(by, request.asked.principal):
        raise ApprovalRefused(
            "own_call", f"{shown(by)} asked for it, and nobody approves a call of their own"
        )
    approvers = request.asked.approvers
    if approvers and by not in approvers:
        raise ApprovalRefused(
            "approver", f"{shown(by)} is none of its approvers: {', '.join(approvers)[:500]}"
        )


def _text(mac: bytes) -> str:
    return url_base64(mac).decode()
