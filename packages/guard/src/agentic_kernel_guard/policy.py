"""Policy: decides whether a principal may use a capability, and what it may see of the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Protocol

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Principal
from agentic_kernel_engine.edges import came, instance, whole

from .firewall.frame import FrameLimits, check_fields
from .rules import Asked, Near, RuleSet, Verdict
from .rules.rule import Effect
from .rules.visible import seen
from .spec import CapabilitySpec, SafetyClass, Sensitivity

JUSTIFICATION: Final = 15
"""The fewest characters of a justification, as a person sees it."""
USER_ROWS: Final = 50
"""The most rows that a user sees of one result."""
SERVICE_ROWS: Final = 500
"""The most rows that a service sees of one result."""
WRITERS: Final = frozenset({"writer", "admin"})
ADMIN: Final = "admin"
PII_READER: Final = "pii_reader"
RAW_READER: Final = "raw_reader"
"""The role that may see raw output, and may not see that of a capability with secrets."""
_ALLOWED: Final = {each: f"{each.value} is allowed" for each in SafetyClass}


@dataclass(frozen=True, slots=True)
class Constraints(FrameLimits):
    """The part of a result that may be shown: limits of a frame that name the most rows.

    Raises:
        InvalidValue: A field is of another type, or the rows are negative.
    """

    max_rows: int

    def __post_init__(self) -> None:
        if type(self.max_rows) is not int or self.max_rows < 0:
            whole(self.max_rows, "constraints.max_rows", 0)
        check_fields(self, "constraints")

    def as_json(self) -> dict[str, Any]:
        """The constraints as plain data."""
        allowed = self.allowed_fields
        return {
            "allowed_fields": None if allowed is None else sorted(allowed),
            "max_rows": self.max_rows,
            "raw": self.raw,
            "sensitive_fields": sorted(self.sensitive_fields),
        }

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> Constraints:
        """Constraints from their plain data.

        Raises:
            InvalidValue: The data is another one than `as_json` gives.
        """
        try:
            allowed = data["allowed_fields"]
            return cls(
                data["max_rows"],
                None if allowed is None else frozenset(allowed),
                frozenset(data["sensitive_fields"]),
                data["raw"],
            )
        except (KeyError, TypeError, IndexError):
            raise InvalidValue(
                "constraints", f"is {came(data)}; give what as_json has given"
            ) from None

    def narrowed(self, other: Constraints) -> Constraints:
        """The constraints that hold if both hold."""
        instance(other, "other", Constraints)
        one, two = self.allowed_fields, other.allowed_fields
        return Constraints(
            min(self.max_rows, other.max_rows),
            two if one is None else one if two is None else one & two,
            self.sensitive_fields | other.sensitive_fields,
            self.raw and other.raw,
        )


class Request(msgspec.Struct, frozen=True):
    """A request that a policy decides about.

    The Guard makes it. Only the arguments and the justification are words of a model.
    """

    spec: CapabilitySpec
    principal: Principal
    at: datetime
    arguments: Mapping[str, Any] = msgspec.field(default_factory=dict)
    justification: str = ""
    agent: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    step_count: int = 0
    duration_ms: int = 0
    carries: frozenset[str] = frozenset()
    """The sources of which the arguments carry text; empty unless the policy looks at taint."""
    has_read: frozenset[str] = frozenset()
    """The sources whose text the run has seen; empty unless the policy looks at taint."""


class Decision(msgspec.Struct, frozen=True):
    """The decision of a policy. A limit of its verdict is not looked at yet."""

    effect: Effect
    reason: str
    constraints: Constraints
    verdict: Verdict | None = None
    """The answer of the rules; None without rules."""

    @property
    def rule(self) -> str:
        """The rule that decided; empty without one."""
        return self.verdict.rule if self.verdict else ""


class GuardRules(Protocol):
    """The port of policies."""

    @property
    def taints(self) -> bool:
        """True if it looks at taint; the guard then remembers what each run has seen."""
        ...

    def decide(self, request: Request) -> Decision:
        """Decide a request; an error counts as a denial."""
        ...

    def near(self, request: Request) -> tuple[Near, ...]:
        """The rules that failed on one thing only."""
        ...


class DefaultPolicy:
    """The policy that holds without rules.

    READ is allowed. WRITE needs a justification of 15 characters and the role ``writer`` or
    ``admin``. DESTRUCTIVE needs the role ``admin``. Sensitive data needs a tenant, and shows the
    allowed fields only; the role ``pii_reader`` sees all fields of PII and PCI, nobody those of
    secrets. A user sees 50 rows, a service 500.
    """

    taints: Final = False

    def decide(self, request: Request) -> Decision:
        """Decide a request."""
        constraints = limits_of(request.spec, request.principal)
        said = data_denial(request) or _denial(request)
        if said:
            return Decision("deny", said, constraints)
        return Decision("allow", _ALLOWED[request.spec.safety], constraints)

    def near(self, request: Request) -> tuple[Near, ...]:
        """Return None, because there are no rules."""
        return ()


class RulePolicy:
    """Rules decide; the limits of data that hold without rules hold with them, too."""

    def __init__(self, rules: RuleSet) -> None:
        self.rules: Final = instance(rules, "rules", RuleSet)
        self.taints: Final = rules.taints

    def decide(self, request: Request) -> Decision:
        """Decide a request by the first rule that holds; without one, it is denied."""
        constraints = limits_of(request.spec, request.principal)
        verdict = self.rules.decide(_asked(request))
        said = data_denial(request)
        if said and verdict.effect != "deny":
            return Decision("deny", said, constraints, Verdict("deny", said, verdict.rule))
        return Decision(verdict.effect, verdict.reason, constraints, verdict)

    def near(self, request: Request) -> tuple[Near, ...]:
        """The rules that failed on one thing only."""
        return self.rules.near(_asked(request))


def limits_of(spec: CapabilitySpec, principal: Principal) -> Constraints:
    """The part of a capability's results that a principal may see."""
    secret = spec.sensitivity is Sensitivity.SECRET
    sees_all = spec.sensitivity is Sensitivity.NONE or (
        not secret and PII_READER in principal.roles
    )
    return _constraints(
        SERVICE_ROWS if principal.kind == "service" else USER_ROWS,
        # Fields that are listed for data without sensitivity bind everybody.
        None if sees_all and spec.sensitivity is not Sensitivity.NONE else spec.allowed_fields,
        spec.sensitive_fields,
        # Raw output shows every field, so it needs a principal that may see every field.
        RAW_READER in principal.roles and sees_all,
    )


_constraints: Final = lru_cache(1_024)(Constraints)
"""The same object for equal fields, because most calls of a guard have equal limits."""


def data_denial(request: Request) -> str:
    """Why the data may not be touched at all; "" if it may."""
    sensitivity = request.spec.sensitivity
    if sensitivity is not Sensitivity.NONE and not request.principal.tenant:
        return f"{request.spec.name} returns {sensitivity.value} data; the principal needs a tenant"
    return ""


def _denial(request: Request) -> str:
    spec, roles = request.spec, request.principal.roles
    if spec.safety is SafetyClass.WRITE:
        length = len(seen(request.justification))
        if length < JUSTIFICATION:
            return (
                f"{spec.name} writes and needs a justification of {JUSTIFICATION} characters, "
                f"not {length}; say why the call is needed"
            )
        if not roles & WRITERS:
            return f"{spec.name} writes and needs the role writer or admin"
    if spec.safety is SafetyClass.DESTRUCTIVE and ADMIN not in roles:
        return f"{spec.name} is destructive and needs the role {ADMIN}"
    return ""


def _asked(request: Request) -> Asked:
    principal = request.principal
    return Asked(
        request.spec.name,
        request.arguments,
        request.at,
        principal.name,
        principal.tenant,
        principal.roles,
        request.agent,
        request.spec.safety.value,
        request.labels,
        request.step_count,
        request.duration_ms,
        request.carries,
        request.has_read,
    )
