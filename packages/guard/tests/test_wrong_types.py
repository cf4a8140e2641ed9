"""A value of a wrong type, at any constructor or method, is refused by a typed error."""

from __future__ import annotations

import inspect
import math
import ssl
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from agentic_kernel import KernelError
from agentic_kernel_engine.seams import Tools
from agentic_kernel_guard import (
    AsGiven,
    Budgets,
    CapabilityRequest,
    CapabilitySpec,
    CedarPolicy,
    Constraints,
    DefaultPolicy,
    DriverCall,
    Endpoint,
    Firewall,
    FrameLimits,
    Guard,
    GuardedTools,
    GuardPolicy,
    Head,
    HTTPDriver,
    InMemoryDriver,
    Key,
    Keyring,
    MemoryGuardStore,
    Narrower,
    PostgresGuardStore,
    Principals,
    Query,
    RawResult,
    Redactor,
    RedactorStream,
    Registry,
    RulePolicy,
    StaticRouter,
    ToolsDriver,
)
from agentic_kernel_guard.approvals import decide, pending
from agentic_kernel_guard.rules import cases, parse, read
from agentic_kernel_guard.spec_file import parse as parse_specs
from agentic_kernel_guard.tokens import opened
from agentic_kernel_guard.trace import check_export, export, replayed, signed, verify

from .guards import ANN, KEYS, SPECS, WHY, World

TLS = ssl.create_default_context()
RULES = 'version: 1\nrules: [{name: a, priority: 1, effect: allow, match: {capability: "*"}}]'
WRONG: dict[str, Any] = {
    "none": None, "number": 5, "negative": -1, "fraction": 1.5, "nan": math.nan, "text": "x",
    "bytes": b"x", "list": [], "numbers": [1], "mapping": {}, "object": object(), "true": True,
    "function": lambda: None, "class": dict, "keys": {5: 5}, "surrogate": "\ud800",
    "million": "x" * 1_000_000, "huge": 10**400,
}  # fmt: skip


class Made:
    """The objects and arguments of the calls below."""

    def __init__(self) -> None:
        self.world = World(ann="admin")
        self.guard = self.world.guard
        self.now = int(self.world.now * 1_000)
        self.spec = SPECS[0]
        self.driver = InMemoryDriver({"find": lambda **given: given})
        self.rules = parse(RULES)
        self.request = CapabilityRequest("crm/find", {"id": 1})

    async def token(self, **more: Any) -> str:
        request = CapabilityRequest("crm/change", {"id": 1}, **more)
        return await self.guard.grant_capability(request, ANN, WHY)


Call = tuple[Callable[..., Any], dict[str, Any]]


def constructors(made: Made) -> dict[str, Call]:
    guard = {
        "registry": Registry(SPECS), "router": StaticRouter({}), "policy": DefaultPolicy(),
        "store": MemoryGuardStore(), "keys": KEYS, "resolver": AsGiven(), "firewall": Firewall(),
        "name": "guard", "clock": lambda: 5.0,
    }  # fmt: skip
    return {
        "Guard": (Guard, guard),
        "CapabilityRequest": (
            CapabilityRequest,
            {
                "capability": "a/b", "arguments": {}, "pattern": {}, "uses": 1, "seconds": 1.0,
                "task": "t", "key": "k", "agent": "a", "labels": {"a": "b"}, "step_count": 1,
                "duration_ms": 1, "approved_by": "", "ask": False,
            },
        ),
        "Narrower": (
            Narrower,
            {
                "arguments": {}, "pattern": {}, "uses": 1, "seconds": 1.0,
                "constraints": Constraints(1),
            },
        ),
        "CapabilitySpec": (
            CapabilitySpec,
            {
                "name": "a/b", "description": "b", "operation": "o",
                "arguments": {"type": "object"}, "result": {"type": "object"}, "safety": "read",
                "idempotent": True, "sensitivity": "none", "allowed_fields": frozenset("a"),
                "sensitive_fields": frozenset("a"), "tags": frozenset("a"),
            },
        ),
        "Constraints": (
            Constraints,
            {
                "max_rows": 1, "allowed_fields": frozenset("a"),
                "sensitive_fields": frozenset("a"), "raw": False,
            },
        ),
        "FrameLimits": (
            FrameLimits,
            {
                "max_rows": 1, "allowed_fields": frozenset("a"),
                "sensitive_fields": frozenset("a"), "raw": False,
            },
        ),
        "Budgets": (Budgets, {"rows": 1, "fields": 1, "chars": 1, "depth": 1}),
        "Query": (Query, {"fields": ("a",), "equals": (("a", 1),), "offset": 0, "limit": 1}),
        "Registry": (Registry, {"specs": [made.spec], "naming": lambda name: "a"}),
        "StaticRouter": (StaticRouter, {"routes": {"crm/find": [made.driver]}}),
        "InMemoryDriver": (
            InMemoryDriver,
            {"operations": {"find": lambda: 1}, "name": "m", "source": "s"},
        ),
        "ToolsDriver": (
            ToolsDriver, {"tools": Tools(), "name": "m", "source": "s", "refusals": ("a",)}
        ),
        "DriverCall": (
            DriverCall,
            {
                "capability": "a/b", "operation": "o", "arguments": {}, "key": "k",
                "constraints": {}, "timeout": 1.0, "principal": ANN, "task": "t",
            },
        ),
        "RawResult": (RawResult, {"value": 1, "driver": "d", "source": "s", "failed": False}),
        "Endpoint": (Endpoint, {"method": "GET", "url": "https://example.org/a"}),
        "HTTPDriver": (
            HTTPDriver,
            {
                "endpoints": {"a": Endpoint("GET", "https://example.org/a")},
                "hosts": ["example.org"], "name": "h", "source": "s", "loopback": ["127.0.0.1:80"],
                "refusals": [404], "key_header": "Key", "most_bytes": 5, "tls": TLS,
            },
        ),
        "Principals": (Principals, {"known": [ANN]}),
        "RulePolicy": (RulePolicy, {"rules": made.rules}),
        "CedarPolicy": (CedarPolicy, {"text": "permit(principal, action, resource);"}),
        "Firewall": (Firewall, {"budgets": Budgets(), "redactor": Redactor()}),
        "Redactor": (Redactor, {"fields": ["a"], "shows": ["mail"]}),
        "RedactorStream": (RedactorStream, {"shows": ["mail"]}),
        "Key": (Key, {"id": "k", "secret": bytes(range(32))}),
        "Keyring": (Keyring, {"keys": [Key("k", bytes(range(32)))]}),
        "Keyring.read": (Keyring.read, {"text": f"k:{bytes(range(32)).hex()}"}),
        "PostgresGuardStore": (
            PostgresGuardStore,
            {"place": "postgresql://127.0.0.1:1/x", "schema": "guard", "timeout": 1.0},
        ),
        "GuardedTools": (
            GuardedTools,
            {
                "guard": made.guard, "mode": "table", "modes": {"crm/find": "table"},
                "timeout": 1.0, "asks": True,
            },
        ),
        "GuardPolicy": (
            GuardPolicy, {"guard": made.guard, "unguarded": ["a"], "then": GuardPolicy(made.guard)}
        ),
    }  # fmt: skip


def methods(made: Made) -> dict[str, Call]:
    guard, store = made.guard, made.world.store
    asked = {"request": made.request, "principal": ANN, "justification": WHY}
    firewall, redactor = Firewall(), Redactor()
    raw = RawResult([{"a": 1}], "d", "s")

    async def invoke(**given: Any) -> Any:
        return await guard.invoke(given.pop("token", await made.token()), **given)

    return {
        "request_capabilities": (guard.request_capabilities, {"goal": "find", "most": 3}),
        "decide": (guard.decide, asked),
        "explain_policy": (guard.explain_policy, asked),
        "grant_capability": (guard.grant_capability, asked),
        "attenuate": (guard.attenuate, {"token": "t", "narrower": Narrower(uses=1)}),
        "revoke": (guard.revoke, {"token": "t"}),
        "invoke": (
            invoke,
            {
                "token": "t", "principal": ANN, "arguments": {"id": 1}, "response_mode": "table",
                "dry_run": False, "timeout": 1.0, "progress": lambda done, total: None,
            },
        ),
        "invoke with a token": (
            invoke,
            {
                "principal": ANN, "arguments": {"id": 1}, "response_mode": "table",
                "dry_run": True, "timeout": 1.0, "progress": lambda done, total: None,
            },
        ),
        "repeated": (
            guard.repeated,
            {
                "key": "k", "principal": ANN, "capability": "crm/find", "arguments": {"id": 1},
                "response_mode": "table", "task": "t", "timeout": 1.0,
            },
        ),
        "expand": (
            guard.expand,
            {"handle": "h", "principal": ANN, "query": Query(), "task": "t", "timeout": 1.0},
        ),
        "explain": (guard.explain, {"action_id": "a"}),
        "decide an approval": (
            decide,
            {
                "store": store, "keys": KEYS, "id": "q", "by": "bob", "approved": True,
                "now": made.now, "note": "n",
            },
        ),
        "pending": (pending, {"store": store, "now": made.now, "limit": 5}),
        "registry.spec": (guard.registry.spec, {"name": "crm/find"}),
        "registry.of_tool": (guard.registry.of_tool, {"tool": "crm_find"}),
        "registry.tool_of": (guard.registry.tool_of, {"name": "crm/find"}),
        "registry.mismatch": (
            guard.registry.mismatch, {"name": "crm/find", "arguments": {"id": 1}}
        ),
        "registry.search": (guard.registry.search, {"goal": "find", "most": 3}),
        "router.run": (
            StaticRouter({}).run, {"call": DriverCall("a/b", "o", {}, "k"), "idempotent": True}
        ),
        "firewall.check": (firewall.check, {"mode": "table", "constraints": FrameLimits()}),
        "firewall.hides": (firewall.hides, {"field": "a", "constraints": FrameLimits()}),
        "firewall.frame": (
            firewall.frame,
            {"raw": raw, "mode": "table", "constraints": FrameLimits(), "handle": "h"},
        ),
        "firewall.select": (
            firewall.select,
            {"value": [{"a": 1}], "fields": ["a"], "equals": {"a": 1}, "offset": 0, "limit": 1},
        ),
        "redactor.hiding": (redactor.hiding, {"fields": ["a"]}),
        "redactor.hides": (redactor.hides, {"field": "a"}),
        "redactor.text": (redactor.text, {"text": "a"}),
        "redactor.value": (redactor.value, {"value": "a"}),
        "stream.feed": (RedactorStream().feed, {"chunk": "a"}),
        "keyring.mac": (KEYS.mac, {"key": "k1", "message": b"m"}),
        "opened": (opened, {"token": "t", "keys": KEYS, "now": made.now}),
        "signed": (signed, {"seq": 1, "last": "0" * 64, "at": 1, "keys": KEYS}),
        "verify": (verify, {"links": [], "head": None, "keys": KEYS}),
        "check_export": (check_export, {"text": "", "head": None, "keys": KEYS}),
        "export": (lambda links: list(export(links)), {"links": []}),
        "replayed": (lambda links, rules: list(replayed(links, rules)),
                     {"links": [], "rules": made.rules}),
        "Head.of_json": (Head.of_json, {"data": {}}),
        "rules.parse": (parse, {"text": RULES, "form": "yaml"}),
        "rules.read": (read, {"text": RULES, "form": "yaml"}),
        "rules.cases": (cases, {"text": RULES, "form": "yaml"}),
        "spec_file.parse": (parse_specs, {"text": "version: 1", "form": "yaml"}),
        "constraints.narrowed": (Constraints(1).narrowed, {"other": Constraints(1)}),
        "constraints.of_json": (Constraints.of_json, {"data": Constraints(1).as_json()}),
        "principals.resolve": (Principals([ANN]).resolve, {"name": "ann", "tenant": "acme"}),
    }  # fmt: skip


EXEMPT = {("Registry", "naming", "function"), ("Registry", "naming", "class")}
"""Functions of the caller: what they raise is the caller's."""
FREE = {
    ("CedarPolicy", "text"), ("rules.read", "text"), ("rules.read", "form"),
    ("RawResult", "value"), ("firewall.select", "value"), ("redactor.value", "value"),
    ("registry.mismatch", "arguments"),
}  # fmt: skip
"""The arguments that are values of any type, or of which a wrong one makes a policy that denies."""
MADE = Made()
ALL = {**constructors(MADE), **methods(MADE)}


async def given(call: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    found = call(**arguments)
    return await found if inspect.isawaitable(found) else found


@pytest.mark.parametrize("name", ALL)
async def test_a_wrong_value_is_refused_by_a_typed_error_or_accepted(name: str) -> None:
    call, right = ALL[name]
    bare = []
    for part, (kind, wrong) in product(right, WRONG.items()):
        try:
            await given(call, {**right, part: wrong})
        except KernelError as error:
            if len(str(error)) > 5_000:
                bare.append((part, kind, f"a message of {len(str(error)):,} characters"))
        except Exception as error:
            if (name, part, kind) not in EXEMPT:
                bare.append((part, kind, repr(error)[:200]))
    assert bare == []


@pytest.mark.parametrize("name", ALL)
async def test_an_object_of_another_kind_is_never_accepted(name: str) -> None:
    call, right = ALL[name]
    accepted = []
    for part in right:
        if (name, part) in FREE:
            continue
        try:
            await given(call, {**right, part: object()})
        except KernelError:
            continue
        accepted.append(part)
    assert accepted == []
