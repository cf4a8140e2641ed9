"""Capability security between a model and its tools.

Each name is loaded when it is first used, so that a caller pays only for the parts it uses.
"""

from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .approvals import ApprovalRefused, PendingApproval
    from .calls import NotShown, ResultGone
    from .cedar import CedarPolicy
    from .drivers import (
        Driver,
        DriverCall,
        Indeterminate,
        InMemoryDriver,
        NoEffect,
        StaticRouter,
        ToolFailed,
        ToolsDriver,
    )
    from .drivers.http import Endpoint, HTTPDriver, HTTPFailed
    from .errors import GuardError
    from .firewall import (
        Budgets,
        Cut,
        Firewall,
        Frame,
        FrameLimits,
        RawRefused,
        RawResult,
        Redactor,
        RedactorStream,
        ResponseMode,
    )
    from .grants import ApprovalNeeded, CapabilityRequest, Denied, Narrower
    from .guard import Guard
    from .handles import HandleRefused, Query
    from .loop import GuardedTools, GuardPolicy
    from .policy import Constraints, Decision, DefaultPolicy, Request, RulePolicy
    from .ports import Redacts, Routes, Shows
    from .principals import AsGiven, Principals, Resolver, UnknownPrincipal
    from .registry import Found, Registry, UnknownCapability
    from .rules import RuleError, RuleSet
    from .spec import CapabilitySpec, SafetyClass, Sensitivity
    from .stores import (
        GuardStore,
        MemoryGuardStore,
        PostgresGuardStore,
        SQLiteGuardStore,
        StoreFailed,
    )
    from .tokens import Key, Keyring, TokenRefused
    from .trace import ActionTrace, Broken, Head

__all__ = [
    "ActionTrace",
    "ApprovalNeeded",
    "ApprovalRefused",
    "AsGiven",
    "Broken",
    "Budgets",
    "CapabilityRequest",
    "CapabilitySpec",
    "CedarPolicy",
    "Constraints",
    "Cut",
    "Decision",
    "DefaultPolicy",
    "Denied",
    "Driver",
    "DriverCall",
    "Endpoint",
    "Firewall",
    "Found",
    "Frame",
    "FrameLimits",
    "Guard",
    "GuardError",
    "GuardPolicy",
    "GuardStore",
    "GuardedTools",
    "HTTPDriver",
    "HTTPFailed",
    "HandleRefused",
    "Head",
    "InMemoryDriver",
    "Indeterminate",
    "Key",
    "Keyring",
    "MemoryGuardStore",
    "Narrower",
    "NoEffect",
    "NotShown",
    "PendingApproval",
    "PostgresGuardStore",
    "Principals",
    "Query",
    "RawRefused",
    "RawResult",
    "Redactor",
    "RedactorStream",
    "Redacts",
    "Registry",
    "Request",
    "Resolver",
    "ResponseMode",
    "ResultGone",
    "Routes",
    "RuleError",
    "RulePolicy",
    "RuleSet",
    "SQLiteGuardStore",
    "SafetyClass",
    "Sensitivity",
    "Shows",
    "StaticRouter",
    "StoreFailed",
    "TokenRefused",
    "ToolFailed",
    "ToolsDriver",
    "UnknownCapability",
    "UnknownPrincipal",
]

_NAMES = {
    "approvals": "ApprovalRefused PendingApproval",
    "calls": "NotShown ResultGone",
    "cedar": "CedarPolicy",
    "drivers": "Driver DriverCall InMemoryDriver Indeterminate NoEffect StaticRouter ToolFailed "
    "ToolsDriver",
    "drivers.http": "Endpoint HTTPDriver HTTPFailed",
    "errors": "GuardError",
    "firewall": "Budgets Cut Firewall Frame FrameLimits RawRefused RawResult Redactor "
    "RedactorStream ResponseMode",
    "grants": "ApprovalNeeded CapabilityRequest Denied Narrower",
    "guard": "Guard",
    "handles": "HandleRefused Query",
    "loop": "GuardPolicy GuardedTools",
    "policy": "Constraints Decision DefaultPolicy Request RulePolicy",
    "ports": "Redacts Routes Shows",
    "principals": "AsGiven Principals Resolver UnknownPrincipal",
    "registry": "Found Registry UnknownCapability",
    "rules": "RuleError RuleSet",
    "spec": "CapabilitySpec SafetyClass Sensitivity",
    "stores": "GuardStore MemoryGuardStore PostgresGuardStore SQLiteGuardStore StoreFailed",
    "tokens": "Key Keyring TokenRefused",
    "trace": "ActionTrace Broken Head",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

_LOADING = RLock()
"""Two threads that load a module at once could see half of it."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _LOADING:
        value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
