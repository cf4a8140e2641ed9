"""CedarPolicy: only a clear Allow allows, and what is asked is what the guard knows."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from agentic_kernel_engine import Principal
from agentic_kernel_guard import CapabilityRequest, CapabilitySpec, CedarPolicy, Denied, SafetyClass
from agentic_kernel_guard.policy import Request

from .guards import ANN, WHY, World
from .test_taint import SPECS as SOURCED

READS = 'permit(principal, action == Action::"invoke", resource) when {resource.safety == "read"};'
WRITERS = """
@id("writers")
permit(principal in Role::"writer", action, resource) when {context.justification like "*asked*"};
@id("not-many")
forbid(principal, action, resource) when {context.arguments has id && context.arguments.id > 99};
"""


async def denied(world: World, name: str, why: str = WHY, /, **given: Any) -> str:
    """The reason of the denial; "" if the call ran."""
    asked = CapabilityRequest(f"crm/{name}", given or {"id": 1})
    try:
        token = await world.guard.grant_capability(asked, ANN, why)
        await world.guard.invoke(token, ANN, asked.arguments or {})
    except Denied as error:
        return error.message
    return ""


async def test_policies_decide_about_roles_of_the_resolver_and_arguments() -> None:
    world = World(CedarPolicy(READS + WRITERS))
    assert await denied(world, "find") == ""
    assert "no Cedar policy permits it" in await denied(world, "change")
    world.roles["ann"] = {"writer"}
    assert await denied(world, "change") == ""
    assert "no Cedar policy permits it" in await denied(world, "change", "because")
    assert "not-many forbids it" in await denied(world, "find", id=100)
    assert [name for name, _ in world.operations.calls] == ["find", "change"]
    (granted, *_) = [x.entry for x in await world.store.links() if x.entry["rule"] == "writers"]
    assert granted["reason"] == "the Cedar policy writers allows it"


@pytest.mark.parametrize(
    "text",
    [
        "", "nonsense", "permit(principal, action, resource)", "permit(principal); " + READS,
        'permit(principal, action, resource) when {context.nothing == 1};',
        READS + "forbid(principal, action, resource) when {context.nothing == 1};",
        READS + "forbid(principal, action, resource) when {context.arguments.id == \"1\" + 1};",
        "x" * 1_000_001, None, b"permit(principal, action, resource);",
    ],
)  # fmt: skip
async def test_what_does_not_parse_or_fails_denies(text: Any) -> None:
    world = World(CedarPolicy(text))
    assert await denied(world, "find") != ""
    assert world.operations.calls == []


async def test_a_forbidding_policy_that_fails_is_not_passed_over() -> None:
    forbids = "forbid(principal, action, resource) when {context.arguments.more == 1};"
    assert "more" in await denied(World(CedarPolicy(READS + forbids)), "find")


OPEN = "permit(principal, action, resource);"
ADMINS = 'permit(principal, action, resource) when {context.arguments.who in Role::"admin"};'


@pytest.mark.parametrize(
    ("text", "given"),
    [
        (ADMINS, {"who": {"__entity": {"type": "Role", "id": "admin"}}}),
        (ADMINS, {"who": {"type": "Role", "id": "admin"}}),
        (OPEN, {"id": 1, "who": [{"__extn": {"fn": "ip", "arg": "1.1.1.1"}}]}),
        (OPEN, {"id": 1, "who": {"__expr": 'Role::"admin"'}}),
        (OPEN, {"id": 1, "who": None}),
        (OPEN, {"id": 1, "who": [None]}),
        (OPEN, {"id": 1, "who": 0.00001}),
        (OPEN, {"id": 1, "who": 1e300}),
    ],
)
async def test_arguments_are_never_read_as_entities_and_nothing_is_left_out(
    text: str, given: dict[str, Any]
) -> None:
    world = World(CedarPolicy(text))
    assert await denied(world, "find", id=1) == "" or text == ADMINS
    calls = len(world.operations.calls)
    assert await denied(world, "find", **{"id": 1, **given}) != ""
    assert len(world.operations.calls) == calls


@pytest.mark.parametrize(
    ("price", "cheap"), [(9.9, True), (10.1, False), (9.0, True), (-3.25, True), (1e3, False)]
)
async def test_a_number_with_a_fraction_is_a_decimal(price: float, cheap: bool) -> None:
    text = """permit(principal, action, resource)
        when {context.arguments.price.lessThan(decimal("10.0"))};"""
    assert (await denied(World(CedarPolicy(text)), "find", id=1, price=price) == "") is cheap


def test_names_with_quotes_are_names() -> None:
    policy = CedarPolicy('permit(principal == User::"ann", action, resource);')
    spec = CapabilitySpec("crm/find", "find", "find", safety=SafetyClass.READ)
    for name, effect in (
        ("ann", "allow"),
        ('ann", action, resource); //', "deny"),
        ("Ann", "deny"),
    ):
        asked = Request(spec, Principal(name, "acme"), _at())
        assert policy.decide(asked).effect == effect
    service = Request(spec, Principal("ann", "acme", kind="service"), _at())
    assert policy.decide(service).effect == "deny"


def _at() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


async def test_tenants_tags_and_taint_can_be_asked_for() -> None:
    text = """permit(principal in Tenant::"acme", action, resource in Tag::"open")
        unless {context.has_read.contains("web")};"""
    policy = CedarPolicy(text)
    assert policy.taints
    assert not CedarPolicy(READS).taints
    spec = CapabilitySpec("a/b", "b", "b", safety=SafetyClass.READ, tags=frozenset({"open"}))
    asks = (("acme", (), "allow"), ("acme", ("web",), "deny"), ("x", (), "deny"))
    for tenant, read, effect in asks:
        asked = Request(spec, Principal("ann", tenant), _at(), has_read=frozenset(read))
        assert policy.decide(asked).effect == effect
    assert policy.decide(Request(SOURCED[0], ANN, _at())).effect == "deny"


async def test_the_limits_of_data_hold_with_cedar_too() -> None:
    policy = CedarPolicy(OPEN)
    spec = CapabilitySpec(
        "hr/list", "list", "list", safety=SafetyClass.READ, sensitivity="pii",  # type: ignore[arg-type]
        allowed_fields=frozenset({"name"}),
    )  # fmt: skip
    assert policy.decide(Request(spec, Principal("ann"), _at())).effect == "deny"
    allowed = policy.decide(Request(spec, ANN, _at()))
    assert (allowed.effect, allowed.constraints.allowed_fields) == ("allow", frozenset({"name"}))


def test_without_cedarpy_the_error_names_the_extra() -> None:
    script = (
        "import sys; sys.modules['cedarpy'] = None\n"
        "from agentic_kernel_guard import CedarPolicy, GuardError\n"
        "try: CedarPolicy('')\n"
        "except GuardError as error: print(error.code, error)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout
    assert said == (
        "guard/not_installed CedarPolicy needs cedarpy; install agentic-kernel-guard[cedar]\n"
    )
