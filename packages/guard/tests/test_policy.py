"""The decisions of the policies, and the search of the registry."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Principal
from agentic_kernel_guard.policy import DefaultPolicy, Request, RulePolicy
from agentic_kernel_guard.registry import Registry, UnknownCapability
from agentic_kernel_guard.rules import parse, read
from agentic_kernel_guard.spec import CapabilitySpec

NOW = datetime(2026, 3, 2, tzinfo=UTC)
WHY = "the customer asked"


def spec(name: str = "mail/send", **rest: Any) -> CapabilitySpec:
    return CapabilitySpec(name, f"Does {name}", "op", **rest)


def asked(spec: CapabilitySpec, *roles: str, **rest: Any) -> Request:
    tenant, kind = rest.pop("tenant", ""), rest.pop("kind", "user")
    principal = Principal("ann", tenant, kind=kind, roles=frozenset(roles))
    return Request(spec, principal, NOW, **rest)


@pytest.mark.parametrize(
    ("safety", "roles", "why", "effect"),
    [
        ("read", (), "", "allow"),
        ("write", ("writer",), WHY, "allow"),
        ("write", ("admin",), "x" * 15, "allow"),
        ("write", ("writer",), "x" * 14, "deny"),
        ("write", ("writer",), " " * 15, "deny"),
        ("write", ("writer",), "\u200b" * 15, "deny"),
        ("write", ("writer",), "a" + "\u3164\u2800\ufe0f\U000e0101" * 4, "deny"),
        ("write", ("writer",), "a" + " \n\u3000" * 9 + "b", "deny"),
        ("write", ("writer",), "\u202e\x00" * 9, "deny"),
        ("write", ("reader",), WHY, "deny"),
        ("destructive", ("admin",), "", "allow"),
        ("destructive", ("writer",), WHY, "deny"),
    ],
)
def test_roles_and_justifications_decide(
    safety: Any, roles: tuple[str, ...], why: str, effect: str
) -> None:
    request = asked(spec(safety=safety), *roles, justification=why)
    assert DefaultPolicy().decide(request).effect == effect


@pytest.mark.parametrize("sensitivity", ["pii", "pci", "secret"])
def test_sensitive_data_needs_a_tenant_and_shows_its_allowed_fields(sensitivity: Any) -> None:
    named = frozenset({"name"})
    people = spec(safety="read", sensitivity=sensitivity, allowed_fields=named)
    everything = read(
        'version: 1\nrules: [{name: a, priority: 1, effect: allow, match: {capability: "*"}}]'
    )
    for policy in (DefaultPolicy(), RulePolicy(everything)):
        assert policy.decide(asked(people)).effect == "deny"
        decided = policy.decide(asked(people, tenant="acme"))
        assert (decided.effect, decided.constraints.allowed_fields) == ("allow", named)
        reader = policy.decide(asked(people, "pii_reader", "raw_reader", tenant="acme"))
        secret = sensitivity == "secret"
        assert reader.constraints.allowed_fields == (named if secret else None)
        assert reader.constraints.raw is not secret
    with pytest.raises(InvalidValue, match="list the fields"):
        spec(sensitivity=sensitivity)


def test_a_service_sees_more_rows_than_a_user() -> None:
    rows = [
        DefaultPolicy().decide(asked(spec(), kind=kind)).constraints.max_rows
        for kind in ("user", "service")
    ]
    assert rows == [50, 500]


def test_with_rules_what_no_rule_allows_is_denied() -> None:
    rules = parse("version: 1\nrules: [{name: a, priority: 1, effect: allow, match: {role: ops}}]")
    assert RulePolicy(rules).decide(asked(spec(), "ops")).effect == "allow"
    denied = RulePolicy(rules).decide(asked(spec(safety="read"), "admin"))
    assert (denied.effect, denied.rule) == ("deny", "")
    near = RulePolicy(rules).near(asked(spec(), "admin"))
    assert [(each.rule, each.failed) for each in near] == [("a", "match.role")]


def test_a_capability_without_a_word_is_destructive() -> None:
    assert spec().safety.value == "destructive"
    assert DefaultPolicy().decide(asked(spec(), "writer", justification=WHY)).effect == "deny"


def test_capabilities_are_found_by_words_in_a_stable_order() -> None:
    registry = Registry([spec("mail/send"), spec("mail/read"), spec("post/send", tags={"mail"})])
    found = registry.search("SEND a mail")
    assert [(each.spec.name, round(each.score, 2)) for each in found] == [
        ("mail/send", 0.67),
        ("post/send", 0.67),
        ("mail/read", 0.33),
    ]
    assert registry.search("") == registry.search("zebra") == ()
    assert registry.of_tool("mail_send").name == "mail/send"
    with pytest.raises(UnknownCapability):
        registry.spec("mail/purge")


@pytest.mark.parametrize("other", ["mail/send", "mail/Send", "mail/send."])
def test_tool_names_that_collide_are_refused(other: str) -> None:
    first = "mail/send_" if other.endswith(".") else "mail/send"
    with pytest.raises(InvalidValue, match=r"twice|tool name"):
        Registry([spec(first), spec(other)])
