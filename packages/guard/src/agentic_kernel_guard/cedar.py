"""CedarPolicy: asks the policy language Cedar. Only its clear ``Allow`` allows."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import ModuleType
from typing import Any, Final

from .errors import GuardError
from .policy import Decision, Request, data_denial, limits_of
from .rules import Near, Verdict

LONGEST: Final = 1_000_000
"""The most characters of the policies."""
ACTION: Final = "invoke"
_LONG: Final = 2**63
_DECIMAL: Final = Decimal(2**63).scaleb(-4)


class CedarPolicy:
    """Decides by policies of Cedar; the limits of data that hold without rules hold with them, too.

    A request asks whether ``User::"name"`` (``Service::`` for a service) may do
    ``Action::"invoke"`` on ``Capability::"name"``:

    - The principal is in ``Role::`` and ``Tenant::`` of what the resolver says, and has ``name``,
      ``tenant`` and ``kind``.
    - The resource is in ``Tag::`` of its tags, and has ``name``, ``operation``, ``safety`` and
      ``sensitivity``.
    - The context has ``arguments``, ``justification``, ``agent``, ``labels``, ``step_count``,
      ``duration_ms``, ``at`` (milliseconds since 1970), ``carries`` and ``has_read``.

    Policies that do not parse deny everything. A policy that fails, also one that forbids, denies
    the request, because Cedar itself would pass over it. So does an argument without a form in
    Cedar: null, a number with over four decimals or 64 bits, and a key that Cedar reads as an
    entity. A number with a fraction is a ``decimal``.

    Args:
        text: The policies.

    Raises:
        GuardError: The extra ``cedar`` is not installed.
    """

    def __init__(self, text: str) -> None:
        self._cedar = _cedarpy()
        self.error = ""
        """Why the policies cannot be used; empty if they can."""
        self._policies: Any = None
        if not isinstance(text, str) or len(text) > LONGEST:
            self.error = f"must be a text of up to {LONGEST:,} characters"
            text = ""
        else:
            try:
                self._policies = self._cedar.PolicySet.from_str(text)
            except ValueError as error:
                self.error = " ".join(str(error).split())[:500]
        # What a run has read is looked up only for policies that can look at it.
        self.taints: Final = "context" in text

    def decide(self, request: Request) -> Decision:
        """Decide a request; an error is a denial."""
        constraints = limits_of(request.spec, request.principal)
        said, rule = data_denial(request), ""
        if not said:
            said, rule = self._denial(request)
        effect: Any = "deny" if said else "allow"
        reason = said or f"the Cedar policy {rule} allows it"
        return Decision(effect, reason, constraints, Verdict(effect, reason, rule))

    def near(self, request: Request) -> tuple[Near, ...]:
        """Return None, because Cedar does not name the rules that nearly held."""
        return ()

    def _denial(self, request: Request) -> tuple[str, str]:
        """Why the request is denied, "" if it is not; and the policy that decided."""
        if self.error:
            return f"the Cedar policies cannot be used: {self.error}", ""
        try:
            asked, entities = _asked(request)
            answer = self._cedar.is_authorized(asked, self._policies, entities)
            decision, errors = answer.decision, answer.diagnostics.errors
            named = answer.diagnostics.id_annotations_by_reason
            rule = ", ".join(named.get(each) or each for each in answer.diagnostics.reasons)[:200]
        except Exception as error:
            return f"Cedar cannot look at the request: {' '.join(str(error).split())[:300]}", ""
        if errors:
            return f"Cedar failed on the request: {' '.join(errors[0].split())[:300]}", rule
        if decision == self._cedar.Decision.Allow:
            return "", rule
        if rule:
            return f"the Cedar policy {rule} forbids it", rule
        return "no Cedar policy permits it; add one", ""


def _asked(request: Request) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The request and the entities, in Cedar's JSON."""
    spec, who = request.spec, request.principal
    kind = "Service" if who.kind == "service" else "User"
    principal, resource = _uid(kind, who.name), _uid("Capability", spec.name)
    groups = [_uid("Role", role) for role in sorted(who.roles)]
    if who.tenant:
        groups.append(_uid("Tenant", who.tenant))
    tags = [_uid("Tag", tag) for tag in sorted(spec.tags)]
    entities: list[dict[str, Any]] = [
        {
            "uid": principal,
            "attrs": {"name": who.name, "tenant": who.tenant, "kind": who.kind},
            "parents": groups,
        },
        {
            "uid": resource,
            "attrs": {
                "name": spec.name,
                "operation": spec.operation,
                "safety": spec.safety.value,
                "sensitivity": spec.sensitivity.value,
            },
            "parents": tags,
        },
    ]
    context = {
        "arguments": _formed(request.arguments, "arguments"),
        "justification": request.justification,
        "agent": request.agent,
        "labels": _formed(request.labels, "labels"),
        "step_count": request.step_count,
        "duration_ms": request.duration_ms,
        "at": int(request.at.timestamp() * 1_000),
        "carries": sorted(request.carries),
        "has_read": sorted(request.has_read),
    }
    return {
        "principal": principal,
        "action": _uid("Action", ACTION),
        "resource": resource,
        "context": context,
    }, entities


def _uid(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "id": name}


def _formed(value: Any, where: str) -> Any:
    """A value in Cedar's JSON.

    Raises:
        ValueError: It has no form there.
    """
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        if not -_LONG <= value < _LONG:
            raise ValueError(f"{where} has over 64 bits")
        return value
    if isinstance(value, float):
        number = Decimal(repr(value))
        if not number.is_finite() or abs(number) >= _DECIMAL or round(number, 4) != number:
            raise ValueError(f"{where} is no number of up to four decimals")
        # A decimal of Cedar has a point and one to four digits after it.
        return {"__extn": {"fn": "decimal", "arg": f"{number:.4f}"}}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key.startswith("__"):
                raise ValueError(
                    f"{where} has the key {key!a:.60}, which Cedar may read as its own"
                )
        return {key: _formed(each, f"{where}.{key}"[:200]) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_formed(each, where) for each in value]
    what = "null" if value is None else type(value).__name__
    raise ValueError(f"{where} is {what}, which has no form in Cedar; leave it out")


def _cedarpy() -> ModuleType:
    try:
        import cedarpy
    except ImportError as error:
        raise GuardError(
            "guard/not_installed", "CedarPolicy needs cedarpy; install agentic-kernel-guard[cedar]"
        ) from error
    return cedarpy
