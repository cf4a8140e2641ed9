"""The contracts of AgenticKernel as pytest classes: subclass one, supply its fixtures, run pytest.

    class TestAcmeRuntime(RuntimeContract):
        features = RuntimeFeatures(pauses=True)

        @pytest_asyncio.fixture
        async def runtime(self): ...     # anything that is a Runtime and a Query

        @pytest.fixture
        def work(self): ...              # a `Work`: makes Tasks that succeed, fail, … here

`KernelContract`, `RuntimeContract` and `QueryContract` need only the kernel. The others need the
engine. Each is imported on first access, so that the kit does not slow the start of pytest if it is
installed but not used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .approvals import ApprovalsContract
    from .capabilities import CapabilityRegistryContract
    from .compactor import CompactorContract
    from .delegation import DelegationContract
    from .disk import Disk
    from .features import (
        ApprovalsFeatures,
        CapabilityRegistryFeatures,
        CompactorFeatures,
        DelegationFeatures,
        MemoryFeatures,
        MemoryGovernorFeatures,
        MiddlewareFeatures,
        ObserverFeatures,
        PlannerFeatures,
        PolicyFeatures,
        RuntimeFeatures,
        StoreFeatures,
        SubstrateFeatures,
        ToolFeatures,
        ToolSchedulerFeatures,
        ValidatorFeatures,
    )
    from .governor import MemoryGovernorContract
    from .kernel import KernelContract
    from .memory import MemoryContract
    from .middleware import MiddlewareContract
    from .observer import ObserverContract
    from .operations import Operations
    from .planner import PlannerContract
    from .policy import PolicyContract
    from .processes import StoreFactory
    from .query import QueryContract
    from .reading import Reader
    from .rules import RULES, Rule, RuleError
    from .runtime import RuntimeContract
    from .scripted import ScriptedSubstrate, ScriptedWork
    from .store import StoreContract
    from .substrate import SubstrateContract
    from .substrate_bounds import Bounds
    from .substrate_factory import SubstrateFactory
    from .substrate_script import Fail, Hear, Mark, Say, Script
    from .substrate_work import SubstrateWork
    from .tool import ToolContract
    from .tool_scheduler import ToolSchedulerContract
    from .validator import ValidatorContract
    from .work import HearingWork, OutputWork, RefusingWork, ResultWork, System, Work

__all__ = [
    "RULES",
    "ApprovalsContract",
    "ApprovalsFeatures",
    "Bounds",
    "CapabilityRegistryContract",
    "CapabilityRegistryFeatures",
    "CompactorContract",
    "CompactorFeatures",
    "DelegationContract",
    "DelegationFeatures",
    "Disk",
    "Fail",
    "Hear",
    "HearingWork",
    "KernelContract",
    "Mark",
    "MemoryContract",
    "MemoryFeatures",
    "MemoryGovernorContract",
    "MemoryGovernorFeatures",
    "MiddlewareContract",
    "MiddlewareFeatures",
    "ObserverContract",
    "ObserverFeatures",
    "Operations",
    "OutputWork",
    "PlannerContract",
    "PlannerFeatures",
    "PolicyContract",
    "PolicyFeatures",
    "QueryContract",
    "Reader",
    "RefusingWork",
    "ResultWork",
    "Rule",
    "RuleError",
    "RuntimeContract",
    "RuntimeFeatures",
    "Say",
    "Script",
    "ScriptedSubstrate",
    "ScriptedWork",
    "StoreContract",
    "StoreFactory",
    "StoreFeatures",
    "SubstrateContract",
    "SubstrateFactory",
    "SubstrateFeatures",
    "SubstrateWork",
    "System",
    "ToolContract",
    "ToolFeatures",
    "ToolSchedulerContract",
    "ToolSchedulerFeatures",
    "ValidatorContract",
    "ValidatorFeatures",
    "Work",
]

_HOMES = {
    "approvals": ("ApprovalsContract",),
    "capabilities": ("CapabilityRegistryContract",),
    "compactor": ("CompactorContract",),
    "delegation": ("DelegationContract",),
    "disk": ("Disk",),
    "features": (
        "ApprovalsFeatures",
        "CapabilityRegistryFeatures",
        "CompactorFeatures",
        "DelegationFeatures",
        "MemoryFeatures",
        "MemoryGovernorFeatures",
        "MiddlewareFeatures",
        "ObserverFeatures",
        "PlannerFeatures",
        "PolicyFeatures",
        "RuntimeFeatures",
        "StoreFeatures",
        "SubstrateFeatures",
        "ToolFeatures",
        "ToolSchedulerFeatures",
        "ValidatorFeatures",
    ),
    "governor": ("MemoryGovernorContract",),
    "kernel": ("KernelContract",),
    "memory": ("MemoryContract",),
    "middleware": ("MiddlewareContract",),
    "observer": ("ObserverContract",),
    "operations": ("Operations",),
    "planner": ("PlannerContract",),
    "policy": ("PolicyContract",),
    "processes": ("StoreFactory",),
    "query": ("QueryContract",),
    "reading": ("Reader",),
    "rules": ("RULES", "Rule", "RuleError"),
    "runtime": ("RuntimeContract",),
    "scripted": ("ScriptedSubstrate", "ScriptedWork"),
    "store": ("StoreContract",),
    "substrate": ("SubstrateContract",),
    "substrate_bounds": ("Bounds",),
    "substrate_factory": ("SubstrateFactory",),
    "substrate_script": ("Fail", "Hear", "Mark", "Say", "Script"),
    "substrate_work": ("SubstrateWork",),
    "tool": ("ToolContract",),
    "tool_scheduler": ("ToolSchedulerContract",),
    "validator": ("ValidatorContract",),
    "work": ("HearingWork", "OutputWork", "RefusingWork", "ResultWork", "System", "Work"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{home}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
