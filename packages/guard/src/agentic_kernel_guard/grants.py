"""Grants: what is asked for, what is refused, and how a grant is bound to its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine.edges import came, entries, flag, instance, seconds, text, whole

from .canonical import digest
from .errors import GuardError
from .ids import new_id
from .policy import Constraints, Decision
from .rules.predicate import Predicate, pattern
from .rules.text import RuleError
from .tokens import Claims, TokenRefused

WAITS: Final = 7 * 24 * 3_600.0
"""The most seconds that an approval holds, if no rule says a time."""
LONGEST: Final = 1_000
"""The most characters of a Task's id, a key, or the name of an agent or an approver."""
MOST_LABELS: Final = 64
"""The most labels of a request."""
DEEPEST: Final = 8
"""The most parents of a token."""


class Denied(GuardError):
    """The policy denies it. The trace says so, under the action's id.

    Attributes:
        decision: The decision of the policy.
        action: Id of the denial, for `Guard.explain`.
    """

    def __init__(self, reason: str, action: str, decision: Decision | None = None) -> None:
        self.decision = decision
        self.action = action
        super().__init__("guard/denied", reason)


class ApprovalNeeded(Denied):
    """The policy wants an approval, and there is none that counts.

    If the request says `ask`, `action` is the id of the request for an approval, and of the action
    that runs once it is approved.
    """


@dataclass(frozen=True, slots=True)
class CapabilityRequest:
    """A request for a grant.

    A grant is for arguments, or for all arguments that fit a pattern. The pattern is written as the
    predicates of a rule. An argument that it does not name is refused.

    Raises:
        InvalidValue: A part is of another type, or out of its range; or it is approved for several
            calls, or for longer than an approval holds.
    """

    capability: str
    arguments: Mapping[str, Any] | None = None
    pattern: Mapping[str, Any] | None = None
    uses: int | None = 1
    """The most uses of the token; None for no limit until it expires."""
    seconds: float | None = None
    """The lifetime of the token; None for the guard's own one."""
    task: str = ""
    key: str = ""
    """Key of the action: a repeated call with it answers with the recorded result."""
    agent: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    step_count: int = 0
    duration_ms: int = 0
    approved_by: str = ""
    """The person or program that approved these arguments, in the words of the host's code."""
    ask: bool = False
    """True to ask for an approval in the guard's store if one is needed: the grant is refused, a
    person decides in any process that shares the store (`approvals.decide`), and the same request
    is then granted, once."""

    def __post_init__(self) -> None:
        text(self.capability, "request.capability")
        for name in ("task", "key", "agent", "approved_by"):
            value = text(getattr(self, name), f"request.{name}")
            if len(value) > LONGEST:
                raise InvalidValue(
                    f"request.{name}", f"has {len(value):,} characters; use up to {LONGEST:,}"
                )
        check_parts(self, "request")
        for key, label in entries(self.labels, "request.labels", MOST_LABELS):
            text(key, "request.labels", empty=False)
            text(label, f"request.labels[{key!a:.80}]")
        whole(self.step_count, "request.step_count", 0)
        whole(self.duration_ms, "request.duration_ms", 0)
        flag(self.ask, "request.ask")
        if self.approved_by and self.uses != 1:
            raise InvalidValue(
                "request.uses", f"is {self.uses}; an approval is for one call, use 1"
            )
        if self.approved_by and (self.seconds or 0) > WAITS:
            raise InvalidValue(
                "request.seconds",
                f"is {self.seconds:,}; an approval holds for up to {WAITS:,.0f} seconds",
            )


@dataclass(frozen=True, slots=True)
class Narrower:
    """The limits of a child token within its parent. A limit that is not given stays as it is.

    Raises:
        InvalidValue: A part is of another type, or out of its range.
    """

    arguments: Mapping[str, Any] | None = None
    pattern: Mapping[str, Any] | None = None
    uses: int | None = None
    seconds: float | None = None
    constraints: Constraints | None = None

    def __post_init__(self) -> None:
        check_parts(self, "narrower")
        if self.constraints is not None:
            instance(self.constraints, "narrower.constraints", Constraints)


def check_parts(asked: CapabilityRequest | Narrower, name: str) -> None:
    """Check what a request and a narrower have both.

    Raises:
        InvalidValue: The arguments or the pattern are no mapping, or the uses or seconds are wrong.
    """
    for part in ("arguments", "pattern"):
        given = getattr(asked, part)
        if given is not None and not isinstance(given, Mapping):
            raise InvalidValue(f"{name}.{part}", f"is {came(given)}; give a mapping by name")
    if asked.uses is not None:
        whole(asked.uses, f"{name}.uses", 1)
    if asked.seconds is not None:
        seconds(asked.seconds, f"{name}.seconds")


def bound(
    arguments: Mapping[str, Any] | None, fit: Mapping[str, Any] | None
) -> tuple[str | None, tuple[dict[str, Any], ...]]:
    """The digest or the pattern of a grant.

    Raises:
        InvalidValue: There are both, or neither; or the pattern is wrong.
    """
    if (arguments is None) == (fit is None):
        raise InvalidValue("request", "give either the arguments or a pattern that they must fit")
    if arguments is not None:
        return digest(arguments, "arguments"), ()
    assert fit is not None, "one of both is given"
    predicates(fit)
    return None, ({str(name): dict(tests) for name, tests in fit.items()},)


def predicates(fit: Mapping[str, Any]) -> tuple[Predicate, ...]:
    """The predicates of a pattern.

    Raises:
        InvalidValue: One is wrong; an empty pattern grants a call without arguments.
    """
    try:
        return pattern(fit)
    except RuleError as error:
        raise InvalidValue("pattern", error.problem) from None


def assumed(claims_pattern: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a pattern fixes, for the policy's look at the grant."""
    return {
        name: tests["equals"]
        for name, tests in claims_pattern.items()
        if not name.startswith("/") and "equals" in tests
    }


def check_arguments(claims: Claims, arguments: Mapping[str, Any]) -> str:
    """Check that a token is for some arguments; return their digest.

    Raises:
        TokenRefused: It is not.
    """
    given = digest(arguments, "arguments")
    if claims.dig is not None and claims.dig != given:
        raise TokenRefused("arguments", "the token is for other arguments; ask for a new grant")
    if claims.pat:
        named = {name[1:].split("/")[0] if name[:1] == "/" else name for name in claims.pat[0]}
        extra = len(set(arguments) - named)
        if extra:
            # Not by their names, which may be secrets.
            raise TokenRefused(
                "arguments",
                f"{extra:,} of the arguments are not named by the token's pattern; it names "
                f"{', '.join(sorted(named))[:500] or 'none'}",
            )
    for fit in claims.pat:
        for each in predicates(fit):
            try:
                failed = each.failed(arguments)
            except TypeError as error:
                raise TokenRefused("arguments", str(error)) from None
            if failed:
                raise TokenRefused(
                    "arguments",
                    f"the argument {ascii(each.name)[:60]} does not fit the token's pattern: "
                    f"{failed}",
                )
    return given


def narrowed(parent: Claims, narrower: Narrower, now: int) -> Claims:
    """The claims of a child token.

    Raises:
        TokenRefused: The parent has too many parents, or the child would grant more.
        InvalidValue: A part of `narrower` is wrong.
    """
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
    exp = parent.exp
    if narrower.seconds is not None:
        exp = min(exp, now + int(seconds(narrower.seconds, "narrower.seconds") * 1_000))
    con = Constraints.of_json(parent.con)
    con = con if narrower.constraints is None else con.narrowed(narrower.constraints)
    return msgspec.structs.replace(
        parent, dig=dig, pat=pat, uses=uses, exp=exp, iat=now, nbf=max(parent.nbf, now),
        con=con.as_json(), jti=new_id("t"), par=parent.chain,
    )  # fmt: skip
